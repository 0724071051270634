package imex

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// TestKeeperPart changes one thing after the other in four racks, and sees who is
// judged anew.
func TestKeeperPart(t *testing.T) {
	s := racks(4)
	first := func(k int) string { return fmt.Sprintf("r%dn0", k) }
	rack := func(k int) []string {
		names := make([]string, 4)
		for i := range names {
			names[i] = fmt.Sprintf("r%dn%d", k, i)
		}
		return names
	}
	all := slices.Concat(rack(0), rack(1), rack(2), rack(3))
	for _, step := range []struct {
		name string
		edit func(s *Seen)
		anew []string
	}{
		{"nothing", func(*Seen) {}, nil},
		{"an entry", func(s *Seen) { s.Cliques[1].Daemons[2].Ready = false }, rack(1)},
		{"an entry comes", func(s *Seen) {
			s.Cliques[2].Daemons = append(s.Cliques[2].Daemons, Member{Node: "unknown", Index: 7})
		}, rack(2)},
		{"and goes", func(s *Seen) { s.Cliques[2].Daemons = s.Cliques[2].Daemons[:4] }, rack(2)},
		{"a claim comes before all others", func(s *Seen) {
			s.Claims = slices.Insert(s.Claims, 0, Claim{Namespace: "a", Name: "a", Node: first(0), Owner: OwnerSlurmd, Waiting: "slurm/w"})
		}, rack(0)},
		{"and goes", func(s *Seen) { s.Claims = s.Claims[1:] }, rack(0)},
		{"a claim of no node", func(s *Seen) {
			s.Claims = append(s.Claims, Claim{Namespace: "slurm", Name: "z", Waiting: "slurm/w"})
		}, nil},
		{"a label", func(s *Seen) { s.node(first(3), func(n *Node) { n.DomainLabel = otherUID }) }, rack(3)},
		{"a report that says the same", func(s *Seen) { s.local(first(3), func(*topology.IMEX) {}) }, nil},
		{"a report", func(s *Seen) { s.local(first(3), func(l *topology.IMEX) { l.HostService = true }) }, rack(3)},
		{"the domain's status", func(s *Seen) { s.Members = maps.Clone(s.Members); delete(s.Members, first(2)) }, rack(2)},
		{"a node moves", func(s *Seen) {
			s.node(first(0), func(n *Node) { n.Clique, n.CliqueLabel = rackClique(1), rackClique(1) })
		}, slices.Concat(rack(0), rack(1))},
		{"and its entry holds both together", func(s *Seen) { s.Cliques[1].Daemons[3].Index = 9 }, slices.Concat(rack(0), rack(1))},
		{"a node comes", func(s *Seen) { s.Nodes["new"] = Node{Name: "new", GPUs: true} }, []string{"new"}},
		{"and goes", func(s *Seen) { delete(s.Nodes, "new") }, nil},
		{"where worker pods are", func(s *Seen) { s.Workers = map[string]bool{} }, all},
		{"a worker pod", func(s *Seen) { s.Workers = map[string]bool{first(3): true} }, rack(3)},
		{"the domain", func(s *Seen) { s.Domain.Deleting = true }, all},
		{"the first claims that are not to be read", func(s *Seen) { s.ClaimsUnread = true }, all},
		{"the last cliques go", func(s *Seen) { s.Cliques = nil }, all},
		{"an entry of the status", func(s *Seen) {
			m := s.Members[first(3)]
			m.Ready = false
			s.Members = maps.Clone(s.Members)
			s.Members[m.Node] = m
		}, rack(3)},
		{"the domain's status is not to be read", func(s *Seen) { s.Members = nil }, all},
	} {
		var k Keeper
		k.Judge(s)
		s = s.clone()
		step.edit(s)
		for name, v := range k.verdicts {
			v.Message = "kept"
			k.verdicts[name] = v
		}
		got := k.Judge(s)
		var anew []string
		for name, v := range got {
			if v.Message != "kept" {
				anew = append(anew, name)
			}
		}
		slices.Sort(anew)
		if diff := cmp.Diff(step.anew, anew); diff != "" {
			t.Errorf("%s: judged anew (-want +got):\n%s", step.name, diff)
		}
		if len(got) != len(Judge(s)) {
			t.Errorf("%s: %d verdicts", step.name, len(got))
		}
	}
}

// TestKeeperFirst judges what differs in nothing that concerns all from what a new
// Keeper has seen: nothing.
func TestKeeperFirst(t *testing.T) {
	var k Keeper
	s := &Seen{Nodes: map[string]Node{"n1": {GPUs: true}}}
	if diff := cmp.Diff(Judge(s), k.Judge(s)); diff != "" {
		t.Errorf("-Judge +Keeper:\n%s", diff)
	}
}

