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

// TestJudgeRandom holds, over what can be seen in any mixture, what no verdict may
// break.
func TestJudgeRandom(t *testing.T) {
	known := knownWords()
	met := map[string]bool{}
	r := rand.New(rand.NewPCG(18, 72))
	for range 10000 {
		s := randomSeen(r)
		before := s.clone()
		got := Judge(s)
		for name, n := range s.Nodes {
			n.Name = name
			v, judged := got[name]
			if judged != (n.GPUs || s.concerns(name)) {
				t.Fatalf("%s: judged %t\n%+v", name, judged, s)
			}
			if !judged {
				continue
			}
			checkWords(t, known, name, v)
			met[v.Reason] = true
			if v.Ready() && !s.hasReadyEntry(n) {
				t.Errorf("%s is ready without a ready entry of its own: %s", name, v.Message)
			}
			if n.Fabric == FabricNone && (v.Problem() || v.Ready()) {
				t.Errorf("%s has nothing to join: %+v", name, v)
			}
		}
		if !reflect.DeepEqual(before, s) {
			t.Fatalf("Judge changed what is seen:\n%s", cmp.Diff(before, s))
		}
		if again := Judge(before.shuffle(r)); !maps.Equal(got, again) {
			t.Fatalf("another order, other verdicts:\n%s", cmp.Diff(got, again))
		}
		if t.Failed() {
			t.Fatalf("%+v", s)
		}
	}
	for _, word := range known {
		if !met[word] {
			t.Errorf("%s: never found", word)
		}
	}
}

// hasReadyEntry looks for the one thing that makes a node ready.
func (s *Observation) hasReadyEntry(n Node) bool {
	domain, clique := s.Domain.UID, n.Clique
	if domain == "" && s.Domain.Problem.Reason == "" {
		domain = n.DomainLabel
	}
	if clique == "" {
		clique = n.CliqueLabel
	}
	for _, c := range s.Cliques {
		for _, m := range c.Daemons {
			if c.Domain == domain && c.ID == clique && m.Node == n.Name && m.Ready {
				return true
			}
		}
	}
	m, listed := s.Members[n.Name]
	return len(s.Cliques) == 0 && listed && m.Ready && m.Clique == clique
}

// concerns reports whether anything says that the node is or becomes a member.
func (s *Observation) concerns(node string) bool {
	_, listed := s.Members[node]
	return listed || s.Nodes[node].DomainLabel != "" ||
		slices.ContainsFunc(s.Claims, func(c Claim) bool { return c.Node == node }) ||
		slices.ContainsFunc(s.Cliques, func(c Clique) bool {
			return slices.ContainsFunc(c.Daemons, func(m Member) bool { return m.Node == node })
		})
}

func (s *Observation) clone() *Observation {
	c := *s
	c.Nodes, c.Members, c.Claims, c.Cliques = maps.Clone(s.Nodes), maps.Clone(s.Members), slices.Clone(s.Claims), slices.Clone(s.Cliques)
	for i := range c.Cliques {
		c.Cliques[i].Daemons = slices.Clone(c.Cliques[i].Daemons)
	}
	for i := range c.Claims {
		c.Claims[i].Pods = slices.Clone(c.Claims[i].Pods)
	}
	return &c
}

func (s *Observation) shuffle(r *rand.Rand) *Observation {
	shuffle(r, s.Claims)
	shuffle(r, s.Cliques)
	for _, c := range s.Cliques {
		shuffle(r, c.Daemons)
	}
	for _, c := range s.Claims {
		shuffle(r, c.Pods)
	}
	return s
}

