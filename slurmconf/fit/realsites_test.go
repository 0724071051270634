package fit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

// cloudSite is a site with one topology and one partition that has all nodes. Its nodes are up,
// powered down, drained or busy.
type cloudSite struct {
	topology topology.Topology
	nodes    []string
	gpus     map[string]int
	mixed    bool // some have 4 GPUs, and some 8
	states   map[string]State
}

// randomCloudSite makes a site that the release loads.
func randomCloudSite(rng *rand.Rand, release slurmconf.Release) *cloudSite {
	s := &cloudSite{gpus: map[string]int{}, states: map[string]State{}}
	take := func(n int) (nodes []string) {
		for range min(n, siteNodes-len(s.nodes)) {
			name := nodeName(len(s.nodes) + 1)
			nodes, s.nodes = append(nodes, name), append(s.nodes, name)
		}
		return nodes
	}
	t := &s.topology
	t.Name, t.Default = topology.ConfTopology, true
	switch kind := rng.IntN(10); {
	case kind < 5:
		t.Kind, t.Sizes = topology.KindBlock, []int{1 + rng.IntN(9)}
		for i := range 2 + rng.IntN(9) {
			n := t.Sizes[0] + rng.IntN(2)*rng.IntN(3)
			if release.Does(slurmconf.EmptyUnits) {
				n = max(0, n-rng.IntN(3)*rng.IntN(3))
			}
			if len(s.nodes)+n <= siteNodes-2 {
				t.Blocks = append(t.Blocks, topology.Block{Name: fmt.Sprint("b", i), Nodes: take(n)})
			}
		}
		if len(s.nodes) == 0 {
			t.Blocks[0].Nodes = take(t.Sizes[0])
		}
		for _, times := range [][]int{nil, {2}, {4}, {2, 4}, {2, 8}}[rng.IntN(5)] {
			t.Sizes = append(t.Sizes, t.Sizes[0]*times)
		}
	case kind < 9:
		t.Kind = topology.KindTree
		s.tree(rng, take)
	default:
		t.Kind = topology.KindFlat
		take(4 + rng.IntN(20))
	}
	inside := len(s.nodes)
	take(rng.IntN(3)) // outside of the topology
	s.setStates(rng)
	for _, name := range s.nodes[inside:] {
		if s.states[name].Use == Busy { // with blocks no job may ask for such a node by its name
			s.states[name] = StateOf("IDLE", "CLOUD", "DRAIN")
		}
	}
	return s
}

// tree makes a tree with one to three roots, and leaves at different depths.
func (s *cloudSite) tree(rng *rand.Rand, take func(int) []string) {
	t, number := &s.topology, 0
	add := func(sw topology.Switch) string {
		number++
		sw.Name = fmt.Sprint("s", number)
		t.Switches = append(t.Switches, sw)
		return sw.Name
	}
	for range 1 + rng.IntN(3) {
		var tops []string
		for range 1 + rng.IntN(4) {
			var leaves []string
			for range 1 + rng.IntN(3) {
				if nodes := take(1 + rng.IntN(8)); len(nodes) > 0 {
					leaves = append(leaves, add(topology.Switch{Nodes: nodes}))
				}
			}
			if len(leaves) > 1 || len(leaves) == 1 && rng.IntN(2) == 0 {
				leaves = []string{add(topology.Switch{Children: leaves})}
			}
			tops = append(tops, leaves...)
		}
		if len(tops) > 1 {
			add(topology.Switch{Children: tops})
		}
	}
}

// setStates says how the nodes are to be. Some sites have all nodes up, and some have all free ones
// powered down.
func (s *cloudSite) setStates(rng *rand.Rand) {
	off, free := []int{0, 10, 3, 5, 7}[rng.IntN(5)], 5+rng.IntN(6)
	s.mixed = rng.IntN(8) == 0
	for _, name := range s.nodes {
		s.gpus[name] = 4
		if s.mixed && rng.IntN(2) == 0 {
			s.gpus[name] = 8
		}
		switch {
		case rng.IntN(10) >= free && rng.IntN(2) == 0:
			s.states[name] = StateOf("IDLE", "CLOUD", "DRAIN")
		case rng.IntN(10) >= free:
			s.states[name] = StateOf("ALLOCATED", "CLOUD", "POWERING_UP")
		default:
			s.states[name] = State{Off: rng.IntN(10) < off}
		}
	}
}

