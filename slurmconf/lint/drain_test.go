package lint

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/topology"
)

// TestLintNodes has the findings name all nodes that they are about. What is
// fatal and what is not is compared with Slurm itself.
func TestLintNodes(t *testing.T) {
	const text = "NodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-31\nNodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=32-63\n"
	node := func(sockets, cores int, gpus ...gres.GPUCount) *Node {
		return &Node{Sockets: sockets, CoresPerSocket: cores, ThreadsPerCore: 1, Gres: gres.Counts{GPUs: gpus}}
	}
	eight := gres.GPUCount{Type: "h100", Count: 8}
	good := node(2, 32, eight)
	for name, tt := range map[string]struct {
		node    *Node
		release slurmconf.Release
		want    string
	}{
		"it fits":              {good, 0, ""},
		"four sockets":         {node(4, 16, eight), 0, "gres.conf:1: fatal: n[3-4]: Cores=0-31 (and 1 more line) are not one socket or all of slurm.conf's Sockets=4 CoresPerSocket=16: slurmctld drains them (Cores)"},
		"of an older release":  {node(4, 16, eight), slurmconf.Release2411, ""},
		"sockets that are cut": {node(1, 64, eight), slurmconf.Release2411, "gres.conf:1: fatal: n[3-4]: Cores=0-31 (and 1 more line) are not whole sockets of slurm.conf's Sockets=1 CoresPerSocket=64: slurmctld drains them (Cores)"},
		"fewer cores":          {node(1, 32, eight), 0, "gres.conf:2: fatal: n[3-4]: Cores=32-63 are more than slurm.conf's Sockets=1 CoresPerSocket=32 has: slurmctld drains them (Cores)"},
		"more GPUs":            {node(2, 32, gres.GPUCount{Type: "h100", Count: 9}), 0, "gres.conf:2: fatal: n[3-4]: 8 gpus of type h100 here, 9 in slurm.conf: slurmctld drains them (FewerGPUs)"},
		"another type":         {node(2, 32, gres.GPUCount{Type: "H100", Count: 8}), 0, "gres.conf:1: fatal: n[3-4]: 0 gpus of type H100 here, 8 in slurm.conf: slurmctld drains them (FewerGPUs)"},
		"fewer GPUs":           {node(2, 32, gres.GPUCount{Type: "", Count: 4}), 0, "gres.conf:1: warning: n[3-4]: 8 gpus here, 4 in slurm.conf: Slurm uses no more than these (MoreGPUs)"},
		"no GPUs":              {node(1, 1), 0, "gres.conf:1: warning: n[3-4]: 8 gpus here, 0 in slurm.conf: Slurm uses no more than these (MoreGPUs)"},
		"some with a type":     {node(2, 32, eight, gres.GPUCount{Type: "", Count: 1}), 0, "gres.conf:1: fatal: n[3-4]: Gres=gpu:h100:8,gpu:1 has gpus with a Type and others without: slurmd does not start (GresLine)"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Release: tt.release, GresTypes: []string{"gpu"}, KnownNodes: []string{"n1", "n2", "n3", "n4"}, Nodes: map[string]*Node{"n1": good, "n2": good, "n3": tt.node, "n4": tt.node}}
			var got string
			for _, f := range Lint([]File{{Name: "gres.conf", Data: []byte(text)}}, o) {
				said, _, _ := strings.Cut(f.String(), "; ")
				got = strings.TrimPrefix(got+"\n"+said, "\n")
			}
			first, _, _ := strings.Cut(got, "\n")
			if first != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if name == "fewer cores" && !strings.Contains(Lint([]File{{Name: "gres.conf", Data: []byte(text)}}, o)[0].Remedy, "want cores of 0 to 31, or") {
				t.Error("the remedy does not name the cores that the node has")
			}
			o.Nodes = map[string]*Node{"n9": tt.node}
			if len(tt.node.Gres.GPUs) > 0 && !topology.Has(Lint([]File{{Name: "gres.conf", Data: []byte(text)}}, o), topology.Fatal) {
				t.Error("a node with GPUs and no line is not fatal")
			}
		})
	}
}

