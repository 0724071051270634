package slurmctld

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

func TestParseConf(t *testing.T) {
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
		"more-a.conf": "NodeName=n3 CoresPerSocket=4 Gres=gpu:a:1,gpu:b:1,gpu:a:2,gpu:4x\nNodeName=n4 Boards=2 SocketsPerBoard=2\nNodeName=n5 gres=gpu:no_consume:1k\nNodeName=n6 Gres=\"\"\n",
	}
	got, err := ParseConf("slurm.conf", []byte(files["slurm.conf"]), func(file string) (string, []byte, error) {
		return file, []byte(files[file]), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	gb200 := &lint.Node{Sockets: 2, CoresPerSocket: 36, ThreadsPerCore: 2, Gres: gres.Counts{GPUs: []gres.GPUCount{{Type: "gb200", Count: 4}}, Others: map[string]uint64{"nic": 2}}, File: "nodes.conf", Line: 1}
	want := &Conf{Name: "slurm.conf", GresTypes: []string{"gpu", "nic"}, Partitions: []lint.Partition{{Name: "a", Nodes: "ALL", Topology: "nvl", File: "slurm.conf", Line: 7}, {Name: "b", Nodes: "ALL", Topology: "fabric", File: "slurm.conf", Line: 8}, {Name: "c", Nodes: "ALL", Topology: "nvl", File: "slurm.conf", Line: 9}}, Nodes: map[string]*lint.Node{
		"n1": gb200, "n2": gb200, "login": {File: "slurm.conf", Line: 5, Sockets: 16, CoresPerSocket: 1, ThreadsPerCore: 1, Gres: gres.Counts{GPUs: []gres.GPUCount{{Count: 2}}}},
		"n3": {File: "more-a.conf", Line: 1, Sockets: 4, CoresPerSocket: 4, ThreadsPerCore: 1, Gres: gres.Counts{GPUs: []gres.GPUCount{{Type: "a", Count: 3}, {Type: "b", Count: 1}}, Unread: []string{"gpu:4x"}}},
		"n4": {File: "more-a.conf", Line: 2, Sockets: 4, CoresPerSocket: 1, ThreadsPerCore: 1, Gres: gres.Counts{GPUs: []gres.GPUCount{{Count: 2}}}},
		"n5": {File: "more-a.conf", Line: 3, Sockets: 16, CoresPerSocket: 1, ThreadsPerCore: 1, Gres: gres.Counts{GPUs: []gres.GPUCount{{Count: 1024}}}},
		"n6": {File: "more-a.conf", Line: 4, Sockets: 16, CoresPerSocket: 1, ThreadsPerCore: 1},
	}, Settings: map[string]lint.Setting{"prolog": {Key: "Prolog", Value: "/p", File: "nodes.conf", Line: 4}, "clustername": {Key: "ClusterName", Value: "A", File: "slurm.conf", Line: 1}, "grestypes": {Key: "GresTypes", Value: "gpu,nic", File: "slurm.conf", Line: 2}, "topologyplugin": {Key: "TopologyPlugin", Value: "topology/block", File: "slurm.conf", Line: 2}}}
	want.Words = map[string]map[string]lint.Setting{
		"nodename": {
			"cpus": {Key: "CPUs", File: "slurm.conf", Line: 3}, "realmemory": {Key: "RealMemory", File: "slurm.conf", Line: 3},
			"sockets": {Key: "Sockets", File: "nodes.conf", Line: 1}, "corespersocket": {Key: "CoresPerSocket", File: "nodes.conf", Line: 1},
			"threadspercore": {Key: "ThreadsPerCore", File: "nodes.conf", Line: 1}, "gres": {Key: "Gres", File: "nodes.conf", Line: 1},
			"boards": {Key: "Boards", File: "more-a.conf", Line: 2}, "socketsperboard": {Key: "SocketsPerBoard", File: "more-a.conf", Line: 2},
		},
		"partitionname": {"nodes": {Key: "Nodes", File: "slurm.conf", Line: 7}, "topology": {Key: "Topology", File: "slurm.conf", Line: 7}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	o := got.Options(slurmconf.Release2605)
	if diff := cmp.Diff([]string{"login", "n1", "n2", "n3", "n4", "n5", "n6"}, o.KnownNodes); diff != "" || len(o.Nodes) != 7 {
		t.Errorf("Options knows other nodes: %s", diff)
	}
	if none := (&Conf{}).Options(slurmconf.Release2605).GresTypes; none == nil || len(none) > 0 {
		t.Errorf("without GresTypes Options has %#v: want an empty list, because the line is known to be absent", none)
	}
}

func TestParseConfErrors(t *testing.T) {
	for text, want := range map[string]string{
		"NodeName=n1\nNodeName=n[1-3]\n":   "slurm.conf:2: NodeName: node n1 is given twice",
		"NodeName=n1 Sockets=x\n":          `slurm.conf:1: NodeName=n1: sockets="x": want a number`,
		"NodeName=n1 CPUs=65535\n":         `slurm.conf:1: NodeName=n1: cpus="65535"`,
		"NodeName=n[1-\n":                  "slurm.conf:1: NodeName: ",
		"\n\nhello\n":                      `slurm.conf:3: "hello" is no Key=Value`,
		"Include gone.conf\n":              "slurm.conf:1: Include: gone.conf is not there: Slurm waits a minute",
		"Include %c.conf\nClusterName=a\n": "slurm.conf:1: Include: %c.conf: no ClusterName stands before it",
		"NodeName=a\nInclude loop.conf\n":  "Include: files include each other more than 16 deep",
		"NodeName=a\n\nInclude bad.conf\n": "bad.conf:1: ",
	} {
		_, err := ParseConf("slurm.conf", []byte(text), func(file string) (string, []byte, error) {
			switch file {
			case "loop.conf":
				return file, []byte("Include loop.conf\n"), nil
			case "bad.conf":
				return file, []byte("x"), nil
			}
			return file, nil, syntax.ErrNoFile
		})
		var parse *syntax.ParseError
		if !errors.As(err, &parse) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if _, err := ParseConf("slurm.conf", []byte("Include x\n"), nil); err == nil || !strings.Contains(err.Error(), "x is included and was not looked into") {
		t.Errorf("an Include that nobody reads: %v", err)
	}
}

// gresText writes the value of Gres=.
func gresText(gpus []gres.GPUCount) string {
	words := make([]string, len(gpus))
	for i, g := range gpus {
		words[i] = strings.Replace(fmt.Sprintf("gpu:%s:%d", g.Type, g.Count), "::", ":", 1)
	}
	return strings.Join(words, ",")
}

// confText writes the words of a line for the node.
func confText(n *lint.Node) string {
	words := fmt.Sprintf("Sockets=%d CoresPerSocket=%d ThreadsPerCore=%d", n.Sockets, n.CoresPerSocket, n.ThreadsPerCore)
	if len(n.Gres.GPUs) > 0 {
		words += " Gres=" + gresText(n.Gres.GPUs)
	}
	return words
}

func FuzzConf(f *testing.F) {
	for _, s := range []string{"NodeName=DEFAULT Sockets=2\nNodeName=n[1-3],x CPUs=8 Gres=gpu:a:1,gpu:2(S:0),nic\nGresTypes=gpu\n", "Include a\nPartitionName=x Topology=y\nTopologyPlugin=topology/tree", "NodeName=a Boards=65535 SocketsPerBoard=65535 CoresPerSocket=65533 gres=gpu:no_consume:1K,gpu::1", "nodename=a gres=gpu((:))\nNodeName=\"b\" Procs=16", "NodeName=n1 Gres=gpu:18446744073709551615,gpu:1", "Prolog=/p\nPrologTimeout=0x20\nSwitchType=switch/nvidia_imex\nSwitchParameters=a,imex_channel_count=4096"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !small(data) {
			return
		}
		conf, err := ParseConf("slurm.conf", data, nil)
		if err != nil {
			if parse := new(syntax.ParseError); !errors.As(err, &parse) || parse.Line < 1 || parse.Message == "" {
				t.Fatalf("error is not whole: %v", err)
			}
			return
		}
		for name, n := range conf.Nodes {
			if n.Sockets < 1 || n.CoresPerSocket < 1 || n.ThreadsPerCore < 1 || hostlist.CheckName(name) != nil {
				continue // a shape or a name that Slurm would take and we do not write
			}
			again, err := ParseConf("again", []byte("NodeName="+name+" "+confText(n)+"\n"), nil)
			if err != nil {
				if strings.ContainsAny(confText(n), "\\#\"") || strings.Contains(confText(n), "=,") {
					continue
				}
				t.Fatalf("what confText wrote is refused: %v", err)
			}
			if diff := cmp.Diff(n, again.Nodes[name], cmpopts.IgnoreFields(lint.Node{}, "File", "Line"), cmpopts.IgnoreFields(gres.Counts{}, "Others", "Unread")); diff != "" && !strings.ContainsAny(confText(n), "\\#\"( \t\r\v\f") {
				t.Fatalf("(-first +second):\n%s", diff)
			}
		}
		for _, finding := range lint.LintSettings("slurm.conf", conf.Settings, lint.Hook{PrologSeconds: 60, HostChannels: true}) {
			if finding.Severity == topology.Fatal || finding.Line < 1 || finding.File == "" || finding.Remedy == "" {
				t.Fatalf("finding is not whole: %+v", finding)
			}
		}
		lint.Lint([]lint.File{{Name: "gres.conf", Data: []byte("Name=gpu Type=a File=/dev/a Cores=0-3\n")}}, conf.Options(slurmconf.Latest))
	})
}

// small keeps fuzzed host lists from growing to millions of names.
func small(data []byte) bool { return len(data) < 2000 && !fiveDigits.Match(data) }

var fiveDigits = regexp.MustCompile(`\d{5}`)