// in is the part of the nodes in a state.
func (s *cloudSite) in(is func(State) bool) (nodes []string) {
	for _, name := range s.nodes {
		if is(s.states[name]) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// site is what fit knows of it.
func (s *cloudSite) site(release slurmconf.Release) *Site {
	site := NewSite(&s.topology, release, func(node string) State {
		state := s.states[node]
		state.GPUs = s.gpus[node]
		return state
	})
	placed := map[string]bool{}
	for _, u := range topology.UnitsOf([]topology.Topology{s.topology}) {
		for _, node := range u.Nodes {
			placed[node] = true
		}
	}
	for _, node := range s.nodes {
		if !placed[node] {
			site.Apart = append(site.Apart, node)
		}
	}
	return site
}

// cloudJob is a job that the release knows.
func cloudJob(rng *rand.Rand, site *Site, nodes int) *Job {
	j := randomJob(rng, nodes)
	if site.release() < slurmconf.Release2511 {
		j.Consolidate, j.Spread = false, false
	}
	if j.Segment > 0 && rng.IntN(8) == 0 {
		j.Nodes = max(1, j.Nodes-1) // perhaps no multiple
	}
	if rng.IntN(6) == 0 {
		j.GPUs = 4 << rng.IntN(2)
	}
	if rng.IntN(8) == 0 {
		j.Switches = 1 + rng.IntN(3)
	}
	return j
}

// after is the site when the needed nodes are up and free.
func (s *Site) after(needs []Need) *Site {
	back := map[string]bool{}
	for _, need := range needs {
		for _, node := range need.Nodes[:need.Count] {
			back[node] = true
		}
	}
	after := *s
	after.State = func(node string) State {
		state := s.State(node)
		if back[node] {
			return State{GPUs: state.GPUs}
		}
		return state
	}
	return &after
}

// start starts slurmctld with the site, all nodes powered down.
func (s *cloudSite) start(t *testing.T, c *slurmrig.Cluster) {
	t.Helper()
	files := map[string]string{"slurm.conf": "Include /rig/base.conf\n" + s.conf(), "gres.conf": ""}
	if s.topology.Kind != topology.KindFlat {
		text, err := slurmconf.RenderConf(s.topology, "")
		if err != nil {
			t.Fatal(err)
		}
		files["topology.conf"] = string(text)
	}
	c.Kill("slurmctld")
	for name, text := range files {
		put.File(t, filepath.Join(c.Dir, name), text, 0o644)
	}
	if out, err := c.Run(t.Context(), "bash", "-c", "rm -rf /rig/state/*; slurmctld && until scontrol ping | grep -q UP; do sleep 0.05; done"); err != nil {
		t.Fatalf("%v\n%s\n%s\n%s", err, out, files["topology.conf"], c.Log("slurmctld"))
	}
}

func (s *cloudSite) conf() string {
	conf := &strings.Builder{}
	fmt.Fprintf(conf, "GresTypes=gpu\nResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\nResumeTimeout=60000\nResumeRate=0\n")
	if kind := s.topology.Kind; kind != topology.KindFlat {
		fmt.Fprintf(conf, "TopologyPlugin=topology/%s\n", kind)
	}
	for i, name := range s.nodes {
		fmt.Fprintf(conf, "NodeName=%s NodeAddr=127.0.0.1 Port=%d CPUs=8 RealMemory=1000 Gres=gpu:%d State=CLOUD\n", name, 20001+i, s.gpus[name])
	}
	fmt.Fprintf(conf, "PartitionName=p Nodes=ALL Default=YES State=UP\n")
	return conf.String()
}

// set brings the nodes into their states.
func (s *cloudSite) set(t *testing.T, c *slurmrig.Cluster) {
	t.Helper()
	script := &strings.Builder{}
	up := s.in(func(state State) bool { return state.Use == Free && !state.Off })
	if len(up) > 0 {
		fmt.Fprintf(script, "scontrol update nodename=%s state=power_up\n", hostlist.Compress(up))
	}
	if drained := s.in(func(state State) bool { return state.Use == Unavailable }); len(drained) > 0 {
		fmt.Fprintf(script, "scontrol update nodename=%s state=drain reason=x\n", hostlist.Compress(drained))
	}
	busy := s.in(func(state State) bool { return state.Use == Busy })
	for _, name := range busy {
		fmt.Fprintf(script, "sbatch -w %s -N 1 --exclusive -t 10-0 --wrap true\n", name)
	}
	fmt.Fprintf(script, "for i in $(seq 1000); do [ $(squeue -h -t CF,R | wc -l) = %d ] && [ $(sinfo -h -N -o %%T | grep -c idle#) = %d ] && break; sleep 0.05; done; sinfo -h -N -o '%%N %%T'\n", len(busy), len(up))
	out := c.RunTest(t, "bash", "-c", script.String())
	states, err := ReadSinfo("sinfo", strings.NewReader(out[strings.LastIndex("\n"+out, "\nn001 "):]))
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := slurmctld.ReadNodes(strings.NewReader(c.RunTest(t, "scontrol", "--json", "show", "nodes")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range s.nodes {
		want := s.states[name]
		for _, got := range []State{states[name], StateOf(nodes[name].State)} {
			if got.Use != want.Use || got.Off != want.Off {
				t.Errorf("%s (%s) is %+v, want %+v", name, nodes[name].State, got, want)
			}
		}
	}
}

// starts asks slurmctld which of the jobs it would start today.
func starts(t *testing.T, c *slurmrig.Cluster, jobs []string) (now []bool, said []string) {
	t.Helper()
	script := &strings.Builder{}
	for _, command := range jobs {
		fmt.Fprintf(script, "said=$(%s 2>&1); echo ${said//$'\\n'/ }\n", command)
	}
	soon := time.Now().Add(24 * time.Hour)
	for line := range strings.Lines(c.RunTest(t, "bash", "-c", script.String())) {
		_, rest, _ := strings.Cut(line, " to start at ")
		start, err := time.ParseInLocation("2006-01-02T15:04:05", strings.SplitN(rest, " ", 2)[0], time.Local)
		now, said = append(now, err == nil && start.Before(soon)), append(said, strings.TrimSpace(line))
	}
	if len(now) != len(jobs) {
		t.Fatalf("%d answers to %d questions", len(now), len(jobs))
	}
	return now, said
}

// TestRealFitSites asks slurmctld 24.11 and 26.05 for jobs on random sites: blocks, trees with
// one root and with several, and flat ones. Nodes are up, powered down, drained or busy. No "now",
// "not now" and "never" is wrong, and "unknown" says why.
func TestRealFitSites(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	sites, jobs := oracle.Rounds(4, 15), oracle.Rounds(30, 100)
	seed := oracle.SeedOf(t)
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			known, err := slurmconf.ParseRelease(release.Slurm)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(seed, uint64(known))) //nolint:gosec // no secret
			first := randomCloudSite(rng, known)
			c := slurmrig.StartTest(t, release, slurmrig.Config{SlurmConf: "NodeName=x\nPartitionName=p Nodes=ALL\n"})
			verdicts, kinds := map[Verdict]int{}, map[string]map[Verdict]int{}
			for i := range sites {
				s := first
				if i > 0 {
					s = randomCloudSite(rng, known)
				}
				s.compare(t, c, known, rng, jobs, kinds)
			}
			for _, kind := range slices.Sorted(maps.Keys(kinds)) {
				t.Logf("%s: %v", kind, kinds[kind])
				for verdict, n := range kinds[kind] {
					verdicts[verdict] += n
				}
			}
			t.Logf("verdicts: %v", verdicts)
			for _, v := range []Verdict{Now, NotNow, Never} {
				if verdicts[v] < sites*jobs/40 {
					t.Errorf("verdicts %v: too few %q", verdicts, v)
				}
			}
		})
	}
}