// TestLintGresWords holds what lint says of gpus that slurm.conf counts and gres.conf does not give.
func TestLintGresWords(t *testing.T) {
	h100 := []gres.GPUCount{{Type: "h100", Count: 8}}
	const uncounted = "gres.conf:1: warning: no node of slurm.conf has gpus in Gres=: no job gets GPUs (MoreGPUs); write such as Gres=gpu:8 on the lines NodeName of slurm.conf"
	const nvml = "gres.conf:1: warning: AutoDetect=nvml needs a slurmd that is built with NVML: another finds no GPUs, and slurmctld drains the node (AutoDetect); look with slurmd -G on a node"
	const threads = "Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-7,16-23\nName=gpu Type=h100 File=/dev/nvidia[4-7] Cores=8-15,24-31\n"
	for name, tt := range map[string]struct {
		gres, want string
		nodes      map[string]*Node
		found      map[string]gres.Registration
	}{
		"no Type":          {"Name=gpu File=/dev/nvidia[0-7]\n", "gres.conf:1: fatal: n1: 0 gpus of type h100 here, 8 in slurm.conf; the 8 have no Type: slurmctld drains it (FewerGPUs); write Type=h100", map[string]*Node{"n1": {Sockets: 1, CoresPerSocket: 1, Gres: gres.Counts{GPUs: h100}}}, nil},
		"no File":          {"Name=gpu Type=h100 Count=8\n", "gres.conf:1: fatal: n1: 0 gpus of type h100 here, 8 in slurm.conf; the 8 have no File, and slurmd ignores them: slurmctld drains it (FewerGPUs); write File=", map[string]*Node{"n1": {Sockets: 1, CoresPerSocket: 1, Gres: gres.Counts{GPUs: h100}}}, nil},
		"hardware threads": {threads, "gres.conf:1: fatal: n1: Cores=0-7,16-23 (and 1 more line) are more than slurm.conf's Sockets=2 CoresPerSocket=8 has: slurmctld drains it (Cores); Cores are cores, not hardware threads: want cores of 0 to 15, or the node's sockets in slurm.conf", map[string]*Node{"n1": {Sockets: 2, CoresPerSocket: 8, ThreadsPerCore: 2, Gres: gres.Counts{GPUs: h100}}}, nil},
		"labels":           {"AutoDetect=nvidia\n", "gres.conf:1: fatal: n1: 4 gpus by labels or reports, 8 in slurm.conf: slurmctld drains it (FewerGPUs); look for the others, or lower Gres= in slurm.conf", map[string]*Node{"n1": {Gres: gres.Counts{GPUs: h100}}}, map[string]gres.Registration{"n1": {Count: 4}}},
		"more by labels":   {"AutoDetect=nvidia\n", "gres.conf:1: warning: n1: 16 gpus by labels or reports, 8 in slurm.conf: Slurm uses no more than these (MoreGPUs); count them in Gres= of slurm.conf", map[string]*Node{"n1": {Gres: gres.Counts{GPUs: h100}}}, map[string]gres.Registration{"n1": {Count: 16}}},
		"reports":          {"AutoDetect=nvidia\n", "", map[string]*Node{"n1": {Gres: gres.Counts{GPUs: h100}, Sockets: 2}}, map[string]gres.Registration{"n1": {Count: 8, Sockets: 2}}},
		"other sockets": {"AutoDetect=nvidia\n", "gres.conf:1: unknown: n1: what AutoDetect=nvidia finds is not known (n1: its report has 2 sockets, and slurm.conf 8); slurmctld drains a node with a GPU next to a part of a socket (NotJudged); check it with Slurm itself",
			map[string]*Node{"n1": {Gres: gres.Counts{GPUs: h100}, Sockets: 8}}, map[string]gres.Registration{"n1": {Count: 8, Sockets: 2, Drains: "GPU X is next to CPUs 0-7"}}},
		"no GPUs":       {"AutoDetect=nvidia\n", uncounted, map[string]*Node{"n1": {}}, nil},
		"nothing known": {"NodeName=n1 AutoDetect=nvidia\n", "gres.conf:1: unknown: n1: what AutoDetect=nvidia finds is not known (n1: it has no report); slurmctld drains a node with a GPU next to a part of a socket (NotJudged); check it with Slurm itself", map[string]*Node{"n1": {Gres: gres.Counts{GPUs: h100}}}, nil},
		"a part of a socket": {"\nAutoDetect=nvidia\n", "gres.conf:2: fatal: n1: AutoDetect=nvidia finds the cores of each GPU, and of n1 GPU X is next to CPUs 0-7: slurmctld drains it (Cores); write lines with File for these nodes",
			map[string]*Node{"n1": {Gres: gres.Counts{GPUs: h100}}}, map[string]gres.Registration{"n1": {Count: 8, Drains: "GPU X is next to CPUs 0-7"}}},
		"MIG": {"AutoDetect=nvidia\n", "gres.conf:1: fatal: n1: AutoDetect=nvidia finds no MIG instances, and Gres= in slurm.conf counts 56 of type h100_1g.10gb: slurmctld drains it (FewerGPUs); write AutoDetect=nvml, or a line with MultipleFiles for each instance",
			map[string]*Node{"n1": {Gres: gres.Counts{GPUs: []gres.GPUCount{{Type: "h100_1g.10gb", Count: 56}}}}}, map[string]gres.Registration{"n1": {Count: 56}}},
		"a node without GPUs": {"Name=gpu Type=h100 File=/dev/nvidia[0-7]\n", "gres.conf:1: warning: the line has no NodeName, so it counts on nodes without Gres= in slurm.conf too: slurmd of n2 waits 20 seconds for /dev/nvidia0 and does not start (GresForAll); write NodeName=n1",
			map[string]*Node{"n1": {Gres: gres.Counts{GPUs: h100}}, "n2": {}}, nil},
		"a node without GPUs, and the line has names": {"NodeName=n1 Name=gpu Type=h100 File=/dev/nvidia[0-7]\n", "", map[string]*Node{"n1": {Gres: gres.Counts{GPUs: h100}}, "n2": {}}, nil},
		"no node has GPUs":                            {"Name=gpu Type=h100 File=/dev/nvidia[0-7]\n", uncounted, map[string]*Node{"n1": {}, "n2": {}}, nil},
		"cloud":                                       {"AutoDetect=nvidia\n", "gres.conf:1: warning: n1: AutoDetect=nvidia of nodes with State=CLOUD: slurmctld looks for their devices on its own machine, and logs an error for each node (AutoDetect); write lines with File for these nodes", map[string]*Node{"n1": {Gres: gres.Counts{GPUs: h100}, Cloud: true}}, map[string]gres.Registration{"n1": {Count: 8}}},
		"two Types":                                   {"Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1\n", "", map[string]*Node{"n1": {Gres: gres.ReadCounts("gpu:a:1,gpu:b:1")}}, nil},
		"an empty Type": {"Name=gpu Type= File=/dev/nvidia[0-7]\n", "gres.conf:1: fatal: n1: 0 gpus here, 8 in slurm.conf; a Type= is empty and takes the next word for its value: File=/dev/nvidia[0-7]: slurmctld drains it (FewerGPUs); write a Type behind Type=, or leave the key out",
			map[string]*Node{"n1": {Gres: gres.ReadCounts("gpu:8")}}, nil},
		"NVML":                     {"AutoDetect=nvml\n", nvml, map[string]*Node{"n1": {Gres: gres.ReadCounts("gpu:8")}}, map[string]gres.Registration{"n1": {Count: 8}}},
		"NVML, nothing known":      {"AutoDetect=nvml\n", "gres.conf:1: unknown: n1: what AutoDetect=nvml finds is not known (n1: it has no report); slurmctld drains a node with a GPU next to a part of a socket (NotJudged); check it with Slurm itself\n" + nvml, map[string]*Node{"n1": {Gres: gres.ReadCounts("gpu:8")}}, nil},
		"NVML, MIG":                {"AutoDetect=nvml\n", "gres.conf:1: unknown: n1: what AutoDetect=nvml finds is not known (n1: its MIG instances are not known here); slurmctld drains a node with a GPU next to a part of a socket (NotJudged); check it with Slurm itself\n" + nvml, map[string]*Node{"n1": {Gres: gres.ReadCounts("gpu:a100_1g.10gb:56")}}, map[string]gres.Registration{"n1": {Count: 8}}},
		"another way to detect":    {"AutoDetect=rsmi\n", "gres.conf:1: unknown: n1: what AutoDetect=rsmi finds is not known (n1: it has no report); slurmctld drains a node with a GPU next to a part of a socket (NotJudged); check it with Slurm itself", map[string]*Node{"n1": {Gres: gres.ReadCounts("gpu:8")}}, nil},
		"detection without a name": {"Name=gpu File=/dev/nvidia[0-7] AutoDetect=nvml\n", "gres.conf:1: warning: AutoDetect=nvml has no effect on a line without NodeName (AutoDetect); write AutoDetect on a line of its own, or begin the line with NodeName=", map[string]*Node{"n1": {Gres: gres.ReadCounts("gpu:8")}}, nil},
		"other words of Gres=": {"Name=gpu File=/dev/nvidia[0-1]\n", "slurm.conf:3: unknown: n1: it is not known what gpu:4x in Gres= counts: want such as gpu:h100:8 (NotJudged); check it with Slurm itself\n" +
			"slurm.conf:3: warning: n1: GPU in Gres= is not in GresTypes: Slurm ignores it (UnknownGres); write such as gpu:h100:8, in small letters, or add the name to GresTypes", map[string]*Node{"n1": {Gres: gres.ReadCounts("gpu:2,GPU:2,gpu:4x"), Line: 3}}, nil},
		"shards that are not in GresTypes": {"Name=gpu File=/dev/nvidia0\nName=shard Count=8\nName=shard Count=8\n", "gres.conf:2: warning: shard is not in GresTypes: slurmd ignores its lines (UnknownGres); add the name to GresTypes in slurm.conf", map[string]*Node{"n1": {Gres: gres.ReadCounts("gpu:1")}}, nil},
		"nodes not known":                  {"Name=gpu Count=8\n", "gres.conf:1: fatal: the line has no File and its nodes detect no GPUs: slurmd ignores it, and slurmctld drains a node whose Gres= counts them (FewerGPUs); write File=, or AutoDetect", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{SlurmConf: "slurm.conf", GresTypes: []string{"gpu"}, Nodes: tt.nodes, Found: tt.found}
			if tt.nodes != nil {
				o.KnownNodes = slices.Sorted(maps.Keys(tt.nodes))
			}
			var got []string
			for _, f := range Lint([]File{{Name: "gres.conf", Data: []byte(tt.gres)}}, o) {
				got = append(got, f.String())
			}
			if strings.Join(got, "\n") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestGPULines counts the nodes whose GPUs agree with gres.conf.
func TestGPULines(t *testing.T) {
	eight, four := gres.ReadCounts("gpu:8"), gres.ReadCounts("gpu:4")
	node := func(counts gres.Counts) *Node { return &Node{Sockets: 1, CoresPerSocket: 1, Gres: counts} }
	const listed, detected = "NodeName=n[1-3] Name=gpu File=/dev/nvidia[0-7]\n", "AutoDetect=nvidia\n"
	for name, tt := range map[string]struct {
		gres  string // no gres.conf: ""
		nodes map[string]*Node
		found map[string]gres.Registration
		want  string
	}{
		"agree":                      {listed, map[string]*Node{"n1": node(eight), "n2": node(eight)}, nil, "nodes whose gpu lines agree: 2, differ: 0, not judged: 0"},
		"a node without GPUs":        {listed, map[string]*Node{"n1": node(eight), "cpu": node(gres.Counts{})}, nil, "nodes whose gpu lines agree: 1, differ: 0, not judged: 0"},
		"no node has GPUs":           {listed, map[string]*Node{"cpu": node(gres.Counts{})}, nil, ""},
		"no node":                    {listed, nil, nil, ""},
		"fewer and more":             {listed, map[string]*Node{"n1": node(eight), "n2": node(four), "n4": node(four)}, nil, "nodes whose gpu lines agree: 1, differ: 2, not judged: 0"},
		"a line that slurmd ends at": {listed + "NodeName=n2 Name=gpu Count=2 File=/dev/nvidia8\n", map[string]*Node{"n1": node(eight), "n2": node(eight)}, nil, "nodes whose gpu lines agree: 1, differ: 1, not judged: 0"},
		"a line that is not judged":  {listed + "NodeName=n2 Name=gpu File=/dev/nvidia[8-9] Flags=one_sharing\n", map[string]*Node{"n1": node(eight), "n2": node(eight)}, nil, "nodes whose gpu lines agree: 1, differ: 0, not judged: 1 (n2: one of its lines is not judged)"},
		"some lines without File":    {"Name=gpu File=/dev/nvidia0\nName=gpu Count=7\n", map[string]*Node{"n1": node(eight), "n2": node(four)}, nil, "nodes whose gpu lines agree: 0, differ: 0, not judged: 2 (n1: some lines for gpu have File or Type and others do not)"},
		"detected": {detected, map[string]*Node{"n1": node(eight), "n2": node(eight), "n3": node(eight), "n4": node(eight)},
			map[string]gres.Registration{"n1": {Count: 8, Sockets: 1}, "n2": {Count: 4}, "n4": {Count: 8, Sockets: 2}}, "nodes whose gpu lines agree: 1, differ: 1, not judged: 2 (n3: it has no report)"},
		"fewer shards":           {listed + "Name=shard Count=4\n", map[string]*Node{"n1": node(gres.ReadCounts("gpu:8,shard:8")), "n2": node(eight)}, nil, "nodes whose gpu lines agree: 1, differ: 1, not judged: 0"},
		"a word of Gres=":        {listed, map[string]*Node{"n1": node(gres.ReadCounts("gpu:8x"))}, nil, "nodes whose gpu lines agree: 0, differ: 0, not judged: 1 (n1: a word of Gres= is not known)"},
		"no gres.conf":           {"", map[string]*Node{"n1": node(eight)}, nil, "nodes whose gpu lines agree: 0, differ: 0, not judged: 1 (n1: there is no gres.conf here)"},
		"a file that is refused": {"Name=gpu File=/dev/nvidia[0-7] Foo=1\n", map[string]*Node{"n1": node(eight)}, nil, "nodes whose gpu lines agree: 0, differ: 1, not judged: 0"},
		"no lines":               {"nothing\n", map[string]*Node{"n1": node(eight)}, nil, "nodes whose gpu lines agree: 0, differ: 0, not judged: 1 (n1: gres.conf was not read)"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{SlurmConf: "slurm.conf", GresTypes: []string{"gpu", "shard"}, Nodes: tt.nodes, KnownNodes: slices.Sorted(maps.Keys(tt.nodes)), Found: tt.found, GRES: true}
			var files []File
			if tt.gres != "" {
				files = []File{{Name: "gres.conf", Data: []byte(tt.gres)}}
			}
			found, got := Judge(files, o)
			if got.String() != tt.want {
				t.Errorf("%s, want %s\n%v", got, tt.want, found)
			}
			if unknown := topology.Has(found, topology.Unknown); got.NotJudged > 0 && !unknown && !topology.Has(found, topology.Fatal) {
				t.Errorf("%s, and no finding says so: %v", got, found)
			}
		})
	}
}