func shuffle[T any](r *rand.Rand, list []T) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// randomSeen returns a healthy rack with anything spoilt, or next to nothing of it.
func randomSeen(r *rand.Rand) *Observation {
	s := rack()
	one := func(n int) bool { return r.IntN(n) == 0 }
	uids := []string{testUID, testUID, otherUID, ""}
	ids := []string{testClique, testClique, oldClique, "", "N/A"}
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	node := func() string { return fmt.Sprintf("n%d", r.IntN(6)) }
	member := func(clique string) Member {
		return Member{Node: node(), Address: fmt.Sprintf("10.0.0.%d", r.IntN(6)), Clique: clique, Index: r.IntN(6), Ready: one(2)}
	}
	s.Join = pick([]string{JoinHolder, JoinHolder, JoinSlurmd, JoinSlurmd, JoinNone})
	if one(30) {
		s.Domain.Problem = topology.Finding{Reason: DomainDeleting, Message: "it is being deleted", Remedy: "wait"}
	}
	s.ClaimsUnread, s.HostChannels = one(4), one(4)
	if one(2) {
		s.Workers = map[string]bool{node(): true, node(): true, node(): true}
	}
	if one(10) {
		s.Domain.UID = ""
	}
	if one(15) {
		s.Domain.Problem = topology.Finding{Reason: pick([]string{ReasonNoDriver, NoDomain, DomainDiffers, DomainDeleting}), Message: "why", Remedy: "wait"}
	}
	if s.Join == JoinSlurmd && one(2) {
		for i := range s.Claims {
			s.Claims[i].Owner = OwnerSlurmd
		}
	}
	for range r.IntN(4) {
		s.node(node(), func(n *Node) { randomNode(r, n, pick, uids, ids) })
	}
	if one(20) {
		for i := 4; i < 19; i++ {
			s.join(fmt.Sprintf("m%d", i), testClique, i)
		}
	}
	for range r.IntN(3) {
		i := r.IntN(len(s.Cliques[0].Daemons))
		switch r.IntN(3) {
		case 0:
			s.leave(i)
		case 1:
			s.Cliques[0].Daemons[i] = member(testClique)
		default:
			s.entry(i, func(m *Member) { m.Ready = one(2) })
		}
		if len(s.Cliques[0].Daemons) == 0 {
			break
		}
	}
	for range r.IntN(3) {
		id := pick(ids)
		s.Cliques = append(s.Cliques, Clique{Domain: pick(uids), ID: id, Daemons: []Member{member(id), member(id)}})
	}
	for i := range r.IntN(3) {
		c := Claim{Namespace: pick([]string{"quoin-system", "slurm"}), Name: fmt.Sprint("c", i), Domain: pick(uids), Node: node(), Owner: pick([]string{OwnerHolder, OwnerSlurmd, OwnerOther, ""})}
		for range r.IntN(3) {
			c.Pods = append(c.Pods, "slurm/"+node())
		}
		if len(c.Pods) == 0 && one(2) {
			c.Waiting = "slurm/" + node()
		}
		if one(2) {
			s.unclaim(c.Node)
		}
		s.Claims = append(s.Claims, c)
	}
	for range r.IntN(2) {
		m := member(pick(ids))
		s.Members[m.Node] = m
	}
	if one(8) {
		s.unclaim(node())
	}
	if one(12) {
		s.Cliques = nil
	}
	if one(6) {
		s.Members = nil
	}
	return s
}

func randomNode(r *rand.Rand, n *Node, pick func([]string) string, uids, ids []string) {
	switch r.IntN(7) {
	case 0:
		*n = Node{Name: n.Name, GPUs: r.IntN(2) == 0}
	case 1:
		n.Fabric = FabricState(r.IntN(3))
	case 2:
		n.Clique, n.CliqueLabel = pick(ids), pick(ids)
	case 3:
		n.DomainLabel = pick(uids)
	case 4:
		n.Local = &topology.IMEX{DaemonState: pick([]string{"", "READY", "INITIALIZING"}), DomainState: pick([]string{"", "UP", "DOWN"}), HostService: r.IntN(3) == 0}
		if r.IntN(2) == 0 {
			n.Local.ChannelMajor = new(int)
		}
	case 5:
		n.GPUs = false
	case 6:
		n.Lost = true
	}
}
