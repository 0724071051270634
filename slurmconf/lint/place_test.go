package lint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
)

// TestNodeTopologies judges Topology= of NodeName. slurmctld itself judges the same values
// in TestRealNodePlaces.
func TestNodeTopologies(t *testing.T) {
	const overrides = " (NodeTopology); take Topology= out of slurm.conf if the file is to say where nodes are"
	const bad = ": slurmctld does not start (NodeTopology); take Topology= out of slurm.conf, or name what the topology file has"
	for name, tt := range map[string]struct {
		conf    string
		release slurmconf.Release
		want    []string
	}{
		"none":     {"NodeName=n[001-016]\n", 0, nil},
		"all good": {"NodeName=n[001-016]\nNodeName=x[1-2] Topology=nvl:b1\n", 0, []string{"slurm.conf:2: warning: Topology= of NodeName overrides the topology file for 2 nodes: x[1-2]" + overrides}},
		"unknown": {"NodeName=n[001-016]\nNodeName=x[1-4] Topology=nvl:b9,fabric:leaf1\nNodeName=y1 Topology=gone\n", 0, []string{
			"slurm.conf:2: warning: Topology= of NodeName overrides the topology file for 5 nodes: x[1-4],y1" + overrides,
			"slurm.conf:2: fatal: x[1-4]: Topology=nvl:b9,fabric:leaf1: topology nvl has no block \"b9\"" + bad,
			"slurm.conf:3: fatal: y1: Topology=gone: the file has no topology \"gone\"" + bad}},
		"an old release": {"NodeName=n[001-016] Topology=default:b1\n", slurmconf.Release2411, []string{
			"slurm.conf:1: fatal: Slurm 24.11 does not know Topology= of NodeName, and does not start (NodeTopology); take it out; the topology file says where nodes are"}},
	} {
		t.Run(name, func(t *testing.T) {
			conf, err := slurmctld.ParseConf("slurm.conf", []byte(tt.conf), nil)
			if err != nil {
				t.Fatal(err)
			}
			o := conf.Options(tt.release)
			file := lint.File{Name: "topology.yaml", Data: []byte(placesYAML)}
			if tt.release == slurmconf.Release2411 {
				file = lint.File{Name: "topology.conf", Data: []byte("BlockName=b1 Nodes=n[001-016]\n")}
			}
			var got []string
			for _, f := range lint.Lint([]lint.File{file}, o) {
				if strings.HasSuffix(f.File, "slurm.conf") && f.Reason != "NoBlockRank" {
					got = append(got, f.String())
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNodesNowhere judges partitions with nodes that their topology lacks.
func TestNodesNowhere(t *testing.T) {
	const blocks = "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: b1, nodes: 'n[1-2]'}\n      - {block: b2, nodes: 'n[3-4]'}\n"
	const tree = "- topology: fabric\n  cluster_default: false\n  tree:\n    switches:\n      - {switch: l1, nodes: 'n[1-4]'}\n      - {switch: l2, nodes: 'h[1-4]'}\n      - {switch: s, children: 'l[1-2]'}\n"
	const skeleton = "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: b1}\n      - {block: b2}\n"
	const nodes = "NodeName=n[1-4]\nNodeName=h[1-4]\nNodeName=cpu[1-2]\n"
	const one = ": a job of several nodes runs there only if it asks for such nodes alone: "
	const own = "; give them a partition of their own"
	for name, tt := range map[string]struct{ yaml, conf, want string }{
		"all have places":                     {blocks, nodes + "PartitionName=nvl Nodes=n[1-4]\n", ""},
		"one partition":                       {blocks, nodes + "PartitionName=main Nodes=ALL\n", "partition main uses topology nvl, which lacks 6 of its 10 nodes" + one + "cpu[1-2],h[1-4]" + own},
		"all have partitions of their own":    {blocks, nodes + "PartitionName=main Nodes=ALL\nPartitionName=h Nodes=h[1-4]\nPartitionName=cpu Nodes=cpu[1-2]\n", ""},
		"one kind has none":                   {blocks, nodes + "PartitionName=main Nodes=ALL\nPartitionName=h Nodes=h[1-4]\n", "partition main uses topology nvl, which lacks 2 of its 10 nodes" + one + "cpu[1-2]" + own},
		"another topology has them":           {blocks + tree, nodes + "PartitionName=main Nodes=n[1-4],h[1-4]\n", "partition main uses topology nvl, which lacks 4 of its 8 nodes" + one + "h[1-4]; give them a partition of their own, such as PartitionName=fabric Topology=fabric Nodes=h[1-4]"},
		"a partition that does not name it":   {blocks + tree, nodes + "PartitionName=h Nodes=h[1-4]\n", "partition h has no node of topology nvl: Slurm does not see which of its nodes are near, as topology fabric says; write Topology=fabric on the line PartitionName=h"},
		"a partition that names it":           {blocks + tree, nodes + "PartitionName=gpu Nodes=n[1-4],h[1-4] Topology=fabric\nPartitionName=main Nodes=ALL\nPartitionName=cpu Nodes=cpu1\n", "partition main uses topology nvl, which lacks 1 of its 10 nodes" + one + "cpu2" + own},
		"a topology that lacks them, named":   {blocks, nodes + "PartitionName=main Nodes=n[1-4],h1 Topology=nvl\nPartitionName=h Nodes=h[1-4]\n", "partition main uses topology nvl, which lacks 1 of its 5 nodes" + one + "h1" + own},
		"a tree that has none of them":        {strings.NewReplacer("true", "false", "false", "true").Replace(blocks + tree), nodes + "PartitionName=cpu Nodes=cpu[1-2]\n", "partition cpu uses topology fabric, which lacks 2 of its 2 nodes: Slurm refuses jobs of more than one node there: cpu[1-2]; put them below a switch"},
		"places in slurm.conf":                {blocks, "NodeName=n[1-4]\nNodeName=x1 Topology=nvl:b1\nPartitionName=main Nodes=ALL\n", ""},
		"no place in slurm.conf":              {blocks, "NodeName=n[1-4]\nNodeName=x1 Topology=\"\"\nPartitionName=main Nodes=ALL\n", "partition main uses topology nvl, which lacks 1 of its 5 nodes" + one + "x1" + own},
		"nodes that name their places":        {skeleton, "MaxNodeCount=8\nPartitionName=main Nodes=ALL\n", ""},
		"a set of nodes":                      {blocks, nodes + "NodeSet=dyn Feature=x\nPartitionName=main Nodes=dyn\n", ""},
		"nodes that scontrol create makes":    {blocks, "MaxNodeCount=8\nNodeName=n[1-2]\nPartitionName=main Nodes=ALL\n", ""},
		"nodes that slurm.conf does not have": {blocks, "NodeName=n[1-2]\nPartitionName=main Nodes=ALL\n", "block b2 has nodes that are not in slurm.conf: n[3-4]; add the nodes to slurm.conf, or take them out"},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := slurmctld.ParseConf("slurm.conf", []byte(tt.conf), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range lint.Lint([]lint.File{{Name: "topology.yaml", Data: []byte(tt.yaml)}}, parsed.Options(0)) {
				if f.Reason == "NodesNowhere" || f.Reason == "UnknownNode" {
					got = append(got, f.Message+"; "+f.Remedy)
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBlockRank advises BlockAsNodeRank where Slurm would use it.
func TestBlockRank(t *testing.T) {
	const conf = "NodeName=n[001-016]\n"
	empty := strings.Replace(placesYAML, "        nodes: n[001-004]\n", "", 1)
	for name, tt := range map[string]struct {
		yaml, conf string
		release    slurmconf.Release
		want       string
	}{
		"not set":          {placesYAML, conf, 0, "slurm.conf:1"},
		"other parameters": {placesYAML, conf + "TopologyParam=RouteTree\n", slurmconf.Release2511, "slurm.conf:2"},
		"set":              {placesYAML, conf + "TopologyParam=RouteTree,blockAsNodeRank\n", 0, ""},
		"an older release": {placesYAML, conf, slurmconf.Release2505, ""},
		"dynamic nodes":    {empty, conf, 0, ""},
		"a tree":           {strings.NewReplacer("true", "false", "false", "true").Replace(placesYAML), conf, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := slurmctld.ParseConf("slurm.conf", []byte(tt.conf), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, f := range lint.Lint([]lint.File{{Name: "topology.yaml", Data: []byte(tt.yaml)}}, parsed.Options(tt.release)) {
				if f.Reason == "NoBlockRank" {
					got, _, _ = strings.Cut(f.String(), ": warning: TopologyParam has no BlockAsNodeRank: ")
				}
			}
			if got != tt.want {
				t.Errorf("advised at %q, want %q", got, tt.want)
			}
		})
	}
}
