package imex

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

func TestJudgeClaims(t *testing.T) {
	worker := Claim{Namespace: "quoin-system", Name: "worker-1", Domain: testUID, Node: "n1", Owner: OwnerSlurmd}
	add := func(s *Observation, c Claim, waiting string, pods ...string) {
		c.Waiting, c.Pods = waiting, pods
		s.Claims = append(s.Claims, c)
	}
	slurmd := func(s *Observation) {
		s.Join = JoinSlurmd
		for i := range s.Claims {
			s.Claims[i].Owner = OwnerSlurmd
		}
	}
	n1 := func(reason string) map[string]words { return map[string]words{"n1": verdict(reason)} }
	runJudgeCases(t, []judgeCase{
		{name: "holder and slurmd, which waits", spoil: func(s *Observation) { add(s, worker, "quoin-system/w1") }, want: but(),
			says: []string{"quoin-system/imex-n1 of the quoin-imex pod quoin-system/quoin-imex-n1 holds", "quoin-system/worker-1 of the worker pod quoin-system/w1 waits", "resourceClaims of the NodeSet", "imex.join to slurmd"}},
		{name: "slurmd and holder, which waits", spoil: func(s *Observation) {
			add(s, worker, "", "quoin-system/w1")
			c := s.claim("n1")
			c.Pods, c.Waiting = nil, "quoin-system/quoin-imex-n1"
		}, want: but(), says: []string{"worker-1 of the worker pod quoin-system/w1 holds", "the quoin-imex pod quoin-system/quoin-imex-n1 waits"}},
		{name: "both wait", spoil: func(s *Observation) {
			add(s, worker, "quoin-system/w1")
			c := s.claim("n1")
			c.Pods, c.Waiting = nil, "quoin-system/quoin-imex-n1"
		}, want: n1(ReasonWrongClaim)},
		{name: "a holder where workers claim", spoil: func(s *Observation) {
			slurmd(s)
			c := worker
			c.Owner = OwnerHolder
			add(s, c, "quoin-system/h1")
		}, want: but(), says: []string{"delete the DaemonSet"}},
		{name: "two of one owner", spoil: func(s *Observation) {
			c := worker
			c.Owner = OwnerHolder
			add(s, c, "quoin-system/h1")
		}, want: but(), says: []string{"let only one pod of a node claim"}},
		{name: "a workload with a domain of its own", spoil: func(s *Observation) {
			c := worker
			c.Namespace, c.Domain, c.Owner = "team", otherUID, OwnerOther
			add(s, c, "team/train-0")
		}, want: but(), says: []string{"claim team/worker-1 of pod team/train-0 waits", "keep other pods with channel claims off"}},
		{name: "a worker alone where the holder is to", spoil: func(s *Observation) { s.claim("n1").Owner = OwnerSlurmd }, want: but(), says: []string{"while imex.join is holder", "NodeSet"}},
		{name: "an owner that is not known", spoil: func(s *Observation) { s.claim("n1").Owner = "" }},
		{name: "it waits", spoil: func(s *Observation) {
			s.claim("n1").Pods, s.claim("n1").Waiting = nil, "quoin-system/quoin-imex-n1"
		}, want: n1(ReasonNotClaimed), says: []string{"pod quoin-system/quoin-imex-n1 waits", "channel-0"}},
		{name: "it waits for one that nobody holds", spoil: func(s *Observation) {
			s.claim("n1").Pods = nil
			add(s, worker, "quoin-system/w1")
			s.Claims[len(s.Claims)-1].Owner = OwnerHolder
		}, want: n1(ReasonNotClaimed), says: []string{"still allocated to claim quoin-system/imex-n1"}},
		{name: "nobody holds it", spoil: func(s *Observation) { s.claim("n1").Pods = nil }, want: n1(ReasonNotClaimed), says: []string{"claim quoin-system/imex-n1", "reserved for no pod"}},
		{name: "nobody holds another", spoil: func(s *Observation) { add(s, Claim{Namespace: "a", Name: "a", Node: "n1", Owner: OwnerOther}, "") }},
		{name: "no claim", spoil: func(s *Observation) { s.unclaim("n1") }, want: n1(ReasonNotClaimed), says: []string{"still has the label", "DaemonSet"}},
		{name: "claims are not to be read", spoil: func(s *Observation) { s.Claims, s.ClaimsUnread = nil, true }},
		{name: "no claim of slurmd", spoil: func(s *Observation) {
			slurmd(s)
			s.unclaim("n1")
			s.node("n1", func(n *Node) { n.DomainLabel = "" })
		}, want: map[string]words{"n1": verdict(ReasonNotClaimed)}, says: []string{"template", "nothing is wrong if no worker pod is to run"}},
		{name: "a worker pod that claims none", spoil: func(s *Observation) {
			slurmd(s)
			s.unclaim("n1")
			s.node("n1", func(n *Node) { n.DomainLabel = "" })
			s.Workers = map[string]bool{"n1": true}
		}, want: n1(ReasonNotClaimed), says: []string{"the node's worker pod of Slurm claims no channel", "give the NodeSet resourceClaims"}, not: "nothing is wrong"},
		{name: "a worker pod that claims none, where the holder claims", spoil: func(s *Observation) {
			s.unclaim("n1")
			s.Workers = map[string]bool{"n1": true}
		}, want: n1(ReasonNotClaimed), says: []string{"nothing on the node claims", "DaemonSet"}},
		{name: "a worker pod that claims", spoil: func(s *Observation) {
			slurmd(s)
			s.Workers = map[string]bool{"n1": true}
		}},
		{name: "no worker pod", spoil: func(s *Observation) {
			slurmd(s)
			s.unclaim("n1")
			s.leave(1)
			s.node("n1", func(n *Node) { n.DomainLabel = "" })
			s.Workers = map[string]bool{}
		}, want: map[string]words{"n1": verdict(ReasonNotWanted)}},
		{name: "no worker pod, where the holder claims", spoil: func(s *Observation) {
			s.unclaim("n1")
			s.node("n1", func(n *Node) { n.DomainLabel = "" })
			s.Workers = map[string]bool{}
		}, want: n1(ReasonNotClaimed)},
		{name: "another namespace", spoil: func(s *Observation) { s.claim("n1").Namespace = "slurm" }, want: but(), says: []string{"claim slurm/imex-n1", "(quoin-system)", "in the domain's namespace"}},
		{name: "another namespace of slurmd", spoil: func(s *Observation) {
			slurmd(s)
			s.claim("n1").Namespace = "slurm"
		}, want: but(), says: []string{"set imex.namespace to slurm"}},
		{name: "a claim of another domain", spoil: func(s *Observation) { s.claim("n1").Domain = otherUID }, want: n1(ReasonWrongClaim), says: []string{"of domain " + otherUID, testUID + " (quoin-system/quoin)"}},
		{name: "a claim that says no domain", spoil: func(s *Observation) { s.claim("n1").Domain = "" }},
		{name: "the label is missing", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.DomainLabel = "" })
		}, want: n1(ReasonNotRegistered), says: []string{"resource.nvidia.com/computeDomain", "imex-n1 of the quoin-imex pod quoin-system/quoin-imex-n1 holds", "delete pod quoin-system/quoin-imex-n1"}},
		{name: "the label is missing, and claims are not to be read", spoil: func(s *Observation) {
			s.Claims, s.ClaimsUnread = nil, true
			s.node("n1", func(n *Node) { n.DomainLabel = "" })
		}, want: n1(ReasonNotClaimed), says: []string{"resource.nvidia.com/computeDomain", "run quoin imex check"}},
		{name: "a node without a worker pod, and claims are not to be read", spoil: func(s *Observation) {
			slurmd(s)
			s.Claims, s.ClaimsUnread = nil, true
			s.node("n1", func(n *Node) { n.DomainLabel = "" })
			s.Workers = map[string]bool{}
		}, want: map[string]words{"n1": verdict(ReasonNotWanted)}},
		{name: "the label is of another domain", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.DomainLabel = otherUID })
		}, want: map[string]words{"n1": verdict(ReasonWrongClaim)}, others: verdict(ReasonConflict), says: []string{"names " + otherUID, testUID + " (quoin-system/quoin)"}},
	})
}

