package slurmconf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// racksOf returns racks of as many nodes as sizes say, below one root switch.
func racksOf(root string, sizes ...int) []topology.Facts {
	var out []topology.Facts
	for r, size := range sizes {
		for n := range size {
			name := fmt.Sprintf("%s%d-%02d", root, r+1, n+1)
			clique := topology.Clique{ClusterUUID: topology.UUID{root[0], byte(r + 1)}, ID: 1}
			out = append(out, topology.Facts{Name: name, SlurmName: name, Labels: topology.Labels{GPUs: 4, Clique: clique, Tiers: []string{fmt.Sprintf("leaf-%s%d", root, r+1), "spine-" + root, root}}})
		}
	}
	return out
}

// TestRealTopologies asks slurmctld for jobs in the partitions of sites with racks of two
// sizes and with two fabrics.
func TestRealTopologies(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	for _, tt := range []struct {
		name    string
		facts   []topology.Facts
		classes []int
		// jobs are partition, number of nodes, and whether slurmctld takes the job.
		jobs []string
	}{
		{"racks of 18 and 9", racksOf("a", 18, 18, 18, 9, 9, 9, 9), []int{18, 9}, []string{
			"nvl-9 10 true", "nvl-9 12 true", "nvl-9 18 true", "nvl-9 36 true", "nvl-18 18 true", "nvl-18 36 true", "nvl-18 54 true"}},
		{"two fabrics", append(racksOf("a", 4, 4), racksOf("b", 4, 4)...), nil, []string{
			"nvl-a 8 true", "nvl-b 8 true", "nvl-a,nvl-b 8 true", "all 9 false", "all 16 false"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			new(fabric.Site).Judge(tt.facts)
			plan, _, err := placement.MakePlan(placement.Observed{Facts: tt.facts}, placement.Previous{}, placement.Policy{EmptyLeaves: true, SeparateFabrics: true, SizeClasses: tt.classes})
			if err != nil {
				t.Fatal(err)
			}
			topologies, err := slurmconf.FromPlan(plan, slurmconf.Choice{Kind: slurmconf.KindAuto, YAML: true})
			if err != nil {
				t.Fatal(err)
			}
			yaml, err := slurmconf.RenderYAML(topologies, "a test")
			if err != nil {
				t.Fatal(err)
			}
			conf := []string{"ResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\nPartitionName=all Nodes=ALL State=UP"}
			for i := range tt.facts {
				conf = append(conf, fmt.Sprintf("NodeName=%s NodeAddr=127.0.0.1 Port=%d CPUs=2 RealMemory=1000 State=CLOUD", tt.facts[i].SlurmName, 20001+i))
			}
			conf = append(conf, slurmconf.PartitionLines(topologies)...)
			cluster := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{SlurmConf: strings.Join(conf, "\n") + "\n", Files: map[string]string{"topology.yaml": string(yaml)}})
			var got []string
			for _, job := range tt.jobs {
				words := strings.Fields(job)
				out, err := cluster.Run(t.Context(), "sbatch", "--test-only", "-p", words[0], "-N", words[1], "--wrap", "true")
				if err != nil && !strings.Contains(out, "Requested node configuration is not available") {
					t.Fatalf("%s: %v", job, err)
				}
				got = append(got, fmt.Sprintf("%s %s %t", words[0], words[1], err == nil))
			}
			if diff := cmp.Diff(tt.jobs, got); diff != "" {
				t.Errorf("jobs (-want +got):\n%s\n%s", diff, yaml)
			}
		})
	}
}

// TestRealJoinedRoots asks both releases for jobs across two switches that no label joins, in the tree, and
// 26.05 in the block topology too.
func TestRealJoinedRoots(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	facts := append(racksOf("a", 4, 4), racksOf("b", 4, 4)...)
	new(fabric.Site).Judge(facts)
	plan, _, err := placement.MakePlan(placement.Observed{Facts: facts}, placement.Previous{}, placement.Policy{EmptyLeaves: true, OneTopology: true})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for i := range facts {
		nodes = append(nodes, fmt.Sprintf("NodeName=%s NodeAddr=127.0.0.1 Port=%d CPUs=2 RealMemory=1000 State=CLOUD", facts[i].SlurmName, 20001+i))
	}
	for _, tt := range []struct {
		release slurmrig.Release
		kind    slurmconf.Kind
	}{
		{slurmrig.Slurm2411, slurmconf.KindTree}, {slurmrig.Slurm2605, slurmconf.KindAuto},
	} {
		t.Run(fmt.Sprintf("%s %s", tt.release.Slurm, tt.kind), func(t *testing.T) {
			t.Parallel()
			yaml := tt.kind == slurmconf.KindAuto
			topologies, err := slurmconf.FromPlan(plan, slurmconf.Choice{Kind: tt.kind, YAML: yaml})
			if err != nil {
				t.Fatal(err)
			}
			conf := append([]string{"ResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\nPartitionName=all Nodes=ALL State=UP"}, nodes...)
			name, partitions := "topology.conf", []string{"all"}
			var text []byte
			if yaml {
				name, partitions = "topology.yaml", []string{"all", "tree"}
				conf = append(conf, "PartitionName=tree Nodes=ALL State=UP Topology="+topology.FabricTopology)
				text, err = slurmconf.RenderYAML(topologies, "a test")
			} else {
				conf = append(conf, "TopologyPlugin=topology/"+string(tt.kind))
				text, err = slurmconf.RenderConf(topologies[0], "a test")
			}
			if err != nil {
				t.Fatal(err)
			}
			cluster := slurmrig.StartTest(t, tt.release, slurmrig.Config{SlurmConf: strings.Join(conf, "\n") + "\n", Files: map[string]string{name: string(text)}})
			for _, partition := range partitions {
				for n := 1; n <= len(facts); n++ {
					if out, err := cluster.Run(t.Context(), "sbatch", "--test-only", "-p", partition, "-N", fmt.Sprint(n), "--wrap", "true"); err != nil {
						t.Errorf("partition %s, -N %d: %v %s\n%s", partition, n, err, out, text)
					}
				}
			}
		})
	}
}
