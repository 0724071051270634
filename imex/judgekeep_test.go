package imex

import (
	"fmt"
	"maps"
	"math/rand/v2"
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
			if r, part := reachedOf(was, is, &ties{}); part && len(r.nodes) == 0 && len(r.cliques) == 0 {
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

// TestKeeperRandom holds that a Keeper says what Judge does, whatever happens in
// whatever order.
func TestKeeperRandom(t *testing.T) {
	parts, anew := 0, 0
	for range 300 {
		a, b := rand.Uint64(), rand.Uint64()
		r := rand.New(rand.NewPCG(a, b))
		var k Keeper
		s := racks(5)
		for step := range 40 {
			was := k.verdicts
			s = keptChange(r, s)
			if got, want := k.Judge(s), Judge(s); !maps.Equal(got, want) {
				t.Fatalf("seed %d, %d, change %d (-Judge +Keeper):\n%s", a, b, step, cmp.Diff(want, got))
			}
			if was != nil && reflect.ValueOf(was).UnsafePointer() == reflect.ValueOf(k.verdicts).UnsafePointer() {
				parts++
			} else {
				anew++
			}
			if got, want := tied(&k.ties), tied(fresh(s)); !slices.Equal(got, want) {
				t.Fatalf("seed %d, %d, change %d: ties (-want +got):\n%s", a, b, step, cmp.Diff(want, got))
			}
		}
	}
	if parts < 3000 || anew < 500 {
		t.Errorf("judged a part %d times and all %d times", parts, anew)
	}
}

func fresh(s *Seen) *ties {
	var t ties
	t.add(s, len(s.Cliques) == 0)
	return &t
}

// tied lists all ties.
func tied(t *ties) []string {
	var all []string
	for name, ids := range t.cliques {
		for _, id := range ids {
			all = append(all, name+" in "+id)
		}
	}
	for id, names := range t.nodes {
		for _, name := range names {
			all = append(all, id+" has "+name)
		}
	}
	slices.Sort(all)
	return all
}

func FuzzKeeper(f *testing.F) {
	for _, text := range []string{"", "a", "0123456789abcdef", "entries come and go, and claims with them"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		r := rand.New(&chosen{choices, rand.NewPCG(18, 72)})
		var k Keeper
		s := racks(3)
		for range min(len(choices)/4, 30) + 1 {
			s = keptChange(r, s)
			if got, want := k.Judge(s), Judge(s); !maps.Equal(got, want) {
				t.Fatalf("-Judge +Keeper:\n%s", cmp.Diff(want, got))
			}
		}
	})
}

// chosen is chance as the bytes say, one for each choice, as far as there are some.
type chosen struct {
	bytes []byte
	rest  *rand.PCG
}

func (c *chosen) Uint64() uint64 {
	u := c.rest.Uint64()
	if len(c.bytes) > 0 {
		b := uint64(c.bytes[0])
		c.bytes = c.bytes[1:]
		u = b<<56 | u&^(0xff<<56|0xff) | b
	}
	return u
}

// keptChange returns another Seen, with up to three changes.
func keptChange(r *rand.Rand, was *Seen) *Seen {
	s := was.clone()
	for range r.IntN(3) + 1 {
		changeOne(r, s)
	}
	return s
}

// changeOne changes one thing of any kind. A Seen that has lost all of it is whole
// again in the end.
func changeOne(r *rand.Rand, s *Seen) {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	node := func() string { return fmt.Sprintf("r%dn%d", r.IntN(5), r.IntN(5)) }
	id := func() string {
		return pick(rackClique(0), rackClique(1), rackClique(2), rackClique(3), rackClique(4), rackClique(5), "", "N/A")
	}
	uid := func() string { return pick(testUID, testUID, testUID, otherUID, "") }
	member := func() Member {
		return Member{Node: node(), Address: fmt.Sprintf("10.0.0.%d", r.IntN(5)), Clique: id(), Index: r.IntN(5), Ready: r.IntN(2) == 0}
	}
	if len(s.Cliques) == 0 && r.IntN(12) == 0 || len(s.Nodes) < 4 {
		*s = *racks(5)
	}
	kind := r.IntN(15)
	if len(s.Cliques) == 0 && kind >= 4 && kind <= 8 {
		kind = 11 // of the domain's status, which counts then
	}
	switch kind {
	case 0:
		s.node(node(), func(n *Node) {
			randomNode(r, n, func(list []string) string { return pick(list...) }, []string{testUID, otherUID, ""}, []string{rackClique(1), rackClique(2), "", "N/A"})
		})
	case 1:
		name := node()
		s.node(name, func(n *Node) { *n = racks(5).Nodes[name] })
	case 2:
		delete(s.Nodes, node())
	case 3:
		s.node(node(), func(n *Node) { n.Clique, n.CliqueLabel, n.Fabric = id(), id(), FabricState(r.IntN(3)) })
	case 4:
		c := &s.Cliques[r.IntN(len(s.Cliques))]
		c.Daemons = append(c.Daemons, member())
	case 5, 6:
		changeEntry(r, &s.Cliques[r.IntN(len(s.Cliques))], member())
	case 7:
		c := Clique{Domain: uid(), ID: id()}
		for range r.IntN(20) {
			c.Daemons = append(c.Daemons, member())
		}
		s.Cliques = slices.Insert(s.Cliques, r.IntN(len(s.Cliques)+1), c)
	case 8:
		i := r.IntN(len(s.Cliques))
		s.Cliques = slices.Delete(s.Cliques, i, i+1)
	case 9:
		c := Claim{Namespace: pick("quoin-system", "slurm"), Name: node(), Domain: uid(), Node: pick(node(), ""), Owner: pick(OwnerHolder, OwnerSlurmd, OwnerOther, "")}
		c.Pods, c.Waiting = [][]string{nil, {"slurm/" + node()}, {"slurm/a", "slurm/b"}}[r.IntN(3)], pick("", "", "slurm/w")
		s.Claims = slices.Insert(s.Claims, r.IntN(len(s.Claims)+1), c)
	case 10:
		if i := len(s.Claims); i > 0 {
			i = r.IntN(i)
			s.Claims = slices.Delete(s.Claims, i, i+1)
		}
	case 11:
		m := member()
		if s.Members == nil {
			s.Members = map[string]Member{}
		}
		if s.Members[m.Node] = m; r.IntN(3) == 0 {
			delete(s.Members, node())
		}
	case 12:
		if len(s.Claims) > 0 {
			changeClaim(r, &s.Claims[r.IntN(len(s.Claims))], node())
		}
	case 13:
		s.Workers = maps.Clone(s.Workers)
		if s.Workers == nil {
			s.Workers = map[string]bool{}
		}
		s.Workers[node()] = r.IntN(2) == 0
	case 14:
		changeAll(r, s)
	}
}

func changeClaim(r *rand.Rand, c *Claim, other string) {
	switch r.IntN(5) {
	case 0:
		c.Domain = otherUID
	case 1:
		c.Node = other
	case 2:
		c.Owner = []string{OwnerHolder, OwnerSlurmd, OwnerOther, ""}[r.IntN(4)]
	case 3:
		c.Pods = append(c.Pods, "slurm/"+other)
	case 4:
		c.Waiting = "slurm/" + other
	}
}

func changeEntry(r *rand.Rand, c *Clique, other Member) {
	if len(c.Daemons) == 0 {
		return
	}
	i := r.IntN(len(c.Daemons))
	switch m := &c.Daemons[i]; r.IntN(5) {
	case 0:
		m.Ready = !m.Ready
	case 1:
		m.Index, m.Address = other.Index, other.Address
	case 2:
		*m = other
	case 3:
		c.Daemons = slices.Delete(c.Daemons, i, i+1)
	case 4:
		c.Domain = otherUID
	}
}

// changeAll changes what concerns every node.
func changeAll(r *rand.Rand, s *Seen) {
	switch r.IntN(8) {
	case 0:
		s.Join = []string{JoinHolder, JoinSlurmd, JoinNone}[r.IntN(3)]
	case 1:
		s.Domain.UID = []string{testUID, otherUID, ""}[r.IntN(3)]
	case 2:
		s.Domain.Problem = topology.Problem{Reason: []string{"", ReasonDomainDiffers}[r.IntN(2)]}
	case 3:
		s.ClaimsUnread, s.HostChannels = r.IntN(2) == 0, r.IntN(2) == 0
	case 4:
		s.Members = nil
	case 5:
		s.Cliques = nil
	case 6:
		s.shuffle(r)
	case 7:
		*s = *racks(5)
	}
}