// TestKeeperMany changes one entry in a cluster where each clique is tied to the next
// by an entry of a node that has left it.
func TestKeeperMany(t *testing.T) {
	s := racks(40)
	for i := range s.Cliques {
		gone := s.Cliques[(i+1)%len(s.Cliques)].Daemons[0]
		gone.Index = 9
		s.Cliques[i].Daemons = append(s.Cliques[i].Daemons, gone)
	}
	var k Keeper
	k.Judge(s)
	s = s.clone()
	s.Cliques[0].Daemons[1].Ready = false
	if diff := cmp.Diff(Judge(s), k.Judge(s)); diff != "" {
		t.Errorf("-Judge +Keeper:\n%s", diff)
	}
	if got, want := tied(&k.ties), tied(fresh(s)); !slices.Equal(got, want) {
		t.Errorf("ties (-want +got):\n%s", cmp.Diff(want, got))
	}
}

func rackClique(k int) string { return fmt.Sprintf("b3a10c5e-7d4f-4a6b-9d3e-5f0123456789.%d", k+1) }

// racks returns so many cliques of four nodes that are all members.
func racks(count int) *Seen {
	s := rack()
	s.Nodes, s.Members, s.Claims, s.Cliques = map[string]Node{}, map[string]Member{}, nil, nil
	for k := range count {
		s.Cliques = append([]Clique{{Domain: testUID, ID: rackClique(k)}}, s.Cliques...)
		for i := range 4 {
			s.join(fmt.Sprintf("r%dn%d", k, i), rackClique(k), i)
		}
	}
	slices.SortFunc(s.Cliques, func(a, b Clique) int { return orderCliques(&a, &b) })
	return s
}

// TestKeeperFields changes each field that there is: one that is not compared would
// leave old verdicts.
func TestKeeperFields(t *testing.T) {
	for _, what := range []struct {
		name string
		part func(s *Seen) reflect.Value
		back func(s *Seen, v reflect.Value)
	}{
		{"node", func(s *Seen) reflect.Value { n := s.Nodes["n1"]; return reflect.ValueOf(&n).Elem() }, func(s *Seen, v reflect.Value) { s.Nodes["n1"] = v.Interface().(Node) }},
		{"report", func(s *Seen) reflect.Value { l := *s.Nodes["n1"].Local; return reflect.ValueOf(&l).Elem() }, func(s *Seen, v reflect.Value) {
			s.node("n1", func(n *Node) { l := v.Interface().(topology.IMEX); n.Local = &l })
		}},
		{"member", func(s *Seen) reflect.Value { m := s.Members["n1"]; return reflect.ValueOf(&m).Elem() }, func(s *Seen, v reflect.Value) {
			s.Members = maps.Clone(s.Members)
			s.Members["n1"] = v.Interface().(Member)
		}},
		{"entry", func(s *Seen) reflect.Value { return reflect.ValueOf(&s.Cliques[0].Daemons[1]).Elem() }, func(*Seen, reflect.Value) {}},
		{"clique", func(s *Seen) reflect.Value { return reflect.ValueOf(&s.Cliques[0]).Elem() }, func(*Seen, reflect.Value) {}},
		{"claim", func(s *Seen) reflect.Value { return reflect.ValueOf(&s.Claims[1]).Elem() }, func(*Seen, reflect.Value) {}},
		{"seen", func(s *Seen) reflect.Value { return reflect.ValueOf(s).Elem() }, func(*Seen, reflect.Value) {}},
	} {
		was := rack()
		for i := range what.part(was).NumField() {
			is := was.clone()
			v := what.part(is)
			other(t, v.Field(i))
			what.back(is, v)
			if r, few := reachedOf(was, is, &ties{}); few && sameForAll(was, is) && len(r.nodes) == 0 && len(r.cliques) == 0 {
				t.Errorf("%s: a change of %s is not seen", what.name, v.Type().Field(i).Name)
			}
		}
	}
}

// other sets another value.
func other(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int:
		v.SetInt(v.Int() + 1)
	case reflect.Struct:
		other(t, v.Field(0))
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		} else {
			v.SetZero()
		}
	case reflect.Slice, reflect.Pointer:
		if v.IsNil() {
			t.Fatalf("no %s to take away", v.Type())
		}
		v.SetZero()
	default:
		t.Fatalf("no other %s", v.Type())
	}
}
