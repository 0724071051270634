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
