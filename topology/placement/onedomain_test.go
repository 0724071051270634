package placement_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestRackComesUpWithNewTrays switches a rack off, exchanges two of its trays, and lets the new
// trays come up first: the rack stays one block.
func TestRackComesUpWithNewTrays(t *testing.T) {
	label := topology.Domain{Key: "site/rack", Value: "r1"}
	silent := func(_ int, f *topology.Facts) { f.Report = nil }
	gone := func(_ int, f *topology.Facts) { f.Report, f.Gone = nil, true }
	named := func(_ int, f *topology.Facts) { f.Labels.Domains = []topology.Domain{label} }
	unnamed := func(_ int, f *topology.Facts) { f.Labels.Domains = nil }
	byLabel := func(i int, f *topology.Facts) { named(i, f); silent(i, f) }
	for _, tt := range []struct {
		name      string
		published []func(int, *topology.Facts) // of all nodes of the rack
		off       []func(int, *topology.Facts)
		fresh     []func(int, *topology.Facts) // of the new trays
		back      []func(int, *topology.Facts) // of the old trays that come back
		fromFile  bool                         // nothing is remembered but the file
	}{
		{name: "agents are silent", off: []func(int, *topology.Facts){silent}},
		{name: "agents are silent, from a file", off: []func(int, *topology.Facts){silent}, fromFile: true},
		{name: "the Nodes are gone", off: []func(int, *topology.Facts){gone}},
		{name: "labels alone", published: []func(int, *topology.Facts){byLabel}, off: []func(int, *topology.Facts){gone}, fresh: []func(int, *topology.Facts){byLabel}, back: []func(int, *topology.Facts){byLabel}},
		{name: "labels, and then agents", published: []func(int, *topology.Facts){byLabel}, off: []func(int, *topology.Facts){gone}, fresh: []func(int, *topology.Facts){named}, back: []func(int, *topology.Facts){named}},
		{name: "agents, and then labels", published: []func(int, *topology.Facts){named}, off: []func(int, *topology.Facts){silent, unnamed}, fresh: []func(int, *topology.Facts){byLabel}, back: []func(int, *topology.Facts){named}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other := rack(2, 18)
			published := mustPlan(t, slices.Concat(rack(1, 18, tt.published...), other), nil, short)
			remembered := func(p *topology.Plan) *given {
				if tt.fromFile {
					return fromFile(p)
				}
				return previous(p)
			}
			off, fresh := rack(1, 18, tt.off...)[:16], rack(1, 2, tt.fresh...)
			for i := range fresh {
				fresh[i].Name, fresh[i].SlurmName = fmt.Sprint("new", i), fmt.Sprint("new", i)
			}
			first := mustPlan(t, slices.Concat(off, fresh, other), remembered(published), short)
			back := mustPlan(t, slices.Concat(rack(1, 18, tt.back...)[:16], fresh, other), remembered(first), short)
			for i := range fresh {
				confirm(&fresh[i])
			}
			all := slices.Concat(rack(1, 18, tt.back...)[:16], rack(1, 2, tt.back...), other)
			for i, f := range fresh {
				all[16+i].Name, all[16+i].SlurmName = f.Name, f.SlurmName
			}
			last := mustPlan(t, all, remembered(back), short)
			if got := len(last.Blocks()); got != 2 || len(last.Blocks()[0].Nodes) != 18 || len(last.Blocks()[1].Nodes) != 18 {
				t.Errorf("%d blocks, want 2: %v", got, lines(last))
			}
			if tt.name != "agents, and then labels" { // nothing says meanwhile that label and clique are one
				if diff := cmp.Diff(blockNames(published.Blocks()), blockNames(first.Blocks())); diff != "" {
					t.Errorf("the new trays are up (-published +now):\n%s", diff)
				}
			}
		})
	}
}

// tray is a machine with its GPUs, for as long as a test plays with it.
type tray struct {
	name   string
	clique int
	label  string
	state  int
}

// The states of a tray.
const (
	up = iota
	booting
	silent
	gone    // its Node object
	removed // from everything
)

func (m *tray) facts() topology.Facts {
	f := rack(m.clique, 1)[0]
	f.Name, f.SlurmName = m.name, m.name
	if m.label != "" {
		f.Labels.Domains = []topology.Domain{{Key: "site/rack", Value: m.label}}
	}
	switch m.state {
	case booting:
		give(&f, topology.Fabric{State: topology.FabricInProgress})
		f.Report.Domain = topology.NVLinkDomain{}
	case silent:
		f.Report = nil
	case gone:
		f.Report, f.Labels, f.Gone = nil, topology.Labels{}, true
	}
	return f
}

// play is a site to which much happens at random.
type play struct {
	rng     *rand.Rand
	trays   []*tray
	named   int // trays so far
	cliques int // so far
	labels  bool
}

func (p *play) arrive(n int) {
	p.cliques++
	for range n {
		p.named++
		m := &tray{name: fmt.Sprintf("t%03d", p.named), clique: p.cliques, state: p.rng.IntN(removed)}
		if p.labels {
			m.label = fmt.Sprint("rack", p.cliques)
		}
		p.trays = append(p.trays, m)
	}
}

