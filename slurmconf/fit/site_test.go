package fit_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/topology"
)

// racksOf is a site of racks. The nodes that states does not have are free.
func racksOf(states map[string]fit.State, sizes ...int) *fit.Site {
	t := topology.Topology{Kind: topology.KindBlock, Sizes: []int{18}}
	for i, size := range sizes {
		b := topology.Block{Name: fmt.Sprintf("b%d", i+1)}
		for k := range size {
			b.Nodes = append(b.Nodes, fmt.Sprintf("r%d-%d", i+1, k+1))
		}
		t.Blocks = append(t.Blocks, b)
	}
	return fit.NewSite(&t, 0, func(node string) fit.State { return states[node] })
}

func TestAnswer(t *testing.T) {
	states := map[string]fit.State{"r1-1": fit.StateOf("allocated"), "r1-2": fit.StateOf("down"), "r2-1": fit.StateOf("drained")}
	for i, size := range []int{18, 18, 14} {
		for k := range size {
			name := fmt.Sprintf("r%d-%d", i+1, k+1)
			state := states[name]
			state.GPUs = 4
			states[name] = state
		}
	}
	states["r3-1"] = fit.State{GPUs: 2}
	job := func(nodes, segment int) fit.Job { return fit.Job{Nodes: nodes, Segment: segment} }
	exclusive, gpus, spread, together, small, many := job(18, 0), job(50, 0), job(36, 9), job(36, 18), job(16, 0), job(60, 0)
	exclusive.Exclusive, gpus.GPUs, spread.Spread, together.Consolidate, small.GPUs, many.Exclusive = true, 4, true, true, 2, true
	const noRule = "there is no rule here for --consolidate-segments, --spread-segments and --exclusive=topo"
	for _, tt := range []struct {
		name  string
		job   fit.Job
		want  fit.Verdict
		why   string
		needs []fit.Need
	}{
		{"fits", job(16, 16), fit.Now, "", nil},
		{"a rack is short", job(48, 16), fit.Never, "2 segments of 16 nodes fit if all nodes are free and available, and the job asks for 3", nil},
		{"a drained node must be available", job(18, 0), fit.NotNow, "", []fit.Need{{Block: "b2", Count: 1, Nodes: []string{"r2-1"}}}},
		{"jobs end before nodes are available", job(34, 17), fit.NotNow, "", []fit.Need{{Block: "b1", Count: 1, Nodes: []string{"r1-1", "r1-2"}}}},
		{"alone in its blocks", exclusive, fit.Unknown, noRule, nil},
		{"too many, and alone in their blocks", many, fit.Never, "the topology has 50 nodes, and the job asks for 60", nil},
		{"too many", job(60, 0), fit.Never, "the topology has 50 nodes, and the job asks for 60", nil},
		{"two GPUs in a node", gpus, fit.Never, "of nodes with 4 GPUs or more: the topology has 49 nodes, and the job asks for 50", nil},
		{"larger than a block", job(19, 0), fit.Now, "", nil},
		{"each in a rack of its own", spread, fit.Unknown, noRule, nil},
		{"two numbers of GPUs", small, fit.Unknown, "the nodes have different numbers of GPUs, and which nodes Slurm takes first for GPUs is not known", nil},
		{"no multiple of the segment", job(16, 5), fit.Never, "Slurm refuses 16 nodes, because they are no multiple of the segment of 5", nil},
		{"together", together, fit.Unknown, noRule, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.job.Check(); err != nil {
				t.Fatal(err)
			}
			got := racksOf(states, 18, 18, 14).Answer(&tt.job)
			if got.Verdict != tt.want || !strings.HasPrefix(got.Why, tt.why) {
				t.Errorf("%s: %s", got.Verdict, got.Why)
			}
			if diff := cmp.Diff(tt.needs, got.Needs); diff != "" {
				t.Errorf("needs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnswerApart asks for GPUs that only some of the nodes in no block have.
func TestAnswerApart(t *testing.T) {
	states := map[string]fit.State{"a1": {GPUs: 2}, "a2": {GPUs: 8}, "a3": {GPUs: 8}}
	s := racksOf(states)
	s.Apart = []string{"a1", "a2", "a3"}
	for nodes, want := range map[int]fit.Verdict{2: fit.Now, 3: fit.Never} {
		if got := s.Answer(&fit.Job{Nodes: nodes, GPUs: 4}); got.Verdict != want {
			t.Errorf("%d nodes: %s %s, want %s", nodes, got.Verdict, got.Why, want)
		}
	}
	s = racksOf(map[string]fit.State{"r1-1": fit.StateOf("idle~")}, 1) // then they run jobs of one node only
	s.Apart = []string{"a1", "a2"}
	for nodes, want := range map[int]fit.Verdict{1: fit.Now, 2: fit.Never} {
		if got := s.Answer(&fit.Job{Nodes: nodes}); got.Verdict != want {
			t.Errorf("%d nodes beside one that is powered down: %s %s, want %s", nodes, got.Verdict, got.Why, want)
		}
	}
}

// treeOf is a tree with two roots: 8 nodes below spine1, 4 below spine2. Node x is below none.
func treeOf(states map[string]fit.State) *fit.Site {
	s := fit.NewSite(&topology.Topology{Kind: topology.KindTree, Switches: []topology.Switch{
		{Name: "spine1", Children: []string{"leaf1", "leaf2"}}, {Name: "leaf1", Nodes: []string{"a1", "a2", "a3", "a4"}}, {Name: "leaf2", Nodes: []string{"b1", "b2", "b3", "b4"}},
		{Name: "spine2", Children: []string{"leaf3"}}, {Name: "leaf3", Nodes: []string{"c1", "c2", "c3", "c4"}},
	}}, 0, func(node string) fit.State { return states[node] })
	s.Apart = []string{"x"}
	return s
}

// TestAnswerTree asks for jobs in a tree: all nodes of a job are below one switch.
func TestAnswerTree(t *testing.T) {
	busy, off := fit.StateOf("allocated"), fit.StateOf("idle~")
	all, gpus := map[string]fit.State{}, map[string]fit.State{}
	for _, node := range treeOf(nil).Nodes() {
		all[node], gpus[node] = busy, fit.State{GPUs: 4}
	}
	all["x"], gpus["a1"] = fit.State{}, fit.State{GPUs: 2}
	const fewWhy = "which leaf switches Slurm takes is not known: Slurm waits a while for so few, and then starts the job on more"
	for _, tt := range []struct {
		name   string
		states map[string]fit.State
		job    fit.Job
		want   fit.Verdict
		why    string
		needs  []fit.Need
	}{
		{"below the larger root", nil, fit.Job{Nodes: 8}, fit.Now, "", nil},
		{"above both roots", nil, fit.Job{Nodes: 9}, fit.Never, "all nodes of a job must be below one switch, and the largest, spine1, has 8; 1 nodes are below no switch and run jobs of one node only", nil},
		{"powered down", map[string]fit.State{"a1": off, "b1": off}, fit.Job{Nodes: 8}, fit.Now, "", nil},
		{"nodes are busy", map[string]fit.State{"a1": busy, "b1": busy}, fit.Job{Nodes: 7}, fit.NotNow, "", []fit.Need{{Block: "spine1", Count: 1, Nodes: []string{"a1", "b1"}}}},
		{"one node outside", all, fit.Job{Nodes: 1}, fit.Now, "", nil},
		{"the segment does not count", nil, fit.Job{Nodes: 8, Segment: 2, Exclusive: true}, fit.Now, "", nil},
		{"the segment must divide the job", nil, fit.Job{Nodes: 8, Segment: 3}, fit.Never, "Slurm refuses 8 nodes, because they are no multiple of the segment of 3", nil},
		{"more leaf switches than there are", nil, fit.Job{Nodes: 8, Switches: 3}, fit.Now, "", nil},
		{"on any leaf switch", nil, fit.Job{Nodes: 4, Switches: 1}, fit.Now, "", nil},
		{"on any two leaf switches", map[string]fit.State{"a1": busy, "a2": busy}, fit.Job{Nodes: 6, Switches: 2}, fit.Now, "", nil},
		{"on the only two leaf switches of a root", map[string]fit.State{"a1": busy, "a2": busy, "c1": busy}, fit.Job{Nodes: 6, Switches: 2}, fit.Now, "", nil},
		{"of two roots one has the nodes on one leaf switch", map[string]fit.State{"a1": busy, "b1": busy}, fit.Job{Nodes: 4, Switches: 1}, fit.Unknown, fewWhy, nil},
		{"on any leaf switch that is up", map[string]fit.State{"a1": off}, fit.Job{Nodes: 3, Switches: 1}, fit.Unknown, fewWhy, nil},
		{"on any leaf switch, if a node is free", map[string]fit.State{"a1": {Use: fit.Unsaid}}, fit.Job{Nodes: 3, Switches: 1}, fit.Unknown, "the states of these nodes are not known: a1", nil},
		{"nodes are busy, on few leaf switches", map[string]fit.State{"a1": busy, "b1": busy}, fit.Job{Nodes: 7, Switches: 1}, fit.NotNow, "", []fit.Need{{Block: "spine1", Count: 1, Nodes: []string{"a1", "b1"}}}},
		{"on few leaf switches", nil, fit.Job{Nodes: 8, Switches: 1}, fit.NotNow, "now the job would get more than 1 leaf switch: Slurm waits a while for so few, and then starts the job on more", nil},
		{"on few leaf switches, and too many", nil, fit.Job{Nodes: 14, Switches: 1}, fit.Never, "all nodes of a job must be below one switch, and the largest, spine1, has 8; 1 nodes are below no switch and run jobs of one node only", nil},
		{"on any leaf switch, with two numbers of GPUs", gpus, fit.Job{Nodes: 3, Switches: 1, GPUs: 2}, fit.Unknown, fewWhy, nil},
		{"nobody counts GPUs", nil, fit.Job{Nodes: 1, GPUs: 4}, fit.Unknown, "the number of GPUs of these nodes is not known: a[1-4],b[1-4],c[1-4],x", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := treeOf(tt.states).Answer(&tt.job)
			if got.Verdict != tt.want || got.Why != tt.why {
				t.Errorf("%s: %s", got.Verdict, got.Why)
			}
			if diff := cmp.Diff(tt.needs, got.Needs); diff != "" {
				t.Errorf("needs (-want +got):\n%s", diff)
			}
		})
	}
	shared := fit.NewSite(&topology.Topology{Kind: topology.KindTree, Switches: []topology.Switch{{Name: "s1", Children: []string{"l"}}, {Name: "s2", Children: []string{"l"}}, {Name: "l", Nodes: []string{"a1", "a2"}}}}, 0, func(string) fit.State { return fit.State{} })
	if got := shared.Answer(&fit.Job{Nodes: 2}); got.Verdict != fit.Unknown || !strings.HasPrefix(got.Why, "a switch of the tree is below two others") {
		t.Errorf("below two switches: %+v", got)
	}
}

// treeFrom is a tree of leaf switches below core, each with its path and how many free nodes it has.
func treeFrom(leaves string) *fit.Site {
	var switches []topology.Switch
	below := map[string][]string{}
	for leaf := range strings.FieldsSeq(leaves) {
		path, free, _ := strings.Cut(leaf, ":")
		names := strings.Split("core/"+path, "/")
		for i, name := range names[1:] {
			if !slices.Contains(below[names[i]], name) {
				below[names[i]] = append(below[names[i]], name)
			}
		}
		sw := topology.Switch{Name: names[len(names)-1]}
		count, _ := strconv.Atoi(free)
		for k := range count {
			sw.Nodes = append(sw.Nodes, fmt.Sprintf("%s-%d", sw.Name, k+1))
		}
		switches = append(switches, sw)
	}
	for _, name := range slices.Sorted(maps.Keys(below)) {
		switches = append(switches, topology.Switch{Name: name, Children: below[name]})
	}
	return fit.NewSite(&topology.Topology{Kind: topology.KindTree, Switches: switches}, 0, func(string) fit.State { return fit.State{} })
}

// TestAnswerLeaves asks for few leaf switches. Slurm takes one leaf after the other, and tries no others if these do not do.
func TestAnswerLeaves(t *testing.T) {
	for _, tt := range []struct {
		name            string
		leaves          string
		nodes, switches int
		want            fit.Verdict
	}{
		{"two equal leaves", "s1/l1:2 s1/l2:2 s2/l3:1", 4, 2, fit.Now},
		{"the spine that holds the job goes before the largest leaf", "s1/l1:4 s1/l2:1 s2/l3:3 s2/l4:3", 6, 2, fit.Now},
		{"of two spines that hold the job the smaller one", "s1/l1:2 s1/l2:1 s1/l3:1 s2/l4:3 s2/l5:3", 4, 2, fit.NotNow},
		{"of two equal spines that hold the job the first", "s1/l1:2 s1/l2:1 s1/l3:1 s2/l4:2 s2/l5:2", 4, 2, fit.NotNow},
		{"of two spines that do not hold the job the larger one", "s1/l1:3 s2/l2:4 s2/l3:1", 7, 2, fit.Now},
		{"a farther leaf holds the rest, and comes first", "s1/l1:3 s2/l2:4 s2/l3:1", 7, 2, fit.Now},
		{"a farther leaf holds the rest, and comes last", "s1/l1:4 s1/l2:1 s2/l3:3", 7, 2, fit.NotNow},
		{"of two equal spines the first", "s1/l1:3 s1/l2:1 s2/l3:2 s2/l4:2", 5, 2, fit.NotNow},
		{"of two equal spines the one with fewer levels", "s1/l1:3 s1/m/l2:1 s2/l3:2 s2/l4:2", 5, 2, fit.Now},
	} {
		got := treeFrom(tt.leaves).Answer(&fit.Job{Nodes: tt.nodes, Switches: tt.switches})
		if got.Verdict != tt.want {
			t.Errorf("%s: %s %s, want %s", tt.name, got.Verdict, got.Why, tt.want)
		}
	}
}

// TestAnswerByRelease asks for what only new releases take.
func TestAnswerByRelease(t *testing.T) {
	for _, tt := range []struct {
		job  fit.Job
		now  fit.Verdict
		want string // of 24.11
	}{
		{fit.Job{Nodes: 36, Segment: 36}, fit.Now, "Slurm 24.11 refuses a segment of 36 nodes, because it is larger than the base block size of 18"},
		{fit.Job{Nodes: 4, Segment: 8}, fit.Now, "Slurm refuses 4 nodes, because they are no multiple of the segment of 8"},
		{fit.Job{Nodes: 4, Segment: 4, Spread: true}, fit.Unknown, "Slurm 24.11 has no --spread-segments and no --consolidate-segments"},
	} {
		s := racksOf(nil, 18, 18)
		if got := s.Answer(&tt.job); got.Verdict != tt.now {
			t.Errorf("%+v: %+v", tt.job, got)
		}
		s.Release = slurmconf.Release2411
		if got := s.Answer(&tt.job); got.Verdict != fit.Never || got.Why != tt.want {
			t.Errorf("%+v: %+v, want %s", tt.job, got, tt.want)
		}
	}
}

// TestAnswerStuck asks for a job for which Slurm must try another place. What it does then, Slurm says.
func TestAnswerStuck(t *testing.T) {
	s := racksOf(nil, 3, 0, 1, 2, 0)
	s.Sizes = []int{2, 4}
	got := s.Answer(&fit.Job{Nodes: 5, GPUs: 0})
	want := fit.Answer{Verdict: fit.Unknown, Why: "Slurm gets stuck with the first place that it tries, and which it tries next is not known",
		Remedy: "ask Slurm, with -p for the partition: sbatch --test-only -N 5 --exclusive --wrap true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAnswerPower asks for jobs while half of a rack is powered down.
func TestAnswerPower(t *testing.T) {
	const dark = "some free nodes are powered down, Slurm takes these last, and whether the job fits then is not known"
	states := map[string]fit.State{"r2-1": fit.StateOf("allocated")}
	for k := range 4 {
		states[fmt.Sprintf("r1-%d", k+1)] = fit.StateOf("idle~")
	}
	s := racksOf(states, 8, 8)
	s.Sizes = []int{8}
	for _, tt := range []struct {
		job   fit.Job
		want  fit.Verdict
		why   string
		needs []fit.Need
	}{
		{fit.Job{Nodes: 8}, fit.Now, "", nil},
		{fit.Job{Nodes: 16, Segment: 8}, fit.NotNow, "", []fit.Need{{Block: "b2", Count: 1, Nodes: []string{"r2-1"}}}},
		{fit.Job{Nodes: 12}, fit.Unknown, dark, nil},
		{fit.Job{Nodes: 16}, fit.Unknown, dark, nil},
		{fit.Job{Nodes: 17}, fit.Never, "the topology has 16 nodes, and the job asks for 17", nil},
	} {
		got := s.Answer(&tt.job)
		if diff := cmp.Diff(tt.needs, got.Needs); got.Verdict != tt.want || got.Why != tt.why || diff != "" {
			t.Errorf("%+v: %s %s: needs (-want +got):\n%s", tt.job, got.Verdict, got.Why, diff)
		}
	}
}

// TestCommand asks Slurm about jobs with all options.
func TestCommand(t *testing.T) {
	for want, job := range map[string]fit.Job{
		"sbatch --test-only -N 4 --exclusive --wrap true":                                                             {Nodes: 4},
		"sbatch --test-only -N 64 --segment=16 --consolidate-segments --spread-segments --exclusive=topo --wrap true": {Nodes: 64, Segment: 16, Consolidate: true, Spread: true, Exclusive: true},
		"sbatch --test-only -N 8 --switches=2 --gpus-per-node=4 --exclusive --wrap true":                              {Nodes: 8, Switches: 2, GPUs: 4},
	} {
		if diff := cmp.Diff(want, job.Command()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestSplitSize finds the size of jobs that Slurm splits, as real Slurm did in these topologies.
func TestSplitSize(t *testing.T) {
	for _, tt := range []struct {
		racks, sizes []int
		want         int
	}{
		{[]int{8, 8}, []int{4, 8}, 0},
		{[]int{8, 8}, []int{4, 16}, 0},
		{[]int{8, 8, 8, 8}, []int{4, 8}, 0},
		{[]int{4, 4, 8}, []int{4, 8}, 0},
		{[]int{5, 5, 5, 5}, []int{4, 8}, 0},
		{[]int{8, 4, 4, 4}, []int{4, 8}, 5},
		{[]int{8, 4, 4, 4}, []int{4, 8, 16}, 5},
		{[]int{4, 6, 5, 5}, nil, 6},
		{[]int{18, 18, 17}, []int{18}, 0},
	} {
		site := racksOf(nil, tt.racks...)
		if got := fit.SplitSize(&topology.Topology{Kind: topology.KindBlock, Sizes: tt.sizes, Blocks: site.Blocks}); got != tt.want {
			t.Errorf("%v with sizes %v: %d, want %d", tt.racks, tt.sizes, got, tt.want)
		}
	}
}

// TestNeedsFewNodes names the block that lacks the fewest nodes, and says which is the largest
// if none can do.
func TestNeedsFewNodes(t *testing.T) {
	states := map[string]fit.State{"r1-1": fit.StateOf("allocated")}
	for i := range 8 {
		states[fmt.Sprintf("r2-%d", i+1)] = fit.StateOf("allocated")
	}
	for _, gpus := range []int{0, fit.NoGPUs, 4} { // the job asks for none
		site := racksOf(states, 18, 18)
		site.State = func(node string) fit.State {
			state := states[node]
			state.GPUs = gpus
			return state
		}
		got := site.Answer(&fit.Job{Nodes: 18})
		if diff := cmp.Diff([]fit.Need{{Block: "b1", Count: 1, Nodes: []string{"r1-1"}}}, got.Needs); diff != "" {
			t.Errorf("needs with GPUs %d (-want +got):\n%s", gpus, diff)
		}
	}
	states = map[string]fit.State{}
	var want []fit.Need
	for rack, busy := range []int{0, 5, 1, 1, 4, 1, 7, 0} { // the first is short
		for i := range busy {
			states[fmt.Sprintf("r%d-%d", rack+1, i+1)] = fit.StateOf("allocated")
		}
		if busy == 1 {
			want = append(want, fit.Need{Block: fmt.Sprint("b", rack+1), Count: 1, Nodes: []string{fmt.Sprintf("r%d-1", rack+1)}})
		}
	}
	got := racksOf(states, 14, 18, 18, 18, 18, 18, 18, 18).Answer(&fit.Job{Nodes: 72, Segment: 18})
	if diff := cmp.Diff(want, got.Needs); diff != "" {
		t.Errorf("needs of four whole racks (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		racks []int
		nodes int
		want  string
	}{
		{[]int{12, 14}, 16, "a job without --segment of 16 nodes must be in one block of BlockSize 18, and the largest has 14 nodes"},
		{[]int{18, 17, 17}, 36, "a job without --segment of 36 nodes may use at most 2 blocks of BlockSize 18, and the largest have 35 nodes together"},
	} {
		if got := racksOf(nil, tt.racks...).Answer(&fit.Job{Nodes: tt.nodes}); got.Why != tt.want {
			t.Errorf("%s: %q, want %q", got.Verdict, got.Why, tt.want)
		}
	}
}

func TestSegments(t *testing.T) {
	states := map[string]fit.State{"r1-1": fit.StateOf("allocated"), "r2-1": fit.StateOf("down"), "r2-2": fit.StateOf("drained"), "r2-3": fit.StateOf("drained")}
	got := racksOf(states, 18, 18, 14).Free(1, 8, 16, 18, 36)
	want := []fit.Row{{Size: 1, Now: 46, All: 50, Taken: []int{17, 15, 14}}, {Size: 8, Now: 4, All: 5, Taken: []int{16, 8, 8}}, {Size: 16, Now: 1, All: 2, Taken: []int{16, 0, 0}},
		{Size: 18, Now: 0, All: 2, Taken: []int{0, 0, 0}}, {Size: 36, Now: 0, All: 1, Taken: []int{0, 0, 0}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStateOf(t *testing.T) {
	for words, want := range map[string]fit.State{
		"idle":                                   {},
		"idle~":                                  {Off: true},
		"idle*":                                  {Use: fit.Unavailable, Why: "not_responding"},
		"MIXED+CLOUD+NOT_RESPONDING+POWERING_UP": {Use: fit.Busy, Why: "mixed"},
		"IDLE+CLOUD+NOT_RESPONDING+POWERING_UP":  {},
		"DOWN+CLOUD+NOT_RESPONDING+POWERING_UP":  {Use: fit.Unavailable, Why: "down"},
		"IDLE CLOUD POWERED_DOWN":                {Off: true},
		"IDLE+DRAIN":                             {Use: fit.Unavailable, Why: "drain"},
		"IDLE+DYNAMIC_NORM+BLOCKED":              {Use: fit.Busy, Why: "blocked"},
		"future":                                 {Use: fit.Absent, Why: "future"},
		"mix-":                                   {Use: fit.Busy, Why: "mix+planned"},
		"allocated+drain":                        {Use: fit.Unavailable, Why: "allocated+drain"},
		"resv":                                   {Use: fit.Busy, Why: "resv"},
		"down*$":                                 {Use: fit.Unavailable, Why: "down+not_responding+maintenance"},
		"a_word_of_a_release_that_is_new":        {Use: fit.Unavailable, Why: "a_word_of_a_release_that_is_new"},
		"":                                       {Use: fit.Unavailable, Why: "unknown"},
	} {
		if got := fit.StateOf(strings.Fields(words)...); got != want {
			t.Errorf("%s: %+v, want %+v", words, got, want)
		}
	}
}

func TestReadSinfo(t *testing.T) {
	free := fit.State{}
	for _, tt := range []struct {
		name, text string
		want       map[string]fit.State
		err        string
	}{
		{"without a header", "n1 idle\nn2 drained gpu:gb200:4(S:0-1),shard:4\n", map[string]fit.State{"n1": free, "n2": {Use: fit.Unavailable, Why: "drained", GPUs: 4}}, ""},
		{"sinfo -N", "NODELIST   NODES PARTITION STATE\nn1             1      all* idle\nn2 1 all* alloc\n", map[string]fit.State{"n1": free, "n2": {Use: fit.Busy, Why: "alloc"}}, ""},
		{"sinfo -N -l", "Tue Nov 24 09:00:00 2026\nNODELIST   NODES PARTITION       STATE CPUS\nn1 1 all* idle~ 2\n", map[string]fit.State{"n1": {Off: true}}, ""},
		{"a host list", "n[1-2] idle\n", map[string]fit.State{"n1": free, "n2": free}, ""},
		{"cut words and jobs that complete", "n1 maintenanc\nn2 allocated+\n", map[string]fit.State{"n1": {Use: fit.Busy, Why: "maintenance"}, "n2": {Use: fit.Busy, Why: "allocated"}}, ""},
		{"an error", "slurm_load_partitions: Unable to contact slurm controller (connect failure)\n", nil,
			`sinfo.txt:1: "Unable" is no state of a node in Slurm: want the output of sinfo -N; the first line is: slurm_load_partitions: Unable to contact`},
		{"sinfo -R", "REASON USER TIMESTAMP NODELIST\nbad root 2026-11-24T09:00:00 n1\n", nil, `sinfo.txt:1: "USER" is no state`},
		{"a state that is none", "n1 idle\nn2 world\n", nil, `sinfo.txt:2: "world" is no state of a node in Slurm: want the output of sinfo -N; the first line is: n1 idle`},
		{"empty", "\n", nil, "sinfo.txt: no node: want the output of sinfo -N"},
		{"one column", "n1 idle\nn2\n", nil, "sinfo.txt:2: 1 columns: want the name of a node and its state"},
		{"a bad list", "n[1- idle\n", nil, "sinfo.txt:1: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := fit.ReadSinfo("sinfo.txt", strings.NewReader(tt.text))
			if (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("error %v, want %s", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); tt.err == "" && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzReadSinfo(f *testing.F) {
	for _, text := range []string{"n1 idle\n", "NODELIST STATE GRES\nn[1-3] mix- gpu:2(IDX:0,1),gpu:x:1\n", "n1 idle*~ (null)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		states, err := fit.ReadSinfo("x", strings.NewReader(text))
		if (err == nil) != (len(states) > 0) && err == nil {
			t.Errorf("no node and no error")
		}
		for node, s := range states {
			if s.GPUs < fit.NoGPUs || s.Off && s.Use != fit.Free || (s.Use == fit.Free) != (s.Why == "") {
				t.Errorf("%s: %+v", node, s)
			}
		}
	})
}

func TestGPUs(t *testing.T) {
	for gres, want := range map[string]int{"": fit.NoGPUs, "(null)": fit.NoGPUs, "gpu:0": fit.NoGPUs, "GPU:8": fit.NoGPUs, "gpu:gb200:4(S:0-1)": 4, "gpu:a:2(IDX:0,1),gpu:b:3,shard:8": 5, "gpu:h100:2K": 2048, "gpu:4x": 0} {
		if got := fit.GPUs(gres); got != want {
			t.Errorf("%s: %d, want %d", gres, got, want)
		}
	}
}
