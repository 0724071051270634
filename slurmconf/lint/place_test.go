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
	const overrides = " (FileOverridden); take Topology= out of slurm.conf if the file is to say where nodes are"
	const bad = ": slurmctld does not start (BadNodeTopology); take Topology= out of slurm.conf, or name what the topology file has"
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
			"slurm.conf:1: fatal: Slurm 24.11 does not know Topology= of NodeName, and does not start (BadNodeTopology); take it out; the topology file says where nodes are"}},
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

// TestPlacedNodesAreSomewhere has nodes in no block of the file. slurm.conf places some of
// these nodes.
func TestPlacedNodesAreSomewhere(t *testing.T) {
	for conf, want := range map[string]string{
		"NodeName=n[001-004]\nNodeName=x[1-2]\n":                        "2 nodes are in no block: x[1-2]",
		"NodeName=n[001-004]\nNodeName=x1 Topology=nvl:b1\n":            "",
		"NodeName=n[001-004] Topology=nvl:b2\nNodeName=x[1-2]\n":        "2 nodes are in no block: x[1-2]",
		"NodeName=n[001-004]\nNodeName=x1 Topology=\"\"\nNodeName=y1\n": "2 nodes are in no block: x1,y1",
	} {
		parsed, err := slurmctld.ParseConf("slurm.conf", []byte(conf), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range lint.Lint([]lint.File{{Name: "topology.yaml", Data: []byte(placesYAML)}}, parsed.Options(0)) {
			if f.Reason == "NodesNowhere" && strings.Contains(f.Message, "in no block") {
				got += f.Message
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", conf, got, want)
		}
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