// compare asks for jobs while all nodes are free, and again when they are in their states. If all are
// free, Slurm need not keep to --switches.
func (s *cloudSite) compare(t *testing.T, c *slurmrig.Cluster, release slurmconf.Release, rng *rand.Rand, jobs int, kinds map[string]map[Verdict]int) {
	t.Helper()
	s.start(t, c)
	site := s.site(release)
	var asked, patient []*Job // the latter take any switches, as Slurm does after a while
	var texts, later []string
	for range jobs {
		j := cloudJob(rng, site, len(s.nodes))
		more := *j
		more.Switches = 0
		asked, texts = append(asked, j), append(texts, j.Command())
		patient, later = append(patient, &more), append(later, more.Command())
	}
	ever, _ := starts(t, c, later)
	s.set(t, c)
	now, said := starts(t, c, texts)
	for i, j := range asked {
		a := site.Answer(j)
		kind := s.kind(j)
		if kinds[kind] == nil {
			kinds[kind] = map[Verdict]int{}
		}
		kinds[kind][a.Verdict]++
		wrong := a.Verdict == Now != now[i] || a.Verdict == Never == ever[i] && !onlyNow(&a)
		switch a.Verdict {
		case Unknown:
			wrong = a.Why == "" || a.Remedy == ""
		case NotNow:
			wrong = wrong || site.after(a.Needs).Answer(patient[i]).Verdict != Now
		case Never:
			wrong = wrong || a.Why == ""
		}
		if wrong {
			t.Errorf("%s: %s %v: %s\n%s\n%s, and if all nodes are free: %t", texts[i], a.Verdict, a.Needs, a.Why, s.text(), said[i], ever[i])
		}
	}
}

