package fit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	siteNodes = 64
	perSite   = 3  // jobs
	sitesEach = 25 // of each state of the nodes
)

// site is a random block topology on the first nodes, as one partition.
type site struct {
	name   string
	sizes  []int
	blocks [][]string
	apart  []string // nodes of the partition in no block
}

func nodeName(i int) string { return fmt.Sprintf("n%03d", i) }

func randomSite(rng *rand.Rand, number int) *site {
	s := &site{name: fmt.Sprintf("s%03d", number), sizes: []int{1 + rng.IntN(9)}}
	at := 0
	for range 2 + rng.IntN(15) {
		n := max(0, s.sizes[0]-rng.IntN(3)*rng.IntN(3))
		if rng.IntN(8) == 0 {
			n = 0 // a placeholder
		}
		if at+n > siteNodes {
			break
		}
		var nodes []string
		for range n {
			at++
			nodes = append(nodes, nodeName(at))
		}
		s.blocks = append(s.blocks, nodes)
	}
	if at == 0 {
		at, s.blocks[0] = 1, []string{nodeName(1)}
	}
	for range rng.IntN(3) {
		if at < siteNodes {
			at++
			s.apart = append(s.apart, nodeName(at))
		}
	}
	for _, times := range [][]int{nil, {2}, {4}, {2, 4}, {2, 8}, {2, 4, 8, 16}}[rng.IntN(6)] {
		s.sizes = append(s.sizes, s.sizes[0]*times)
	}
	return s
}

func (s *site) topology() topology.Topology {
	t := topology.Topology{Name: s.name, Kind: "block", Sizes: s.sizes}
	for i, nodes := range s.blocks {
		t.Blocks = append(t.Blocks, topology.Block{Name: fmt.Sprintf("%s-b%d", s.name, i), Nodes: nodes})
	}
	return t
}

// state is which nodes a job may have, and which run another job.
type state struct{ free, busy map[string]bool }

func (s *site) answer(st *state, j *Job) Answer {
	t := s.topology()
	site := NewSite(&t, 0, func(node string) State {
		switch {
		case st.free[node]:
			return StateOf("IDLE")
		case st.busy[node]:
			return StateOf("ALLOCATED")
		}
		return StateOf("IDLE", "DRAIN")
	})
	site.Apart = s.apart
	return site.Answer(j)
}

// enough reports whether the job fits when the needed nodes are free.
func (s *site) enough(st *state, j *Job, needs []Need) bool {
	after := &state{maps.Clone(st.free), maps.Clone(st.busy)}
	for _, need := range needs {
		for _, node := range need.Nodes[:need.Count] {
			after.free[node], after.busy[node] = true, false
		}
	}
	return s.answer(after, j).Verdict == Now
}

func randomJob(rng *rand.Rand, nodes int) *Job {
	j := &Job{Nodes: 1 + rng.IntN(nodes), Exclusive: rng.IntN(10) == 0}
	if rng.IntN(3) > 0 {
		j.Segment = 1 + rng.IntN(8)
		j.Nodes = max(1, min(j.Nodes, nodes)/j.Segment) * j.Segment
		j.Consolidate, j.Spread = rng.IntN(10) == 0, rng.IntN(10) == 0
		if j.Nodes > nodes {
			j.Nodes, j.Segment, j.Consolidate, j.Spread = nodes, 0, false, false
		}
	}
	return j
}

// rig is a real slurmctld with all sites, and the state of its nodes.
type rig struct {
	t     *testing.T
	slurm *slurmrig.Cluster
	all   []*site
	state
}

