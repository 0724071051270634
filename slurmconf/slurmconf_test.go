package slurmconf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

func TestParseSlurmConf(t *testing.T) {
	files := map[string]string{
		"slurm.conf": `ClusterName=A
GresTypes=gpu,nic TopologyPlugin=topology/block
NodeName=DEFAULT CPUs=144 RealMemory=1000 # of all
Include nodes.conf
NodeName=login
include  more-%c.conf
PartitionName=a Nodes=ALL Topology=nvl
PartitionName=b Nodes=ALL Topology=fabric
PartitionName=c Nodes=ALL Topology=nvl
`,
		"nodes.conf":  "NodeName=n[1-2] Sockets=2 CoresPerSocket=36 ThreadsPerCore=2 \\\n  Gres=gpu:gb200:4(S:0-1),nic:2\nnodename=default gres=gpu:2 cpus=16\nProlog=/p\n",
		"more-a.conf": "NodeName=n3 CoresPerSocket=4 Gres=gpu:a:1,gpu:b:1,gpu:a:2\nNodeName=n4 Boards=2 SocketsPerBoard=2\nNodeName=n5 gres=gpu:no_consume:1k\nNodeName=n6 Gres=\"\"\n",
	}
	got, err := ParseSlurmConf("slurm.conf", []byte(files["slurm.conf"]), func(file string) (string, []byte, error) {
		return file, []byte(files[file]), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	gb200 := &ConfNode{Sockets: 2, CoresPerSocket: 36, ThreadsPerCore: 2, GPUs: []GPUCount{{"gb200", 4}}}
	want := &SlurmConf{GresTypes: []string{"gpu", "nic"}, Plugin: PluginBlock, PartitionTopologies: []string{"nvl", "fabric"}, Nodes: map[string]*ConfNode{
		"n1": gb200, "n2": gb200, "login": {Sockets: 16, CoresPerSocket: 1, ThreadsPerCore: 1, GPUs: []GPUCount{{"", 2}}},
		"n3": {Sockets: 4, CoresPerSocket: 4, ThreadsPerCore: 1, GPUs: []GPUCount{{"a", 3}, {"b", 1}}},
		"n4": {Sockets: 4, CoresPerSocket: 1, ThreadsPerCore: 1, GPUs: []GPUCount{{"", 2}}},
		"n5": {Sockets: 16, CoresPerSocket: 1, ThreadsPerCore: 1, GPUs: []GPUCount{{"", 1024}}},
		"n6": {Sockets: 16, CoresPerSocket: 1, ThreadsPerCore: 1},
	}, Settings: map[string]Setting{"prolog": {"/p", "nodes.conf", 4}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	o := got.Options(Release2605)
	if diff := cmp.Diff([]string{"login", "n1", "n2", "n3", "n4", "n5", "n6"}, o.KnownNodes); diff != "" || len(o.Nodes) != 7 {
		t.Errorf("Options knows other nodes: %s", diff)
	}
}

func TestParseSlurmConfErrors(t *testing.T) {
	for text, want := range map[string]string{
		"NodeName=n1\nNodeName=n[1-3]\n":           "slurm.conf:2: NodeName: node n1 is given twice",
		"NodeName=n1 Sockets=x\n":                  `slurm.conf:1: NodeName=n1: sockets="x": want a number`,
		"NodeName=n1 CPUs=0\n":                     `slurm.conf:1: NodeName=n1: cpus="0"`,
		"NodeName=n1 Gres=gpu:a:b:1\n":             `slurm.conf:1: NodeName=n1: gres "gpu:a:b:1": want such as gpu:h100:8`,
		"NodeName=n1 Gres=gpu:4x\n":                `slurm.conf:1: NodeName=n1: gres "gpu:4x": "4x" is no count`,
		"NodeName=n[1-\n":                          "slurm.conf:1: NodeName: ",
		"\n\nhello\n":                              `slurm.conf:3: "hello" is no Key=Value`,
		"Include gone.conf\n":                      "slurm.conf:1: Include: gone.conf: not there",
		"Include %c.conf\nClusterName=a\n":         "slurm.conf:1: Include: %c.conf stands before ClusterName",
		"NodeName=a\nInclude loop.conf\n":          "Include: files include each other more than 16 deep",
		"NodeName=a\n\nInclude bad.conf\nNodeName": "bad.conf:1: ",
	} {
		_, err := ParseSlurmConf("slurm.conf", []byte(text), func(file string) (string, []byte, error) {
			switch file {
			case "loop.conf":
				return file, []byte("Include loop.conf\n"), nil
			case "bad.conf":
				return file, []byte("x"), nil
			}
			return file, nil, fmt.Errorf("%s: not there", file)
		})
		var parse *ParseError
		if !errors.As(err, &parse) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if _, err := ParseSlurmConf("slurm.conf", []byte("Include x\n"), nil); err == nil || !strings.Contains(err.Error(), "x is not read here") {
		t.Errorf("an Include that nobody reads: %v", err)
	}
}

// TestLintConfNodes has the findings name all nodes that they are about. What is
// fatal and what is not is compared with Slurm itself.
func TestLintConfNodes(t *testing.T) {
	const gres = "NodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-31\nNodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=32-63\n"
	node := func(sockets, cores int, gpus ...GPUCount) *ConfNode {
		return &ConfNode{Sockets: sockets, CoresPerSocket: cores, ThreadsPerCore: 1, GPUs: gpus}
	}
	eight := GPUCount{"h100", 8}
	good := node(2, 32, eight)
	for name, tt := range map[string]struct {
		node    *ConfNode
		release Release
		want    string
	}{
		"it fits":              {good, 0, ""},
		"four sockets":         {node(4, 16, eight), 0, "gres.conf:1: fatal: n[3-4]: Cores=0-31 are not one socket or all of slurm.conf's Sockets=4 CoresPerSocket=16: slurmctld drains them (CoresNotSocket)"},
		"of an older release":  {node(4, 16, eight), Release2411, ""},
		"sockets that are cut": {node(1, 64, eight), Release2411, "gres.conf:1: fatal: n[3-4]: Cores=0-31 are not whole sockets of slurm.conf's Sockets=1 CoresPerSocket=64: slurmctld drains them (CoresNotSocket)"},
		"fewer cores":          {node(1, 32, eight), 0, "gres.conf:2: fatal: n[3-4]: Cores=32-63 are more than slurm.conf's Sockets=1 CoresPerSocket=32 has: slurmctld drains them (CoresOutside)"},
		"more GPUs":            {node(2, 32, GPUCount{"h100", 9}), 0, "gres.conf:2: fatal: n[3-4]: 8 gpus of type h100 here, 9 in slurm.conf: slurmctld drains them (FewerGPUs)"},
		"another type":         {node(2, 32, GPUCount{"H100", 8}), 0, "gres.conf:1: fatal: n[3-4]: 0 gpus of type H100 here, 8 in slurm.conf: slurmctld drains them (FewerGPUs)"},
		"fewer GPUs":           {node(2, 32, GPUCount{"", 4}), 0, ""},
		"no GPUs":              {node(1, 1), 0, ""},
		"some with a type":     {node(2, 32, eight, GPUCount{"", 1}), 0, "gres.conf:1: fatal: n[3-4]: Gres=gpu:h100:8,gpu:1 has gpus with a Type and others without: slurmd does not start (GresTypes)"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Release: tt.release, GresTypes: []string{"gpu"}, KnownNodes: []string{"n1", "n2", "n3", "n4"}, Nodes: map[string]*ConfNode{"n1": good, "n2": good, "n3": tt.node, "n4": tt.node}}
			var got string
			for _, f := range Lint([]File{{"gres.conf", []byte(gres)}}, o) {
				text, _, _ := strings.Cut(f.String(), "; ")
				got = strings.TrimPrefix(got+"\n"+text, "\n")
			}
			first, _, _ := strings.Cut(got, "\n")
			if first != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			o.Nodes = map[string]*ConfNode{"n9": tt.node}
			if len(tt.node.GPUs) > 0 && !HasFatal(Lint([]File{{"gres.conf", []byte(gres)}}, o)) {
				t.Error("a node with GPUs and no line is not fatal")
			}
		})
	}
}

// confText writes the words of a line for the node.
func confText(n *ConfNode) string {
	words := fmt.Sprintf("Sockets=%d CoresPerSocket=%d ThreadsPerCore=%d", n.Sockets, n.CoresPerSocket, n.ThreadsPerCore)
	if len(n.GPUs) > 0 {
		words += " Gres=" + gresWords(n.GPUs)
	}
	return words
}

func FuzzSlurmConf(f *testing.F) {
	for _, s := range []string{"NodeName=DEFAULT Sockets=2\nNodeName=n[1-3],x CPUs=8 Gres=gpu:a:1,gpu:2(S:0),nic\nGresTypes=gpu\n", "Include a\nPartitionName=x Topology=y\nTopologyPlugin=topology/tree", "NodeName=a Boards=65535 SocketsPerBoard=65535 CoresPerSocket=65533 gres=gpu:no_consume:1K,gpu::1", "nodename=a gres=gpu((:))\nNodeName=\"b\" Procs=16", "NodeName=n1 Gres=gpu:18446744073709551615,gpu:1", "Prolog=/p\nPrologTimeout=0x20\nSwitchType=switch/nvidia_imex\nSwitchParameters=a,imex_channel_count=4096"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !small(data) {
			return
		}
		conf, err := ParseSlurmConf("slurm.conf", data, nil)
		if err != nil {
			if parse := new(ParseError); !errors.As(err, &parse) || parse.Line < 1 || parse.Message == "" {
				t.Fatalf("error is not whole: %v", err)
			}
			return
		}
		for name, n := range conf.Nodes {
			if n.Sockets < 1 || n.CoresPerSocket < 1 || n.ThreadsPerCore < 1 || hostlist.CheckName(name) != nil {
				continue // a shape or a name that Slurm would take and we do not write
			}
			again, err := ParseSlurmConf("again", []byte("NodeName="+name+" "+confText(n)+"\n"), nil)
			if err != nil {
				if strings.ContainsAny(confText(n), "\\#\"") || strings.Contains(confText(n), "=,") {
					continue
				}
				t.Fatalf("what confText wrote is refused: %v", err)
			}
			if diff := cmp.Diff(n, again.Nodes[name]); diff != "" && !strings.ContainsAny(confText(n), "\\#\"( \t\r\v\f") {
				t.Fatalf("(-first +second):\n%s", diff)
			}
		}
		for _, finding := range conf.LintHook("slurm.conf", Hook{PrologSeconds: 60, HostChannels: true}) {
			if finding.Severity != Warning || finding.Line < 1 || finding.File == "" || finding.Advice == "" {
				t.Fatalf("finding is not whole: %+v", finding)
			}
		}
		Lint([]File{{"gres.conf", []byte("Name=gpu Type=a File=/dev/a Cores=0-3\n")}}, conf.Options(Latest))
	})
}