// kind says what decides whether fit has a rule for a job: the topology, whether free nodes are
// powered down, and the rare words of the job.
func (s *cloudSite) kind(j *Job) string {
	kind := string(s.topology.Kind)
	if s.topology.Kind == topology.KindBlock && (j.Consolidate || j.Spread || j.Exclusive) {
		kind += ", a rare option"
	}
	if s.topology.Kind == topology.KindBlock && s.mixed && j.GPUs > 0 {
		kind += ", mixed GPUs"
	}
	if s.topology.Kind == topology.KindTree && j.Switches > 0 {
		kind += ", --switches"
	}
	if len(s.in(func(state State) bool { return state.Off })) > 0 {
		return kind + ", some off"
	}
	return kind + ", all up"
}

// text describes the site.
func (s *cloudSite) text() string {
	words := []string{fmt.Sprint(s.topology.Kind, " ", s.topology.Sizes)}
	for _, b := range s.topology.Blocks {
		words = append(words, s.letters(b.Nodes))
	}
	for _, sw := range s.topology.Switches {
		words = append(words, fmt.Sprintf("%s:%s%v", sw.Name, s.letters(sw.Nodes), []string(sw.Children)))
	}
	return strings.Join(words, " ") + " all " + s.letters(s.nodes)
}

// letters has one letter for each node: up, off, busy or drained. It is large with 8 GPUs.
func (s *cloudSite) letters(nodes []string) string {
	var out []byte
	for _, name := range nodes {
		letter := map[Use]byte{Free: 'u', Busy: 'b', Unavailable: 'd'}[s.states[name].Use]
		if s.states[name].Off {
			letter = 'o'
		}
		if s.gpus[name] == 8 {
			letter -= 'a' - 'A'
		}
		out = append(out, letter)
	}
	return "'" + string(out) + "'"
}