// startRig starts a slurmctld whose nodes are there without a slurmd. Each site is a topology
// with a partition.
func startRig(t *testing.T, rng *rand.Rand, sites int) *rig {
	t.Helper()
	r := &rig{t: t}
	conf := &strings.Builder{}
	fmt.Fprintf(conf, "NodeName=n[001-%03[1]d] NodeAddr=127.0.0.1 Port=[20001-%[2]d] CPUs=2 RealMemory=1000 State=CLOUD\n"+
		"ResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\nResumeTimeout=60000\nPartitionName=flat Nodes=n[001-%03[1]d] State=UP Topology=flat\n", siteNodes, 20000+siteNodes)
	topologies := []topology.Topology{{Name: "flat", Kind: "flat", Default: true}}
	for i := range sites {
		s := randomSite(rng, i)
		topologies, r.all = append(topologies, s.topology()), append(r.all, s)
		fmt.Fprintf(conf, "PartitionName=%s Nodes=%s State=UP Topology=%s\n", s.name, hostlist.Compress(slices.Concat(slices.Concat(s.blocks...), s.apart)), s.name)
	}
	yaml, err := slurmconf.RenderYAML(topologies, "sites")
	if err != nil {
		t.Fatal(err)
	}
	r.slurm = slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{SlurmConf: conf.String(), Files: map[string]string{"topology.yaml": string(yaml)}})
	return r
}

func (r *rig) run(script string) string {
	r.t.Helper()
	return r.slurm.RunTest(r.t, "bash", "-c", script)
}

// set drains some nodes, lets a job of ten days run on others if jobs is set, and leaves the rest
// free. wells is how many of ten are free.
func (r *rig) set(rng *rand.Rand, wells int, jobs bool) {
	r.t.Helper()
	r.state = state{map[string]bool{}, map[string]bool{}}
	var drained, busy []string
	for i := range siteNodes {
		switch name := nodeName(i + 1); {
		case rng.IntN(10) < wells:
			r.free[name] = true
		case !jobs || rng.IntN(2) == 0:
			drained = append(drained, name)
		default:
			busy = append(busy, name)
			r.busy[name] = true
		}
	}
	script := &strings.Builder{}
	fmt.Fprintf(script, "scancel -u root; while squeue -h | grep -q .; do sleep 0.05; done; scontrol update nodename=n[001-%03d] state=resume 2>/dev/null || true\n", siteNodes)
	if len(busy) > 0 {
		fmt.Fprintf(script, "sbatch -p flat -N %d -w %s --exclusive -t 10-0 --wrap true; until squeue -h -t CF,R | grep -q .; do sleep 0.05; done\n", len(busy), hostlist.Compress(busy))
	}
	if len(drained) > 0 {
		fmt.Fprintf(script, "scontrol update nodename=%s state=drain reason=x\n", hostlist.Compress(drained))
	}
	r.run(script.String())
}

// question is a job on a site.
type question struct {
	site *site
	job  *Job
}

// ask asks slurmctld which of the jobs could start now.
func (r *rig) ask(questions []question) (now []bool, said []string) {
	r.t.Helper()
	script := &strings.Builder{}
	for _, q := range questions {
		fmt.Fprintf(script, "said=$(%s -p %s 2>&1); echo ${said//$'\\n'/ }\n", q.job.Command(), q.site.name)
	}
	soon := time.Now().Add(24 * time.Hour)
	for line := range strings.Lines(r.run(script.String())) {
		_, rest, _ := strings.Cut(line, " to start at ")
		start, err := time.ParseInLocation("2006-01-02T15:04:05", strings.SplitN(rest, " ", 2)[0], time.Local)
		now, said = append(now, err == nil && start.Before(soon)), append(said, strings.TrimSpace(line))
	}
	if len(now) != len(questions) {
		r.t.Fatalf("%d answers to %d questions", len(now), len(questions))
	}
	return now, said
}

