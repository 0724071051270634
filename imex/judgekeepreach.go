package imex

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// reached are the nodes and cliques whose verdicts a change can reach, by name and by
// the clique's own name.
type reached struct{ nodes, cliques map[string]bool }

// reachedOf returns what the differences between was and is reach by the ties of was,
// and whether these are few, and ties of the same kind.
func reachedOf(was, is *Seen, t *ties) (reached, bool) {
	r := reached{map[string]bool{}, map[string]bool{}}
	if (len(was.Cliques) == 0) != (len(is.Cliques) == 0) {
		return r, false
	}
	r.addNodes(was.Nodes, is.Nodes)
	r.addMembers(was.Members, is.Members)
	addDifferingOf(was.Workers, is.Workers, func(a, b bool) bool { return a == b }, func(name string, _ bool) { r.nodes[name] = true })
	addDiffering(was.Cliques, is.Cliques, sameCliques, orderCliques, r.addClique)
	addDiffering(was.Claims, is.Claims, sameClaims, orderClaims, r.addClaim)
	return r, r.follow(t, max(len(is.Nodes)/4, 4*MaxCliqueNodes))
}

// sameForAll reports whether there is no difference in what every verdict rests on:
// all fields of a Seen but those that are compared part by part.
func sameForAll(was, is *Seen) bool {
	return (was.Members == nil) == (is.Members == nil) && (was.Workers == nil) == (is.Workers == nil) &&
		reflect.DeepEqual(was.forAll(), is.forAll())
}

func (s *Seen) forAll() Seen {
	rest := *s
	rest.Nodes, rest.Members, rest.Workers, rest.Cliques, rest.Claims = nil, nil, nil, nil, nil
	return rest
}

// addNodes adds the nodes that differ, and the cliques that they are in now: ties are
// to those that they were in.
func (r *reached) addNodes(was, is map[string]Node) {
	addDifferingOf(was, is, sameNodes, func(name string, now Node) {
		r.nodes[name] = true
		r.addOwn(now.CliqueID())
	})
}

// addOwn adds a clique that a node is in, if it is known.
func (r *reached) addOwn(clique string) {
	if clique != "" {
		r.cliques[clique] = true
	}
}

// addMembers adds the nodes whose place in the domain's status differs, and the
// cliques that it is in now.
func (r *reached) addMembers(was, is map[string]Member) {
	same := func(a, b Member) bool { return a == b }
	addDifferingOf(was, is, same, func(name string, now Member) {
		r.nodes[name] = true
		r.addOwn(now.Clique)
	})
}

// addDifferingOf calls add for what differs, with what is there now, if anything.
func addDifferingOf[T any](was, is map[string]T, same func(a, b T) bool, add func(name string, now T)) {
	if reflect.ValueOf(was).UnsafePointer() == reflect.ValueOf(is).UnsafePointer() { // the same map
		return
	}
	had := 0
	for name, now := range is {
		before, known := was[name]
		if known {
			had++
		}
		if !known || !same(before, now) {
			add(name, now)
		}
	}
	if had == len(was) {
		return
	}
	for name := range was {
		if now, still := is[name]; !still {
			add(name, now)
		}
	}
}

func (r *reached) addClique(c *Clique) {
	r.cliques[c.ID] = true
	for i := range c.Daemons {
		r.nodes[c.Daemons[i].Node] = true
	}
}

func (r *reached) addClaim(c *Claim) { r.nodes[c.Node] = true }

// addDiffering adds what only one of the two has. The pairs that are the same are
// found where both are in order; out of order, more is added than need be.
func addDiffering[T any](was, is []T, same func(a, b *T) bool, order func(a, b *T) int, add func(*T)) {
	if len(was) == len(is) && (len(is) == 0 || &was[0] == &is[0]) {
		return
	}
	for len(was) > 0 && len(is) > 0 {
		a, b := &was[0], &is[0]
		if same(a, b) {
			was, is = was[1:], is[1:]
			continue
		}
		way := order(a, b)
		if way <= 0 {
			add(a)
			was = was[1:]
		}
		if way >= 0 {
			add(b)
			is = is[1:]
		}
	}
	for i := range was {
		add(&was[i])
	}
	for i := range is {
		add(&is[i])
	}
}

func sameNodes(a, b Node) bool {
	x, y := a.Local, b.Local
	a.Local, b.Local = nil, nil
	return a == b && (x == y || x != nil && y != nil && sameLocal(*x, *y))
}

func sameLocal(a, b topology.IMEX) bool {
	x, y := a.ChannelMajor, b.ChannelMajor
	a.ChannelMajor, b.ChannelMajor = nil, nil
	return a == b && (x == y || x != nil && y != nil && *x == *y)
}

func sameCliques(a, b *Clique) bool {
	return a.ID == b.ID && a.Domain == b.Domain && slices.Equal(a.Daemons, b.Daemons)
}

func orderCliques(a, b *Clique) int {
	return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.ID, b.ID))
}

func sameClaims(a, b *Claim) bool {
	return a.Name == b.Name && a.Namespace == b.Namespace && a.Node == b.Node && a.Domain == b.Domain && a.Owner == b.Owner &&
		a.Waiting == b.Waiting && slices.Equal(a.Pods, b.Pods)
}

func orderClaims(a, b *Claim) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// of returns the part of s that is reached.
func (r *reached) of(s *Seen) *Seen {
	part := *s
	part.Cliques, part.Claims = nil, nil
	part.Nodes = make(map[string]Node, len(r.nodes))
	if s.Members != nil {
		part.Members = make(map[string]Member, len(r.nodes))
	}
	for name := range r.nodes {
		if n, is := s.Nodes[name]; is {
			part.Nodes[name] = n
		}
		if m, is := s.Members[name]; is {
			part.Members[name] = m
		}
	}
	for i := range s.Cliques {
		if r.cliques[s.Cliques[i].ID] {
			part.Cliques = append(part.Cliques, s.Cliques[i])
		}
	}
	for i := range s.Claims {
		if r.nodes[s.Claims[i].Node] {
			part.Claims = append(part.Claims, s.Claims[i])
		}
	}
	return &part
}