// TestFirstThingsFirst breaks much at once: the verdict is on what has to be
// repaired first, and on the next when that is.
func TestFirstThingsFirst(t *testing.T) {
	s := rack()
	s.Domain.Problem = topology.Finding{Reason: DomainDeleting, Message: "it is being deleted", Remedy: "wait"}
	s.Nodes["n1"] = Node{GPUs: true}
	s.leave(1)
	s.unclaim("n1")
	c := Claim{Namespace: "slurm", Name: "c", Node: "n1", Domain: otherUID, Owner: OwnerOther, Waiting: "slurm/w1"}
	d := c
	d.Name = "d"
	s.Claims = append(s.Claims, c, d)
	full := rack().Nodes["n0"].Local
	bare := *full
	bare.HostService, bare.ChannelMajor, bare.DaemonState = true, nil, "INITIALIZING"
	local := &bare
	for _, step := range []struct {
		want   string
		repair func()
	}{
		{ReasonDomainProblem, func() { s.Domain.Problem = topology.Finding{} }},
		{ReasonUnknown, func() {
			s.node("n1", func(n *Node) { n.Fabric, n.Clique, n.CliqueLabel, n.Local = FabricClique, testClique, oldClique, local })
		}},
		{ReasonWrongClaim, func() { s.unclaim("n1"); s.Claims = append(s.Claims, c) }},
		{ReasonWrongClaim, func() { s.claim("n1").Domain = testUID }},
		{ReasonWrongClaim, func() { s.claim("n1").Namespace = "quoin-system" }},
		{ReasonWrongClaim, func() { s.claim("n1").Owner = OwnerHolder }},
		{ReasonConflict, func() { local.HostService = false }},
		{ReasonFabricNotReady, func() { local.ChannelMajor = full.ChannelMajor }},
		{ReasonNotClaimed, func() { s.claim("n1").Waiting = "" }},
		{ReasonNotClaimed, func() { s.claim("n1").Pods = []string{"quoin-system/p"} }},
		{ReasonNotRegistered, func() { s.node("n1", func(n *Node) { n.DomainLabel = testUID }) }},
		{ReasonNotRegistered, func() { s.node("n1", func(n *Node) { n.CliqueLabel = "" }) }},
		{ReasonNotRegistered, func() {
			s.Cliques[0].Daemons = append(s.Cliques[0].Daemons, Member{Node: "n1", Address: "10.0.0.1", Clique: testClique, Index: 0})
		}},
		{ReasonConflict, func() { s.Cliques[0].Daemons[3].Index = 1 }},
		{ReasonConflict, func() { s.Cliques[0].Daemons[3].Address = "10.0.0.2" }},
		{ReasonNotReady, func() { s.Cliques[0].Daemons[3].Ready = true }},
		{ReasonNotReady, func() { local.DaemonState = "READY" }},
		{ReasonReady, func() {}},
	} {
		v := Judge(s)["n1"]
		if v.Reason != step.want {
			t.Fatalf("found %s (%s), want %s", v.Reason, v.Message, step.want)
		}
		if strings.Contains(v.Message, "  ") || strings.Contains(v.Message, "()") {
			t.Errorf("%s has a gap: %s", v.Reason, v.Message)
		}
		step.repair()
	}
}
