package publisher

import (
	"maps"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// gather joins nodes and reports into the facts of one publication, with those
// published nodes that stay for a while. It returns when to come back for them.
func (p *Publisher) gather(s *state, snap *Snapshot, prev Previous, now time.Time) (g Gathered, wake time.Time) {
	g = Gather(s.pub, snap)
	missing := s.remember(&g, prev)
	p.rememberOthers(s, &g, missing)
	perhaps := s.perhapsPublished(&g, snap, missing)
	elsewhere := s.pub.unselected(snap)
	if s.pub.bySlinky() {
		s.namelessElsewhere(snap, missing, elsewhere)
	}
	still, kept := make(map[string]time.Time), make(map[string]string)
	for _, name := range missing {
		n := elsewhere[name]
		owner, remembered := s.owners[name]
		unnamed := g.unnamed[owner] != nil && kept[owner] == ""
		switch why := g.claimed[name]; {
		case unnamed && (why != "" || !s.pub.bySlinky()):
			kept[owner] = name
			continue
		case why != "":
			g.Facts = append(g.Facts, topology.Facts{Name: name, SlurmName: name, Stays: why})
			continue
		case remembered && s.renamed(&g, name, owner):
			continue
		}
		if n != nil {
			if !p.annotatedByAnother(s, n) {
				g.leaving[name] = n // its annotation goes after it
			}
			if remembered && owner == n.Name && p.movedOn(s, n) {
				continue
			}
		}
		if !remembered && n == nil && perhaps != "" {
			g.Facts = append(g.Facts, topology.Facts{Name: name, SlurmName: name, Stays: "it may be node " + perhaps + ", which has no Slurm name now"})
			continue
		}
		since, ok := s.gone[name]
		if !ok {
			since = now
		}
		until := since.Add(s.pub.GoneAfter.Duration)
		still[name] = since
		if !now.Before(until) {
			continue
		}
		wake = earlier(wake, until)
		if unnamed { // its worker pod has gone, and may come back
			kept[owner] = name
		} else {
			g.Facts = append(g.Facts, topology.Facts{Name: name, SlurmName: name, Gone: true})
		}
	}
	for name := range s.waiting {
		if n := elsewhere[name]; n != nil && !p.annotatedByAnother(s, n) {
			g.leaving[name] = n
		}
	}
	p.leaveOn(s, &g, snap, prev.leaving)
	maps.Copy(g.nodes, g.leaving)
	g.keep(kept)
	s.gone = still
	return g, wake
}

// renamed reports whether the Node that had a Slurm name has another one now, and
// no pod will bring the old one back.
func (s *state) renamed(g *Gathered, name, owner string) bool {
	if !s.pub.bySlinky() || g.pending[name] {
		return false
	}
	n := g.all[owner]
	return n != nil && g.unnamed[owner] == nil
}

// namelessElsewhere adds to the nodes that the publication does not take now those
// that had the missing names.
func (s *state) namelessElsewhere(snap *Snapshot, missing []string, elsewhere map[string]*Node) {
	had := make(map[string]string, len(missing))
	for _, name := range missing {
		if owner, ok := s.owners[name]; ok && elsewhere[name] == nil {
			had[owner] = name
		}
	}
	if len(had) == 0 {
		return
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; had[n.Name] != "" && !s.pub.takes(n) {
			elsewhere[had[n.Name]] = n
		}
	}
}

// leaveOn adds the nodes that were leaving when the publisher started.
func (p *Publisher) leaveOn(s *state, g *Gathered, snap *Snapshot, leaving []string) {
	left := make(map[string]bool, len(leaving))
	for _, node := range leaving {
		left[node] = true
	}
	for _, n := range g.leaving {
		delete(left, n.Name)
	}
	if len(left) == 0 {
		return
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; left[n.Name] && !s.pub.takes(n) && !p.annotatedByAnother(s, n) {
			g.leaving["/"+n.Name] = n // no Slurm name has a slash
		}
	}
}

// leaving names the nodes that have an annotation that is to be taken back, and
// that nothing but this says should the publisher end before.
func (s *state) leaving(g *Gathered, specs map[string]string) string {
	if !*s.pub.Annotate || !s.pub.release.DynamicTopology() {
		return ""
	}
	var nodes []string
	for name, n := range g.leaving {
		if have := n.Annotations[SpecAnnotation]; have != "" && specs[name] == "" && s.tried[n.Name] != have+"\n" {
			nodes = append(nodes, n.Name)
		}
	}
	return slurmconf.CompressHostlist(nodes)
}

// remember notes which Node has which Slurm name, and returns the published
// names that none has.
func (s *state) remember(g *Gathered, prev Previous) (missing []string) {
	owners := make(map[string]string, len(g.Facts))
	for i := range g.Facts {
		owners[g.Facts[i].SlurmName] = g.Facts[i].Name
	}
	for _, name := range prev.nodes() {
		if _, ok := owners[name]; ok {
			continue
		}
		missing = append(missing, name)
		if owner, ok := s.owners[name]; ok {
			owners[name] = owner
		}
	}
	s.owners = owners
	return missing
}

// rememberOthers notes which other publications take the nodes too.
func (p *Publisher) rememberOthers(s *state, g *Gathered, missing []string) {
	if len(p.states) == 1 {
		return
	}
	others := make(map[string][]*state)
	for _, n := range g.nodes {
		for _, other := range p.states {
			if other != s && other.pub.takes(n) {
				others[n.Name] = append(others[n.Name], other)
			}
		}
	}
	for _, name := range missing {
		owner := s.owners[name]
		if were, ok := s.others[owner]; ok && others[owner] == nil {
			others[owner] = were
		}
	}
	s.others = others
}

// movedOn reports whether another publication took the node when this one no
// longer did, not before.
func (p *Publisher) movedOn(s *state, n *Node) bool {
	return slices.ContainsFunc(p.states, func(other *state) bool {
		return other != s && other.pub.takes(n) && !slices.Contains(s.others[n.Name], other)
	})
}

// annotatedByAnother reports whether another publication writes the node's
// annotation now.
func (p *Publisher) annotatedByAnother(s *state, n *Node) bool {
	return slices.ContainsFunc(p.states, func(other *state) bool {
		return other != s && *other.pub.Annotate && other.pub.release.DynamicTopology() && other.pub.takes(n)
	})
}

// perhapsPublished names a node without a Slurm name that may be one of the
// missing ones of which nobody remembers the Node, empty when there is none.
func (s *state) perhapsPublished(g *Gathered, snap *Snapshot, missing []string) string {
	if s.pub.bySlinky() { // a node without a worker pod is no Slurm node
		return ""
	}
	sure := true // of every missing one its Node is known
	owns := map[string]bool{}
	for _, name := range missing {
		owner, ok := s.owners[name]
		owns[owner], sure = true, sure && ok
	}
	strangers := map[string]bool{} // that are none of the published
	perhaps := ""
	for _, problem := range g.Unnamed {
		n := g.unnamed[problem.Node]
		switch {
		case owns[n.Name]:
		case sure || s.strangers[n.Name]:
			strangers[n.Name] = true
		case perhaps == "" && s.pub.mayHaveGPUs(n, snap):
			perhaps = n.Name
		}
	}
	s.strangers = strangers
	return perhaps
}

// mayHaveGPUs reports whether anything says that the node could be in a file.
func (p *Publication) mayHaveGPUs(n *Node, snap *Snapshot) bool {
	l := nodelabels.Read(n.Labels, p.labelKeys())
	return snap.Reports[n.Name] != nil || l.GPUs > 0 || l.Product != "" || l.NamesDomain() || len(l.Problems) > 0 || n.Annotations[SpecAnnotation] != ""
}

// keep lets nodes stay where they are published under the names that they had.
func (g *Gathered) keep(names map[string]string) {
	if len(names) == 0 {
		return
	}
	g.Unnamed = slices.DeleteFunc(g.Unnamed, func(pr topology.Problem) bool {
		name, ok := names[pr.Node]
		if ok {
			g.Facts = append(g.Facts, topology.Facts{Name: pr.Node, SlurmName: name, Stays: pr.Message})
			g.nodes[name] = g.unnamed[pr.Node]
			pr.Message += "; it stays published as " + name
			g.problems = append(g.problems, pr)
		}
		return ok
	})
}
