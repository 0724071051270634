package slurmconf_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// sizedSite is racks of different sizes, as one topology with one partition.
type sizedSite struct {
	name   string
	sizes  []int // Slurm's BlockSizes
	blocks []int // nodes in each
	asked  []int // sizes of jobs
}

// sizedNodes is how many nodes the largest site may have.
const sizedNodes = 48

// randomSite makes a site, and asks for jobs at both ends of a range of impossible sizes.
func randomSite(rng *rand.Rand, number int, further bool) sizedSite {
	s := sizedSite{name: fmt.Sprintf("s%03d", number), sizes: []int{1 + rng.IntN(9)}}
	total := 0
	for range 2 + rng.IntN(7) {
		n := min(1+rng.IntN(s.sizes[0]+1), sizedNodes-total)
		if n > 0 {
			s.blocks = append(s.blocks, n)
			total += n
		}
	}
	if further {
		for _, times := range [][]int{{2}, {4}, {2, 4}}[rng.IntN(3)] {
			s.sizes = append(s.sizes, s.sizes[0]*times)
		}
	}
	asked := map[int]bool{total: true, 1 + rng.IntN(total): true}
	if ranges := s.impossible(); len(ranges) > 0 {
		r := ranges[rng.IntN(len(ranges))]
		for _, n := range []int{r.First - 1, r.First, r.Last, r.Last + 1} {
			asked[n] = true
		}
	}
	delete(asked, 0)
	delete(asked, total+1) // a job larger than its partition waits
	s.asked = slices.Sorted(maps.Keys(asked))
	return s
}

func (s *sizedSite) impossible() placement.JobSizes {
	return placement.ImpossibleJobs(s.sizes, s.blocks)
}

// topology has the blocks on the first nodes: sites share nodes.
func (s *sizedSite) topology() (t topology.Topology, nodes string) {
	t = topology.Topology{Name: s.name, Kind: "block", Sizes: s.sizes}
	at := 0
	for i, n := range s.blocks {
		t.Blocks = append(t.Blocks, topology.Block{Name: fmt.Sprintf("%s-b%d", s.name, i+1), Nodes: hosts.In(fmt.Sprintf("n[%03d-%03d]", at+1, at+n))})
		at += n
	}
	return t, fmt.Sprintf("n[001-%03d]", at)
}

// TestRealJobSizes asks slurmctld for jobs on random sites, each a topology with a
// partition of one slurm.conf: it refuses the sizes of ImpossibleJobs and no others. A
// third of the sites have further block sizes. The nodes are cloud nodes, which are
// there without a slurmd.
func TestRealJobSizes(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	count, rng := oracle.Rounds(50, 300), oracle.Rand(t)
	conf, jobs := &strings.Builder{}, &strings.Builder{}
	fmt.Fprintf(conf, "NodeName=n[001-%03d] NodeAddr=127.0.0.1 Port=[20001-%d] CPUs=2 RealMemory=1000 State=CLOUD\n"+
		"ResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\n", sizedNodes, 20000+sizedNodes)
	var topologies []topology.Topology
	sites := map[string]sizedSite{}
	for i := range count {
		s := randomSite(rng, i, i%3 == 0)
		topo, nodes := s.topology()
		topo.Default = i == 0
		topologies = append(topologies, topo)
		fmt.Fprintf(conf, "PartitionName=%s Nodes=%s State=UP Topology=%s\n", s.name, nodes, s.name)
		for _, n := range s.asked {
			fmt.Fprintln(jobs, s.name, n)
		}
		sites[s.name] = s
	}
	yaml, err := slurmconf.RenderYAML(topologies, "sites")
	if err != nil {
		t.Fatal(err)
	}
	cluster := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{SlurmConf: conf.String(), Files: map[string]string{
		"topology.yaml": string(yaml), "jobs": jobs.String(),
		"ask.sh": "while read -r site n; do said=$(sbatch --test-only -p $site -N $n --wrap true 2>&1); echo \"$site $n ${said//$'\\n'/ }\"; done </etc/slurm/jobs\n",
	}})
	out := cluster.RunTest(t, "bash", "/etc/slurm/ask.sh")
	compareSizes(t, sites, strings.Split(strings.TrimSpace(out), "\n"))
}

// compareSizes compares slurmctld's answers with the rule.
func compareSizes(t *testing.T, sites map[string]sizedSite, answers []string) {
	t.Helper()
	refused, taken := 0, 0
	for _, line := range answers {
		name, rest, _ := strings.Cut(line, " ")
		s, size, words := sites[name], 0, ""
		if _, err := fmt.Sscan(rest, &size); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		_, words, _ = strings.Cut(rest, " ")
		got := strings.Contains(words, "Requested node configuration is not available")
		if !got && !strings.Contains(words, "to start at") {
			t.Fatalf("slurmctld says neither yes nor no: %q", line)
		}
		switch want := s.impossible().Has(size); {
		case got != want:
			t.Errorf("BlockSizes %v, blocks of %v, -N %d: refused %t, want %t: %s", s.sizes, s.blocks, size, got, want, words)
		case got:
			refused++
		default:
			taken++
		}
	}
	t.Logf("%d sites: %d sizes refused, %d taken, as the rule says", len(sites), refused, taken)
	if refused < len(sites) || taken < len(sites) {
		t.Errorf("%d sizes refused and %d taken: the sites are lopsided", refused, taken)
	}
}
