package gres

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// TestPlaces has the lists that slurmd makes of gres.conf. TestRealPlaces of nodeagent/hook compares
// them with the devices that a real slurmd's jobs get.
func TestPlaces(t *testing.T) {
	const mig = "MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap"
	for name, tt := range map[string]struct {
		conf, gres string // gres empty: slurm.conf cannot be read
		found      string // nothing: the machine's GPUs are not known
		want       string // the places, or what the error has after "!"
	}{
		"a part":                   {"Name=gpu File=/dev/nvidia[1-2]", "", "", "1 2"},
		"another order":            {"Name=gpu File=/dev/nvidia7\nName=gpu File=/dev/nvidia[3,1]", "", "", "7 3 1"},
		"lines for all come first": {"NodeName=n1 Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia3", "", "", "3 0"},
		"another node":             {"NodeName=n2 Name=gpu Foo=1\nNodeName=n[0-1] Name=gpu File=/dev/nvidia[4-5]", "", "", "4 5"},
		"a broken list":            {"NodeName=n1,n[2 Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia1", "", "", "1"},
		"a list that is not plain": {"NodeName=n1{x} Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia1", "", "", "!no plain host list"},
		"other resources":          {"Name=nic Count=4\nName=shard Count=8\nName=gpu File=/dev/nvidia1", "", "", "1"},
		"one type, no slurm.conf":  {"Name=gpu Type=h200 File=/dev/nvidia[2-3]\nName=gpu Type=H200 File=/dev/nvidia1", "", "", "2 3 1"},
		"two types":                {"Name=gpu Type=a100 File=/dev/nvidia0\nName=gpu Type=h200 File=/dev/nvidia[1-2]\nName=gpu Type=a100 File=/dev/nvidia3", "gpu:h200:2,gpu:a100:2", "", "1 2 0 3"},
		"two types, fewer of one":  {"Name=gpu Type=a100 File=/dev/nvidia[0-1]\nName=gpu Type=h200 File=/dev/nvidia[2-3]", "gpu:a100:1,gpu:h200:2", "", "0 2 3"},
		"two types, none in Gres=": {"Name=gpu Type=a100 File=/dev/nvidia3\nName=gpu Type=h200 File=/dev/nvidia0", "gpu:2", "", "3 0"},
		"two types, unread":        {"Name=gpu Type=a100 File=/dev/nvidia3\nName=gpu Type=h200 File=/dev/nvidia0", "", "", "!several Types"},
		"MIG mixed":                {"Name=gpu Type=x " + mig + "21,/dev/nvidia-caps/nvidia-cap22\nName=gpu Type=x File=/dev/nvidia1", "", "", "0,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22 1"},
		"no file":                  {"Name=gpu Count=4", "gpu:4", "", "!no line gives the node a device file"},
		"no line":                  {"NodeName=n2 Name=gpu File=/dev/nvidia0", "gpu:4", "", "!no line gives the node a device file"},
		"an unknown key":           {"Name=gpu File=/dev/nvidia0 Foo=1", "", "", "!is not known"},
		"upper case":               {"Name=GPU File=/dev/nvidia0", "", "", "!Name=GPU"},
		"detected":                 {"AutoDetect=nvidia", "", "0 1 2", "0 1 2"},
		"detected by NVML":         {"AutoDetect=nvml", "gpu:2", "0 1 2", "0 1 2"},
		"detected, but not here":   {"AutoDetect=nvidia\nNodeName=n1 AutoDetect=off\nNodeName=n1 Name=gpu File=/dev/nvidia[2,0]", "", "0 1 2", "2 0"},
		"detected here":            {"AutoDetect=off\nNodeName=n1 AutoDetect=nvidia", "", "0 1", "0 1"},
		"detected, unknown":        {"AutoDetect=nvidia", "", "", "!AutoDetect=nvidia: the inventory"},
		"detected and listed":      {"AutoDetect=nvidia\nName=gpu File=/dev/nvidia[1-2]", "gpu:2", "0 1 2", "!AutoDetect=nvidia beside lines"},
		"two ways":                 {"AutoDetect=nvidia\nAutoDetect=off", "", "0", "!for the same node"},
		"a way of Name=":           {"Name=gpu AutoDetect=nvidia File=/dev/nvidia0", "", "", "0"},
		"another way":              {"AutoDetect=rsmi", "", "0", "!AutoDetect=rsmi"},
		"full":                     {"AutoDetect=full", "", "0", "!AutoDetect=full"},
	} {
		t.Run(name, func(t *testing.T) {
			m := Machine{
				Counted: func() ([]GPUCount, error) {
					if tt.gres == "" {
						return nil, errors.New("no slurm.conf")
					}
					return CountedBy("slurm.conf", []byte("NodeName=DEFAULT Gres=gpu:99\nNodeName=n2\nNodeName=n[0-1] CPUs=2 Gres="+tt.gres+"\n"), "n1")
				},
				Detected: func() (found []Device, err error) {
					for number := range strings.FieldsSeq(tt.found) {
						found = append(found, Device("/dev/nvidia"+number))
					}
					if found == nil {
						err = errors.New("the inventory is not there")
					}
					return found, err
				},
			}
			lines, err := OfNode("gres.conf", []byte(tt.conf), "n1")
			var places []Device
			if err == nil {
				places, err = m.Places(lines)
			}
			var words []string
			for _, p := range places {
				words = append(words, strings.TrimPrefix(string(p), "/dev/nvidia"))
			}
			got := strings.Join(words, " ")
			if wrong, is := strings.CutPrefix(tt.want, "!"); is && (err == nil || !strings.Contains(err.Error(), wrong)) || !is && (err != nil || got != tt.want) {
				t.Errorf("got %q and %v, want %q", got, err, tt.want)
			}
		})
	}
}

