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
	gpus := func(products ...string) (found []Detected) {
		for i, p := range products {
			found = append(found, Detected{Device(deviceFile(i)), i, p})
		}
		return found
	}
	const h, a = "NVIDIA H200", "NVIDIA A100"
	backwards := gpus(h, h, h)
	for i := range backwards {
		backwards[i].Index = len(backwards) - 1 - i
	}
	const mig = "MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap"
	for name, tt := range map[string]struct {
		conf, gres string // gres empty: slurm.conf cannot be read
		found      []Detected
		want       string // the places, or what the error has after "!"
	}{
		"a part":                   {"Name=gpu File=/dev/nvidia[1-2]", "", nil, "1 2"},
		"another order":            {"Name=gpu File=/dev/nvidia7\nName=gpu File=/dev/nvidia[3,1]", "", nil, "7 3 1"},
		"lines for all come first": {"NodeName=n1 Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia3", "", nil, "3 0"},
		"another node":             {"NodeName=n2 Name=gpu Foo=1\nNodeName=n[0-1] Name=gpu File=/dev/nvidia[4-5]", "", nil, "4 5"},
		"a broken list":            {"NodeName=n1,n[2 Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia1", "", nil, "1"},
		"a list that is not plain": {"NodeName=n1{x} Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia1", "", nil, "!no plain host list"},
		"other resources":          {"Name=nic Count=4\nName=shard Count=8\nName=gpu File=/dev/nvidia1", "", nil, "1"},
		"one type, no slurm.conf":  {"Name=gpu Type=h200 File=/dev/nvidia[2-3]\nName=gpu Type=H200 File=/dev/nvidia1", "", nil, "2 3 1"},
		"two types":                {"Name=gpu Type=a100 File=/dev/nvidia0\nName=gpu Type=h200 File=/dev/nvidia[1-2]\nName=gpu Type=a100 File=/dev/nvidia3", "gpu:h200:2,gpu:a100:2", nil, "1 2 0 3"},
		"two types, fewer of one":  {"Name=gpu Type=a100 File=/dev/nvidia[0-1]\nName=gpu Type=h200 File=/dev/nvidia[2-3]", "gpu:a100:1,gpu:h200:2", nil, "0 2 3"},
		"two types, none in Gres=": {"Name=gpu Type=a100 File=/dev/nvidia3\nName=gpu Type=h200 File=/dev/nvidia0", "gpu:2", nil, "3 0"},
		"two types, unread":        {"Name=gpu Type=a100 File=/dev/nvidia3\nName=gpu Type=h200 File=/dev/nvidia0", "", nil, "!several Types"},
		"MIG mixed":                {"Name=gpu Type=x " + mig + "21,/dev/nvidia-caps/nvidia-cap22\nName=gpu Type=x File=/dev/nvidia1", "", nil, "0,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22 1"},
		"no file":                  {"Name=gpu Count=4", "gpu:4", nil, "!no line gives the node a device file"},
		"no line":                  {"NodeName=n2 Name=gpu File=/dev/nvidia0", "gpu:4", nil, "!no line gives the node a device file"},
		"an unknown key":           {"Name=gpu File=/dev/nvidia0 Foo=1", "", nil, "!is not known"},
		"upper case":               {"Name=GPU File=/dev/nvidia0", "", nil, "!Name=GPU"},
		"detected":                 {"AutoDetect=nvidia", "", gpus(h, h, h), "0 1 2"},
		"detected, but not here":   {"AutoDetect=nvidia\nNodeName=n1 AutoDetect=off\nNodeName=n1 Name=gpu File=/dev/nvidia[2,0]", "", gpus(h, h, h), "2 0"},
		"detected here":            {"AutoDetect=off\nNodeName=n1 AutoDetect=nvidia", "", gpus(h, h), "0 1"},
		"eleven":                   {"AutoDetect=nvidia", "", gpus(h, h, h, h, h, h, h, h, h, h, h), "0 1 2 3 4 5 6 7 8 9 10"},
		"detected, unknown":        {"AutoDetect=nvidia", "", nil, "!the inventory"},
		"two ways":                 {"AutoDetect=nvidia\nAutoDetect=off", "", gpus(h), "!for the same node"},
		"a way of Name=":           {"Name=gpu AutoDetect=nvidia File=/dev/nvidia0", "", gpus(h), "0"},
		"another way":              {"AutoDetect=rsmi", "", gpus(h), "!AutoDetect=rsmi"},
		"full":                     {"AutoDetect=full", "", gpus(h), "!AutoDetect=full"},
		"unlike":                   {"AutoDetect=nvidia", "gpu:a100:1,gpu:h200:2", gpus(h, a, h), "0 1 2"},
		"a display GPU":            {"AutoDetect=nvidia", "gpu:h200:2", gpus(a, h, h), "1 2"},
		"unlike, no types":         {"AutoDetect=nvidia", "gpu:2", gpus(a, h, h), "!another number of GPUs"},
		"unlike, all":              {"AutoDetect=nvidia", "gpu:3", gpus(a, h, h), "0 1 2"},
		"unlike, fewer":            {"AutoDetect=nvidia", "gpu:h200:1", gpus(a, h, h), "!counts 1 of Type h200, and the machine has 2"},
		"of two types":             {"AutoDetect=nvidia", "gpu:h200:1,gpu:h20:2", gpus(a, h, h), "!is of two Types"},
		"unlike, unread":           {"AutoDetect=nvidia", "", gpus(a, h, h), "!GPUs that differ"},
		"detected and listed":      {"AutoDetect=nvidia\nName=gpu Type=h200 File=/dev/nvidia2\nName=gpu Type=h200 File=/dev/nvidia1", "gpu:h200:2", gpus(h, h, h), "1 2"},
		"fewer lines than Gres=":   {"AutoDetect=nvidia\nName=gpu Type=h200 File=/dev/nvidia2", "gpu:h200:2", gpus(h, h, h), "!counts as many as the lines"},
		"NVML":                     {"AutoDetect=nvml", "", gpus(h, h, h), "0 1 2"},
		"NVML's order":             {"AutoDetect=nvml", "gpu:3", backwards, "2 1 0"},
		"NVML's order, a part":     {"AutoDetect=nvml", "gpu:2", backwards, "!NVML's order differs"},
		"NVML, all listed":         {"AutoDetect=nvml\nName=gpu File=/dev/nvidia[0-2]", "gpu:3", gpus(h, h, h), "0 1 2"},
		"NVML, a part listed":      {"AutoDetect=nvml\nName=gpu File=/dev/nvidia[1-2]", "gpu:2", gpus(h, h, h), "!unless the lines have all GPUs"},
	} {
		t.Run(name, func(t *testing.T) {
			m := Machine{
				Counted: func() ([]GPUCount, error) {
					if tt.gres == "" {
						return nil, errors.New("no slurm.conf")
					}
					return CountedBy("slurm.conf", []byte("NodeName=DEFAULT Gres=gpu:99\nNodeName=n2\nNodeName=n[0-1] CPUs=2 Gres="+tt.gres+"\n"), "n1")
				},
				Detected: func(string) ([]Detected, error) {
					if tt.found == nil {
						return nil, errors.New("the inventory is not there")
					}
					return tt.found, nil
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
		m := Machine{Counted: func() ([]GPUCount, error) { return CountedBy("slurm.conf", data, "n1") }, Detected: func(string) ([]Detected, error) { return []Detected{{"/dev/nvidia0", 0, "a"}}, nil }}
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
