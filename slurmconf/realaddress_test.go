package slurmconf

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// TestRealTopologyAddress holds what the page says of where a task runs: what Slurm's own variable has, and what
// scontrol answers to a task of a node that registered by itself.
func TestRealTopologyAddress(t *testing.T) {
	const twoTopologies = `- topology: nvl
  cluster_default: true
  block:
    block_sizes: [2]
    blocks:
      - block: b1
        nodes: n[01-02]
- topology: fabric
  cluster_default: false
  tree:
    switches:
      - switch: s1
        nodes: n[01-03]
`
	const ask = `echo $SLURMD_NODENAME $SLURM_TOPOLOGY_ADDR $SLURM_TOPOLOGY_ADDR_PATTERN $(scontrol show topology node=$SLURMD_NODENAME 2>&1) $(scontrol show topology fabric node=$SLURMD_NODENAME 2>&1)`
	const block, leaf, none = "BlockName=b1 BlockIndex=0 Nodes=n[01-02] BlockSize=2", "SwitchName=s1 Level=0 Nodes=n[01-03]", "scontrol: error: Topology information contains no block with nodes n03"
	for _, tt := range []struct {
		name       string
		registered bool // by slurmd itself
		want       []string
	}{
		{"nodes in the file", false, []string{"n01 b1.n01 block.node", "n02 b1.n02 block.node", "n03 n03 node"}},
		{"nodes that register", true, []string{"n01 n01 node", "n02 n02 node", "n03 n03 node"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, conf := twoTopologies, "MaxNodeCount=20\nSelectType=select/cons_tres\nDefMemPerCPU=10\n"
			if tt.registered {
				file = regexp.MustCompile(`(?m)^ +nodes: .*\n`).ReplaceAllString(file, "")
			} else {
				conf += "NodeName=n[01-03] NodeAddr=127.0.0.1 Port=[21001-21003] CPUs=2 RealMemory=1000\n"
			}
			c := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{SlurmConf: conf + "PartitionName=p Nodes=ALL\nPartitionName=q Nodes=ALL Topology=fabric Default=YES\n", Files: map[string]string{"topology.yaml": file}})
			for i, place := range []string{"nvl:b1,fabric:s1", "nvl:b1,fabric:s1", "fabric:s1"} {
				var args []string
				if tt.registered {
					args = []string{"-Z", "--conf", fmt.Sprintf("CPUs=2 RealMemory=1000 Port=%d NodeAddr=127.0.0.1 Topology=%s", 21001+i, place)}
				}
				if err := c.Slurmd(t.Context(), fmt.Sprintf("n%02d", i+1), args...); err != nil {
					t.Fatal(err)
				}
			}
			await.Until(t, "three idle nodes", func() bool {
				out, _ := c.Run(t.Context(), "sinfo", "-h", "-N", "-p", "q", "-o", "%T")
				return strings.Count(out, "idle\n") == 3
			}, func() string { return c.Log("slurmctld") })
			var got []string
			for i, asked := range []string{block, block, none} {
				out, err := c.As(t.Context(), "alice", "srun", "--mpi=none", "-N1", "-w", fmt.Sprintf("n%02d", i+1), "sh", "-c", ask)
				if err != nil {
					t.Fatal(err)
				}
				tt.want[i] += " " + asked + " " + leaf
				got = append(got, regexp.MustCompile(` LinkSpeed=\d`).ReplaceAllString(strings.TrimSpace(out), ""))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
		})
	}
}