// TestCountedBy reads Gres= of a node as slurmd does.
func TestCountedBy(t *testing.T) {
	for conf, want := range map[string]string{
		"NodeName=n1 Gres=gpu:h200:4(S:0),gpu:h200:4(S:1),nic:2":      "h200:8",
		"NodeName=DEFAULT Gres=gpu:4\nNodeName=n[1-3] CPUs=2":         ":4",
		"NodeName=default Gres=gpu:4\nNodeName=n1 Gres=gpu:a:1,gpu:b": "a:1 b:1",
		"NodeName=n2 Gres=gpu:4":                                      "slurm.conf has no line for node n1",
		"NodeName=n1 Gres=gpu:x:y:z":                                  `gres "gpu:x:y:z": want such as gpu:h100:8`,
		"NodeName=n1 Gres=GPU:2,gpu:a:,gpus:4,gpu::3":                 "a:1 :3",
	} {
		counted, err := CountedBy("slurm.conf", []byte(conf), "n1")
		var words []string
		for _, c := range counted {
			words = append(words, c.Type+":"+string(rune('0'+c.Count)))
		}
		got := strings.Join(words, " ")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", conf, got, want)
		}
	}
}

// FuzzOfNode has OfNode read what Parse reads, and no text end the hook.
func FuzzOfNode(f *testing.F) {
	for _, s := range []string{"Name=gpu File=/dev/nvidia[0-3]", "NodeName=n[1-2] AutoDetect=off", "NodeName=n1,n[2 Name=gpu", "AutoDetect=nvml\nName=gpu Type=a MultipleFiles=/dev/a,/dev/b", "NodeName=n1 Name=gpu File=/dev/a\nName=gpu File=/dev/b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !small(data) {
			return
		}
		lines, err := OfNode("gres.conf", data, "n1")
		m := Machine{Counted: func() ([]GPUCount, error) { return CountedBy("slurm.conf", data, "n1") }, Detected: func() ([]Device, error) { return []Device{"/dev/nvidia0"}, nil }}
		_, _ = m.Places(lines)
		all, bad := Parse("gres.conf", data)
		if bad != nil {
			return
		}
		if err != nil {
			if !errors.Is(err, hostlist.ErrNotPlain) && !strings.Contains(err.Error(), "NodeName") {
				t.Fatalf("%q: Parse reads it, OfNode: %v", data, err)
			}
			return
		}
		byNode := ByNode(slices.DeleteFunc(all, func(l Line) bool { return l.Nodes == "" }), nil)
		own := slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return l.Nodes == "" })
		for i := range own {
			own[i].Nodes, own[i].Number = "", 0
		}
		want := byNode["n1"]
		if len(want) > len(own) {
			return // ByNode has a line for each time that a list names the node
		}
		if diff := cmp.Diff(own, want, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: (-OfNode +ByNode):\n%s", data, diff)
		}
	})
}