// of returns the trays of a clique.
func (p *play) of(clique int) []*tray {
	return slices.DeleteFunc(slices.Clone(p.trays), func(m *tray) bool { return m.clique != clique })
}

// step lets one thing happen.
func (p *play) step() {
	clique := 1 + p.rng.IntN(p.cliques)
	nodes := p.of(clique)
	switch p.rng.IntN(8) {
	case 0:
		p.arrive(2 + p.rng.IntN(5))
	case 1: // the rack is switched off
		off := booting + p.rng.IntN(gone)
		for _, m := range nodes {
			m.state = off
		}
	case 2: // trays are exchanged
		for _, m := range nodes[:min(len(nodes), 1+p.rng.IntN(2))] {
			label := m.label
			m.state, m.clique = removed, 0
			p.named++
			p.trays = append(p.trays, &tray{name: fmt.Sprintf("t%03d", p.named), clique: clique, label: label, state: p.rng.IntN(gone)})
		}
	case 3: // the rack becomes a part of another
		to := 1 + p.rng.IntN(p.cliques)
		for _, m := range nodes {
			m.clique, m.state = to, p.rng.IntN(gone)
			if rest := p.of(to); p.labels {
				m.label = rest[0].label
			}
		}
	case 4: // a part of the rack becomes one of its own
		p.cliques++
		for _, m := range nodes[len(nodes)/2:] {
			m.clique = p.cliques
			if p.labels {
				m.label = fmt.Sprint("rack", p.cliques)
			}
		}
	default: // nodes come up
		for _, m := range p.trays {
			if m.state != removed && p.rng.IntN(2) == 0 {
				m.state = up
			}
		}
	}
	p.trays = slices.DeleteFunc(p.trays, func(m *tray) bool { return m.state == removed })
}

// facts are what is known of the trays, in any order.
func (p *play) facts() []topology.Facts {
	var facts []topology.Facts
	for _, m := range p.trays {
		facts = append(facts, m.facts())
	}
	p.rng.Shuffle(len(facts), func(i, j int) { facts[i], facts[j] = facts[j], facts[i] })
	return facts
}

// oneBlockEach says what is wrong: a node in two blocks, two blocks of one domain, or nodes of two
// domains in one block.
func (p *play) oneBlockEach(plan *topology.Plan, inUse map[string]bool) string {
	at, domains := map[string]string{}, map[topology.Clique]string{}
	names := map[string]bool{}
	for _, b := range plan.Blocks() {
		for _, n := range b.Nodes {
			if at[n] != "" {
				return fmt.Sprintf("node %s is in blocks %s and %s", n, at[n], b.Name)
			}
			at[n] = b.Name
		}
		if other := domains[b.Clique]; other != "" && !b.Clique.IsZero() {
			return fmt.Sprintf("blocks %s and %s are both clique %s", other, b.Name, b.Clique)
		}
		if names[b.Name] {
			return "two blocks are called " + b.Name
		}
		domains[b.Clique], names[b.Name] = b.Name, true
	}
	blockOf, cliqueIn := map[int]string{}, map[string]int{}
	for _, m := range p.trays {
		b := at[m.name]
		if m.state != up || b == "" {
			continue
		}
		if other := blockOf[m.clique]; other != "" && other != b {
			return fmt.Sprintf("clique %d is in blocks %s and %s", m.clique, other, b)
		}
		if other := cliqueIn[b]; other != 0 && other != m.clique {
			return fmt.Sprintf("block %s has nodes of cliques %d and %d", b, other, m.clique)
		}
		blockOf[m.clique], cliqueIn[b] = b, m.clique
	}
	for clique, b := range blockOf {
		for _, twin := range plan.Blocks() {
			if twin.Name != b && slices.Contains(namesOf(clique), twin.Name) && len(twin.Nodes) == 0 && !inUse[twin.Name] {
				return fmt.Sprintf("block %s stays empty beside %s", twin.Name, b)
			}
		}
	}
	return ""
}

// TestOneBlockForEachDomain lets racks come, lose power, get other trays, merge and split, in random
// orders, again and again from what was published: a domain is one block, and a node is in one.
func TestOneBlockForEachDomain(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 35))
		p := &play{rng: rng, labels: seed%2 == 1}
		policy := []placement.Policy{short, divided, {ParentBlocks: 2}}[seed/2%3]
		for range 3 {
			p.arrive(2 + rng.IntN(5))
		}
		plan := mustPlan(t, p.facts(), nil, policy)
		annotated := map[string]bool{}
		for step := range 60 {
			p.step()
			prev := previous(plan)
			if seed%8 > 3 { // a file names no cliques
				prev = fromFile(plan)
			}
			prev.InUse = maps.Clone(annotated)
			plan = mustPlan(t, p.facts(), prev, policy)
			if wrong := p.oneBlockEach(plan, prev.InUse); wrong != "" {
				t.Fatalf("seed %d, step %d: %s: %v", seed, step, wrong, lines(plan))
			}
			clear(annotated)
			for _, b := range plan.Blocks() {
				annotated[b.Name] = len(b.Nodes) > 0
			}
		}
	}
}

// namesOf returns the names that the block of a clique may have.
func namesOf(clique int) []string {
	names := cliqueOf(clique).BlockNames()
	return names[:]
}
