package slurmconf_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// plannedSite is one block topology of the plan of a random set of racks.
type plannedSite struct {
	topology topology.Topology
	problems []topology.Finding
	total    int
}

// planRacks makes the plan of random racks on the first nodes, and returns its block topologies. The base of
// each third plan is set to that of the largest rack, which makes more sizes of jobs impossible.
func planRacks(t *testing.T, rng *rand.Rand, number int) (sites []*plannedSite) {
	t.Helper()
	var facts []topology.Facts
	policy := placement.Policy{}
	top, at := 3+rng.IntN(16), 0
	if number%3 == 2 {
		policy.BaseBlockSize = top
	}
	for r := range 2 + rng.IntN(7) {
		n := max(2, top-rng.IntN(3)*rng.IntN(3))
		if rng.IntN(6) == 0 {
			n = max(2, top/2) // of another size class
		}
		for range n {
			if at++; at > sizedNodes {
				break
			}
			name := fmt.Sprintf("n%03d", at)
			fabric := topology.Fabric{State: topology.FabricCompleted, ClusterUUID: topology.UUID{byte(r + 1)}, CliqueID: 1}
			f := topology.Facts{Name: name, SlurmName: name, Report: &topology.Node{Name: name, GPUs: []topology.GPU{{UUID: "GPU-" + name, Fabric: fabric}}}}
			f.Report.Domain = f.Report.Joined()
			facts = append(facts, f)
		}
	}
	new(fabric.Site).Judge(facts)
	plan, _, err := placement.MakePlan(placement.Observed{Facts: facts}, placement.Previous{}, policy)
	if err != nil {
		t.Fatal(err)
	}
	for _, topo := range plan.BlockTopologies() {
		s := &plannedSite{topology: topo}
		for _, p := range plan.Problems {
			if p.Reason == placement.ReasonJobSizes && strings.Contains(p.Message, " in topology "+topo.Name+":") {
				s.problems = append(s.problems, p)
			}
		}
		s.topology.Name = fmt.Sprintf("s%03d-%s", number, topo.Name)
		s.topology.Blocks = slices.Clone(topo.Blocks)
		for i := range s.topology.Blocks {
			s.total += len(topo.Blocks[i].Nodes)
			s.topology.Blocks[i].Name = fmt.Sprintf("%s-%d", s.topology.Name, i+1)
		}
		sites = append(sites, s)
	}
	return sites
}

func (s *plannedSite) nodes() (nodes []string) {
	for _, b := range s.topology.Blocks {
		nodes = append(nodes, b.Nodes...)
	}
	return nodes
}

// compare compares slurmctld's answer to a job of n nodes with the plan. The plan names the sizes that
// are refused, and no others, and a job of up to the base block size is in one block.
func (s *plannedSite) compare(t *testing.T, n int, said string) (refused bool) {
	t.Helper()
	var counts []int
	for _, b := range s.topology.Blocks {
		counts = append(counts, len(b.Nodes))
	}
	impossible := placement.ImpossibleJobs(s.topology.Sizes, counts)
	named := len(s.problems) == 1 && strings.HasPrefix(s.problems[0].Message, "jobs of "+impossible.String()+" nodes ")
	if named != (len(impossible) > 0) || len(s.problems) > 1 {
		t.Errorf("BlockSizes %v, blocks of %v: problems %v, want jobs of %s", s.topology.Sizes, counts, s.problems, impossible)
	}
	refused = strings.Contains(said, "Requested node configuration is not available")
	_, place, starts := strings.Cut(said, " on nodes ")
	if refused == starts {
		t.Fatalf("-N %d: slurmctld says neither yes nor no: %q", n, said)
	}
	if refused != impossible.Has(n) {
		t.Errorf("BlockSizes %v, blocks of %v, -N %d: refused %t, want %t", s.topology.Sizes, counts, n, refused, !refused)
	}
	if refused || n > s.topology.Sizes[0] {
		return refused
	}
	nodes, err := hostlist.Expand(strings.Fields(place)[0])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(s.topology.Blocks, func(b topology.Block) bool {
		return !slices.ContainsFunc(nodes, func(n string) bool { return !slices.Contains(b.Nodes, n) })
	}) {
		t.Errorf("BlockSizes %v, blocks of %v, -N %d is split: %s", s.topology.Sizes, counts, n, place)
	}
	return refused
}

// TestRealBases makes plans of random racks, all healthy, and asks slurmctld for a job of each size.
func TestRealBases(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	rng, sites := oracle.Rand(t), map[string]*plannedSite{}
	conf, jobs := &strings.Builder{}, &strings.Builder{}
	fmt.Fprintf(conf, "NodeName=n[001-%03d] NodeAddr=127.0.0.1 Port=[20001-%d] CPUs=2 RealMemory=1000 State=CLOUD\n"+
		"ResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\nTopologyPlugin=topology/block\n", sizedNodes, 20000+sizedNodes)
	var topologies []topology.Topology
	for i := range oracle.Rounds(6, 30) {
		for _, s := range planRacks(t, rng, i) {
			name := s.topology.Name
			s.topology.Default = len(topologies) == 0
			sites[name], topologies = s, append(topologies, s.topology)
			fmt.Fprintf(conf, "PartitionName=%s Nodes=%s State=UP Topology=%[1]s\n", name, hostlist.Compress(s.nodes()))
			for n := range s.total {
				fmt.Fprintln(jobs, name, n+1)
			}
			for _, p := range s.problems { // what it advises works
				fmt.Fprintln(jobs, name, p.Message[strings.Index(p.Message, "sbatch -N ")+len("sbatch -N "):])
			}
		}
	}
	yaml, err := slurmconf.RenderYAML(topologies, "racks")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"topology.yaml": string(yaml), "jobs": jobs.String(),
		"ask.sh": "while read -r site n segment; do said=$(sbatch --test-only -p $site -N $n $segment --wrap true 2>&1); echo \"$site $n $segment: ${said//$'\\n'/ }\"; done\n"}
	cluster := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{SlurmConf: conf.String(), Files: files})
	refused, taken := 0, 0
	for line := range strings.Lines(cluster.RunTest(t, "bash", "-c", "bash /etc/slurm/ask.sh </etc/slurm/jobs")) {
		asked, said, _ := strings.Cut(line, ":")
		var name, segment string
		n := 0
		if _, err := fmt.Sscan(asked, &name, &n, &segment); err != nil && n == 0 {
			t.Fatalf("line %q: %v", line, err)
		}
		switch {
		case segment != "":
			if taken++; !strings.Contains(said, " on nodes ") {
				t.Errorf("%s: -N %d %s: %s", name, n, segment, said)
			}
		case sites[name].compare(t, n, said):
			refused++
		default:
			taken++
		}
	}
	t.Logf("%d topologies: %d sizes of jobs refused, %d taken, as the plans say", len(sites), refused, taken)
	if want := strings.Count(jobs.String(), "\n"); refused+taken != want || refused == 0 {
		t.Errorf("%d answers with %d refused, want %d with some", refused+taken, refused, want)
	}
}
