package publication

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

func TestCompileRefuses(t *testing.T) {
	two, none, less := 2.0, math.NaN(), math.Inf(-1)
	refuse := func(string) (inputs.Selector, error) { return nil, errors.New("it ends early") }
	seconds := func(n int) Duration { return Duration{time.Duration(n) * time.Second, true} }
	tests := map[string][]Publication{
		`slurmVersion: slurm release "23.02"`:       {{SlurmVersion: "23.02"}},
		`format: "xml": want conf, yaml or nothing`: {{Format: "xml"}},
		`namespace: "a.b": want`:                    {{Namespace: "a.b"}},
		`configMap: "a..b": want`:                   {{ConfigMap: "a..b"}},
		`topology.yaml needs 25.05`:                 {{SlurmVersion: "24.11", Format: "yaml"}},
		`also belongs to publication "a"`:           {{Name: "a", ConfigMap: "c"}, {Name: "b", ConfigMap: "c"}},
		`slurmNames: "nick"`:                        {{SlurmNames: "nick"}},
		`nodes.selector: "a in (": want a label selector such as key=value: it ends early`: {{Nodes: Selection{Selector: "a in ("}}},
		`maxChange: "2"`:                              {{MaxChange: &two}},
		`maxChange: "NaN": want a share`:              {{MaxChange: &none}},
		`maxChange: "-Inf": want a share`:             {{MaxChange: &less}},
		`settleTime: "1h0m1s": want 1h0m0s or less`:   {{SettleTime: seconds(3601)}},
		`fabricWait: "25h0m0s": want 24h0m0s or less`: {{FabricWait: seconds(25 * 3600)}},
		`maxDomainGPUs: "gb200": want one word of the product in capital letters, such as GB200`:       {{MaxDomainGPUs: map[string]int{"gb200": 8}}},
		`maxDomainGPUs: "VR200 NVL144": want one word of the product`:                                  {{MaxDomainGPUs: map[string]int{"VR200 NVL144": 144}}},
		`maxDomainGPUs: "": want one word of the product`:                                              {{MaxDomainGPUs: map[string]int{"": 144}}},
		`tierLabels: "not a label!!": want letters`:                                                    {{TierLabels: []string{"rack", "not a label!!"}}},
		`tierLabels: "": want letters`:                                                                 {{TierLabels: []string{""}}},
		`tierLabels: "auto": want it alone`:                                                            {{TierLabels: []string{"auto", "rack"}}},
		`domainLabels: "a b": want letters`:                                                            {{DomainLabels: []string{"auto", "a b"}}},
		`slurmNames: "label:a b": want a key after the colon`:                                          {{SlurmNames: "label:a b"}},
		`slurmNames: "": want the name of a Slinky Controller`:                                         {{SlurmNames: "slinky:"}},
		`nodes.slinky: "a/b/c": want the name of a Slinky`:                                             {{Nodes: Selection{Slinky: "a/b/c"}}},
		`baseBlockSize: "65536": want 1 to`:                                                            {{BaseBlockSize: 65536}},
		`blockSizes: block size 12: want`:                                                              {{BaseBlockSize: 4, BlockSizes: []int{12}}},
		`blockSizes: block size 0: want 1`:                                                             {{BlockSizes: []int{0}}},
		`gres.naming: "long": want model, full or short`:                                               {{Gres: Gres{Naming: "long"}}},
		`gres.types: "NVIDIA L4": type "4": want a letter`:                                             {{Gres: Gres{Types: map[string]string{"NVIDIA L4": "4"}}}},
		`gres.leaveOut: "n1": "3": want the UUID of a GPU`:                                             {{Gres: Gres{LeaveOut: Pairs[[]string]{"n1": {"GPU-5a", "3"}}}}},
		`gres.leaveOut: "n1": "/dev/nvidia": want the UUID`:                                            {{Gres: Gres{LeaveOut: Pairs[[]string]{"n1": {"/dev/nvidia"}}}}},
		`gres.leaveOut: "n[1": `:                                                                       {{Gres: Gres{LeaveOut: Pairs[[]string]{"n[1": {"/dev/nvidia3"}}}}},
		`gres.leaveOut: node n2 is named twice`:                                                        {{Gres: Gres{LeaveOut: Pairs[[]string]{"n[1-3]": {"/dev/nvidia3"}, "n2": {"/dev/nvidia2"}}}}},
		`gres.autoDetect: "rsmi": want off, nvidia`:                                                    {{Gres: Gres{AutoDetect: "rsmi"}}},
		`gres.autoDetect: "full": want off, nvidia or nvml`:                                            {{SlurmVersion: "25.11", Gres: Gres{AutoDetect: "full"}}},
		`parentBlocks: 6 blocks in a parent domain: want`:                                              {{ParentBlocks: 6}},
		`blocksBy: "rack": want nvlink or leaf`:                                                        {{BlocksBy: "rack"}},
		`fabricFiles: "texts/a": want the absolute path`:                                               {{FabricFiles: []string{"texts/a"}}},
		`fabricFiles: "/texts/": want the absolute path`:                                               {{FabricFiles: []string{"/texts/"}}},
		`fabricFiles: "/a": want each entry once`:                                                      {{FabricFiles: []string{"/a", "/a"}}},
		`fabricFiles: "configmaps: ": want a label selector after configmaps:`:                         {{FabricFiles: []string{"configmaps: "}}},
		`such as configmaps:quoin.dev/fabric=a: it ends early`:                                         {{FabricFiles: []string{"configmaps:a in ("}}},
		`computeAdapters: "mlx5_[": want a name of an adapter`:                                         {{ComputeAdapters: []string{"mlx5_0", "mlx5_["}}},
		`computeAdapters: "": want a name of an adapter`:                                               {{ComputeAdapters: []string{""}}},
		`rootSwitch: "a b": want letters`:                                                              {{RootSwitch: "a b"}},
		`fabrics: "one": want separate or nothing`:                                                     {{Fabrics: "one"}},
		`fabrics: "separate": want nothing beside rootSwitch`:                                          {{Fabrics: "separate", RootSwitch: "core"}},
		`defaultTopology: "leaf": want nvl, fabric, flat, or`:                                          {{DefaultTopology: "leaf"}},
		`defaultTopology: "nvl": want leaf, fabric, flat, or`:                                          {{DefaultTopology: "nvl", BlocksBy: "leaf"}},
		`defaultTopology: "nvl": want fabric, flat, or none`:                                           {{DefaultTopology: "nvl", Topology: "tree"}},
		`defaultTopology: "fabric": want nvl, flat, or none`:                                           {{DefaultTopology: "fabric", Topology: "block"}},
		`defaultTopology: "nvl": want none with format conf`:                                           {{DefaultTopology: "nvl", Format: "conf"}},
		`flatTopology: "true": want false with format conf`:                                            {{FlatTopology: true, Format: "conf"}},
		`membership: "label": want file, annotation or nothing`:                                        {{Membership: "label"}},
		`membership: "annotation": want file with Slurm 24.11: nodes that name their place need 25.05`: {{SlurmVersion: "24.11", Membership: "annotation"}},
		`membership: "annotation": want file with annotate: false`:                                     {{Annotate: new(false), Membership: "annotation"}},
		`slurm.url: "slurm:6820": want http://HOST:PORT`:                                               {{Slurm: Slurm{URL: "slurm:6820"}}},
		`slurm.url: "unix:x": want http://HOST:PORT`:                                                   {{Slurm: Slurm{URL: "unix:x"}}},
		`slurm.url: "http://": want http://HOST:PORT`:                                                  {{Slurm: Slurm{URL: "http://"}}},
		`slurm.url: "http://a:b@c": want http://HOST:PORT`:                                             {{Slurm: Slurm{URL: "http://a:b@c"}}},
		`slurm.scontrol: "x": want none beside slurm.url`:                                              {{Slurm: Slurm{URL: "unix:/run/x", Scontrol: "x"}}},
		`slurm.tokenFile: "x": want none without slurm.url`:                                            {{Slurm: Slurm{TokenFile: "x"}}},
		`slurm.reconfigure: "true": want false without`:                                                {{Slurm: Slurm{Reconfigure: true}}},
		`block sizes [36 18]`:                                                                          {{BlockSizes: []int{36, 18}}},
	}
	for want, pubs := range tests {
		if _, err := Compile(pubs, refuse); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestSettleTimes has what follows from settleTime: one key says how long facts settle, how
// long they may keep changing, and how long the first publication waits.
func TestSettleTimes(t *testing.T) {
	for name, tt := range map[string]struct {
		settle                 Duration
		quiet, most, firstMost time.Duration
	}{
		"default": {Duration{}, 10 * time.Second, time.Minute, 5 * time.Minute},
		"short":   {Duration{Duration: 100 * time.Millisecond}, 100 * time.Millisecond, 600 * time.Millisecond, 3 * time.Second},
		"none":    {Duration{read: true}, 0, 0, 0},
	} {
		all, err := Compile([]Publication{{SettleTime: tt.settle}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := all[0]
		if p.SettleTime.Duration != tt.quiet || p.SettleMost() != tt.most || p.FirstMost() != tt.firstMost {
			t.Errorf("%s: facts settle for %s, %s at most, and the first publication waits %s", name, p.SettleTime, p.SettleMost(), p.FirstMost())
		}
	}
}

// TestFields holds that the tags of each key say all that they must, in words that are read, and no more.
func TestFields(t *testing.T) {
	for _, f := range new(Publication).fields() {
		tag := f.tag.Get
		known := 0
		for _, name := range []string{"yaml", "plan", "default", "words", "most", "unit"} {
			if _, given := f.tag.Lookup(name); given {
				known++
			}
		}
		kind := f.value.Kind()
		_, isTime := f.value.Interface().(Duration)
		_, badMost := time.ParseDuration(tag("most"))
		for what, wrong := range map[string]bool{
			"no tag that nobody reads":                    strings.Count(string(f.tag), `:"`) != known,
			"plan yes or no":                              tag("plan") != "yes" && tag("plan") != "no",
			"a default of a time, and of a pointer":       (isTime || kind == reflect.Pointer) && tag("default") == "",
			"a default that can be read":                  yaml.Unmarshal([]byte(tag("default")), f.value.Addr().Interface()) != nil,
			"words for texts alone":                       tag("words") != "" && kind != reflect.String,
			"most for times alone, such as 1h":            tag("most") != "" && (!isTime || badMost != nil),
			"a unit, because nobody knows what it counts": kind == reflect.Int && tag("unit") == "",
		} {
			if wrong {
				t.Errorf("%s with %s: want %s", f.key, f.tag, what)
			}
		}
	}
	if _, err := Compile([]Publication{Default()}, nil); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"format": "conf"}, (&Cluster{}).Keys()); diff != "" {
		t.Errorf("keys of an empty configuration (-want +got):\n%s", diff)
	}
}

// TestFollow makes files for the release that is seen, and else for the one of the stored plan. What
// a site has typed goes before both.
func TestFollow(t *testing.T) {
	for _, tt := range []struct {
		name     string
		typed    Publication
		seen     slurmconf.Release
		stored   string
		format   string // of the stored plan
		release  slurmconf.Release
		annotate bool
		keys     map[string]string
		guesses  bool
	}{
		{"nothing is known", Publication{}, 0, "", "", slurmconf.Release2505, true, map[string]string{"format": "yaml"}, true},
		{"seen", Publication{}, slurmconf.Release2605, "", "", slurmconf.Release2605, true, map[string]string{"format": "yaml", "slurmVersion": "26.05"}, false},
		{"an old one is seen", Publication{}, slurmconf.Release2411, "25.11", "", slurmconf.Release2411, false, map[string]string{"format": "conf", "slurmVersion": "24.11"}, false},
		{"seen before", Publication{}, 0, "24.11", "", slurmconf.Release2411, false, map[string]string{"format": "conf", "slurmVersion": "24.11"}, false},
		{"typed before, with its patch level", Publication{}, 0, "25.11.2", "", slurmconf.Release2511, true, map[string]string{"format": "yaml", "slurmVersion": "25.11"}, false},
		{"typed", Publication{SlurmVersion: "25.11.2"}, slurmconf.Release2605, "24.11", "", slurmconf.Release2511, true, map[string]string{"format": "yaml", "slurmVersion": "25.11.2"}, false},
		{"typed, and nothing is seen", Publication{SlurmVersion: "25.11"}, 0, "24.11", "", slurmconf.Release2511, true, map[string]string{"format": "yaml", "slurmVersion": "25.11"}, false},
		{"a form that is typed", Publication{Format: "yaml"}, slurmconf.Release2411, "", "", slurmconf.Release2411, false, map[string]string{"format": "yaml", "slurmVersion": "24.11"}, false},
		{"topology.conf of an older Slurm", Publication{}, slurmconf.Release2511, "24.11", "conf", slurmconf.Release2511, true, map[string]string{"format": "conf", "slurmVersion": "25.11"}, false},
		{"the release of the same, typed", Publication{SlurmVersion: "25.11"}, 0, "24.11", "conf", slurmconf.Release2511, true, map[string]string{"format": "yaml", "slurmVersion": "25.11"}, false},
		{"topology.yaml, and an older Slurm", Publication{}, slurmconf.Release2411, "25.11", "yaml", slurmconf.Release2411, false, map[string]string{"format": "conf", "slurmVersion": "24.11"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, err := Compile([]Publication{tt.typed}, nil)
			if err != nil {
				t.Fatal(err)
			}
			c := all[0]
			c.Follow(tt.seen, &plandoc.Plan{Format: tt.format, Policy: map[string]string{"slurmVersion": tt.stored}})
			keys := c.Keys()
			maps.DeleteFunc(keys, func(key, _ string) bool { return key != "format" && key != "slurmVersion" })
			if diff := cmp.Diff(tt.keys, keys); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if c.Release != tt.release || c.Annotates != tt.annotate || c.Guesses() != tt.guesses {
				t.Errorf("release %s, annotates %t, guesses %t", c.Release, c.Annotates, c.Guesses())
			}
		})
	}
}
