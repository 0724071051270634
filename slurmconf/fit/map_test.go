package fit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

// racks is three racks of 4 in blocks, and below two leaf switches.
func racks() []topology.Topology {
	return []topology.Topology{
		{Name: "nvl", Default: true, Kind: "block", Sizes: []int{4}, Blocks: []topology.Block{{Name: "b1", Nodes: hosts.In("n[1-4]")}, {Name: "b2", Nodes: hosts.In("n[5-8]")}, {Name: "b3", Nodes: hosts.In("n[9-12]")}}},
		{Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "s1", Nodes: hosts.In("n[1-8]")}, {Name: "s2", Nodes: hosts.In("n[9-12]")}, {Name: "root", Children: hosts.In("s[1-2]")}}},
		{Name: "flat", Kind: "flat"},
	}
}

func TestMapJudge(t *testing.T) {
	job := func(nodes string, segment int) slurmctld.Job {
		return slurmctld.Job{Nodes: nodes, Segment: segment, Partition: "p"}
	}
	other := job("n[1-3,5-7,9-10]", 4)
	other.Partition = "tree"
	for _, tt := range []struct {
		name string
		job  slurmctld.Job
		want string
	}{
		{"two blocks, one is large enough", job("n[1-2,5-6]", 2), "nvl: 2 blocks, 1 would be large enough; fabric: 1 leaf switch"},
		{"it is not known whether it has segments", job("n[1-2,5-6]", -1), "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"segments that are not whole", job("n[1-3,5-7,9-10]", 4), "nvl: 3 blocks; segment 4 got 3+3+2; fabric: 2 leaf switches, 1 would be large enough"},
		{"the partition has another topology", other, "nvl: 3 blocks; fabric: 2 leaf switches, 1 would be large enough"},
		{"a node in no block", job("n[1-3,13]", 0), "nvl: 1 block"},
		{"a job that has lost a node", job("n[1-2,5]", 2), "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"in no topology", job("n13", 0), ""},
		{"a list that cannot be read", job("n[3-", 0), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := fit.NewMap(racks())
			var said []string
			for _, j := range m.Judge(&tt.job, map[string]string{"p": "", "tree": "fabric"}) {
				said = append(said, j.Topology+": "+j.Words())
			}
			if diff := cmp.Diff(tt.want, strings.Join(said, "; ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