// TestRealFit asks a real slurmctld for jobs on random sites whose nodes are free, drained or
// busy. Slurm starts the jobs that fit, and no others. If all nodes are free, it starts the jobs
// that are not "never", and no others but for jobs that fit only now.
func TestRealFit(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	states, rng := oracle.Rounds(6, 20), oracle.Rand(t) // of the nodes, one after the other
	r := startRig(t, rng, states*sitesEach)
	var questions []question
	for _, s := range r.all {
		for range perSite {
			questions = append(questions, question{s, randomJob(rng, len(slices.Concat(s.blocks...))+len(s.apart))})
		}
	}
	r.set(rng, 10, false)
	var ever []bool // all nodes are free
	for some := range slices.Chunk(questions, len(questions)/states) {
		can, _ := r.ask(some)
		ever = append(ever, can...)
	}
	verdicts := map[Verdict]int{}
	for round := range states {
		r.set(rng, []int{7, 10, 5, 6, 8, 9}[round%6], round == states-1) // nodes that a job has left are not at rest
		first, last := round*len(questions)/states, (round+1)*len(questions)/states
		now, said := r.ask(questions[first:last])
		for i, q := range questions[first:last] {
			answer := q.site.answer(&r.state, q.job)
			verdicts[answer.Verdict]++
			place := answer.Place
			if fits := answer.Verdict == Now; answer.Verdict == Unknown {
				continue
			} else if fits != now[i] || (answer.Verdict == Never) == ever[first+i] && !onlyNow(&answer) {
				t.Errorf("%s: sizes %v, free %v, %d apart: %s, Slurm: %s, and with all nodes free: %t", q.job.Command(), q.site.sizes, q.site.count(&r.state), len(q.site.apart), answer.Verdict, said[i], ever[first+i])
			}
			switch answer.Verdict {
			case Now:
				if err := q.site.legal(&r.state, q.job, place); err != nil {
					t.Errorf("%s: sizes %v, free %v: %v: %v", q.job.Command(), q.site.sizes, q.site.count(&r.state), place, err)
				}
			case NotNow:
				if !q.site.enough(&r.state, q.job, answer.Needs) {
					t.Errorf("%s: sizes %v, free %v: not with %v", q.job.Command(), q.site.sizes, q.site.count(&r.state), answer.Needs)
				}
			case Never:
				if answer.Why == "" {
					t.Errorf("%s: sizes %v: no reason", q.job.Command(), q.site.sizes)
				}
			}
		}
	}
	t.Logf("verdicts: %v", verdicts)
	if verdicts[Now] < 15*states || verdicts[NotNow] < 10*states || verdicts[Never] < 5*states {
		t.Errorf("verdicts %v: too few of one kind", verdicts)
	}
}

// onlyNow reports whether the job fits now, and would not if all nodes were free: Slurm takes
// several nodes in no block only while no node of a block is free.
func onlyNow(a *Answer) bool { return a.Verdict == Now && a.Place.Apart > 1 }

// legal says what is wrong with a place: it takes what is not free, or a segment is not in one
// aggregate that is large enough.
func (s *site) legal(st *state, j *Job, place Place) error {
	free, total := s.count(st), place.Apart
	for _, segment := range place.Segments {
		nodes, first, last := 0, len(free), 0
		for _, taken := range segment {
			free[taken.Block] -= taken.Nodes
			nodes, first, last = nodes+taken.Nodes, min(first, taken.Block), max(last, taken.Block)
			if free[taken.Block] < 0 || taken.Nodes < 1 {
				return fmt.Errorf("block %d has no %d nodes more", taken.Block, taken.Nodes)
			}
		}
		total += nodes
		for _, size := range s.sizes {
			if per := size / s.sizes[0]; nodes <= size {
				if first/per != last/per {
					return fmt.Errorf("%d nodes are in several aggregates of %d", nodes, size)
				}
				break
			}
		}
	}
	if total != j.Nodes {
		return fmt.Errorf("%d nodes, want %d", total, j.Nodes)
	}
	return nil
}

// count counts the free nodes of each block.
func (s *site) count(st *state) (counts []int) {
	for _, nodes := range s.blocks {
		n := 0
		for _, name := range nodes {
			if st.free[name] {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts
}
