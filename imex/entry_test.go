package imex

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

func TestJudgeEntry(t *testing.T) {
	n1 := func(reason string) map[string]words { return map[string]words{"n1": verdict(reason)} }
	stale := func(s *Observation, ready bool) {
		m := Member{Node: "n1", Address: "10.0.9.9", Clique: oldClique, Index: 5, Ready: ready}
		s.Cliques = append(s.Cliques, Clique{Domain: testUID, ID: oldClique, Daemons: []Member{m}})
	}
	many := func(nodes, entries int) func(*Observation) {
		return func(s *Observation) {
			for i := 4; i < nodes; i++ {
				s.join(fmt.Sprintf("n%d", i), testClique, i)
			}
			for i := nodes - 1; i >= entries; i-- {
				s.leave(i)
			}
		}
	}
	runJudgeCases(t, []judgeCase{
		{name: "none yet", spoil: func(s *Observation) { s.leave(1) }, want: n1(ReasonNotRegistered), says: []string{testClique + " yet", "local daemon says READY", "computedomain-daemon-" + testUID}},
		{name: "none, and the status still has it", spoil: func(s *Observation) {
			m := s.Members["n1"]
			s.leave(1)
			s.Members["n1"] = m
		}, want: n1(ReasonNotRegistered), says: []string{"still lists the node"}},
		{name: "the driver saw no clique", spoil: func(s *Observation) {
			s.leave(1)
			s.Members["n1"] = Member{Node: "n1", Address: "10.0.0.2", Index: -1, Ready: true}
		}, want: n1(ReasonNotRegistered), says: []string{testClique, "kubelet plugin"}},
		{name: "stale, and no other", spoil: func(s *Observation) { s.leave(1); stale(s, true) }, want: n1(ReasonNotRegistered), says: []string{"index 5 (10.0.9.9) in clique " + oldClique, "kubelet plugin"}},
		{name: "stale, beside a current one", spoil: func(s *Observation) { stale(s, true) }, want: map[string]words{"n1": noted},
			says: []string{"index 5 (10.0.9.9) in clique " + oldClique, "ComputeDomainClique " + testUID + "." + oldClique}},
		{name: "stale, and the status has lost it", spoil: func(s *Observation) { stale(s, true); delete(s.Members, "n1") }, want: map[string]words{"n1": noted},
			says: []string{"it also has a stale entry"}},
		{name: "another domain's, under another clique", spoil: func(s *Observation) { stale(s, true); s.Cliques[1].Domain = otherUID }},
		{name: "stale, beside one that is not ready", spoil: func(s *Observation) {
			stale(s, true)
			s.entry(1, func(m *Member) { m.Ready = false })
			s.local("n1", func(l *topology.IMEX) { l.DaemonState = "" })
		}, want: n1(ReasonNotReady)},
		{name: "a node that moved is no peer here", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.Clique, n.CliqueLabel = oldClique, oldClique })
		}, want: map[string]words{"n1": verdict(ReasonNotRegistered)}},
		{name: "not ready", spoil: func(s *Observation) {
			s.Cliques[0].Daemons[1].Ready = false
			s.local("n1", func(l *topology.IMEX) { l.DaemonState = "INITIALIZING" })
		}, want: n1(ReasonNotReady), says: []string{"index 1 (10.0.0.2)", "NotReady", "INITIALIZING", "status says Ready, which does not count", "wait"}},
		{name: "not ready, while the daemon is", spoil: func(s *Observation) { s.entry(1, func(m *Member) { m.Ready = false }) }, want: n1(ReasonNotReady), says: []string{"index 1 (10.0.0.2)", "is NotReady (the local daemon says READY)"}, not: "status"},
		{name: "ready, while the daemon is not", spoil: func(s *Observation) {
			s.local("n1", func(l *topology.IMEX) { l.DaemonState = "UNAVAILABLE" })
		}, want: n1(ReasonNotReady), says: []string{"is Ready (the local daemon says UNAVAILABLE)"}},
		{name: "ready, and of an earlier daemon by the address", spoil: func(s *Observation) {
			s.local("n1", func(l *topology.IMEX) { l.DaemonAddress = "10.0.0.77" })
		}, want: n1(ReasonNotReady), says: []string{"is Ready, which may be old: the node's daemon has the address 10.0.0.77"}},
		{name: "ready, and the daemon has the same address", spoil: func(s *Observation) {
			s.local("n1", func(l *topology.IMEX) { l.DaemonAddress, l.DaemonState = "10.0.0.2", "" })
		}},
		{name: "ready since before the boot", spoil: func(s *Observation) {
			s.local("n1", func(l *topology.IMEX) {
				l.DaemonState, l.DaemonFault = "", "it has not started since the machine booted"
			})
		}, want: n1(ReasonNotReady), says: []string{"it has not started since the machine booted", "computedomain-daemon-" + testUID}},
		{name: "ready since before the boot, where another pod waits for the channel", spoil: func(s *Observation) {
			s.local("n1", func(l *topology.IMEX) {
				l.DaemonState, l.DaemonFault = "", "it has not started since the machine booted"
			})
			s.Claims = append(s.Claims, Claim{Namespace: "quoin-system", Name: "w", Domain: testUID, Node: "n1", Owner: OwnerSlurmd, Waiting: "quoin-system/w1"})
		}, want: n1(ReasonWrongClaim)},
		{name: "the daemon reaches not all", spoil: func(s *Observation) {
			s.local("n1", func(l *topology.IMEX) { l.DomainState = "DEGRADED" })
		}, says: []string{"DEGRADED", "nvidia-imex-ctl -N"}},
		{name: "the daemon reaches all", spoil: func(s *Observation) {
			s.local("n1", func(l *topology.IMEX) { l.DomainState = "UP" })
		}},
		{name: "one index twice", spoil: func(s *Observation) { s.entry(1, func(m *Member) { m.Index = 2 }) }, want: map[string]words{"n1": verdict(ReasonConflict), "n2": verdict(ReasonConflict)},
			says: []string{"index 2 (10.0.0.2)", "n2 (10.0.0.3) has the same index"}},
		{name: "one address in another domain", spoil: func(s *Observation) {
			s.Cliques = append(s.Cliques, Clique{Domain: "another", ID: oldClique, Daemons: []Member{{Node: "x", Address: "10.0.0.2", Clique: oldClique, Index: 4, Ready: true}}})
		}, want: n1(ReasonConflict), says: []string{"node x (index 4) has the same address"}},
		{name: "one address twice", spoil: func(s *Observation) { s.entry(1, func(m *Member) { m.Address = "10.0.0.3" }) }, want: map[string]words{"n1": verdict(ReasonConflict), "n2": verdict(ReasonConflict)},
			says: []string{"index 1 (10.0.0.3)", "n2 (index 2) has the same address"}},
		{name: "two without an address", spoil: func(s *Observation) {
			s.entry(1, func(m *Member) { m.Address = "" })
			s.entry(2, func(m *Member) { m.Address = "" })
		}},
		{name: "two domains by an entry", spoil: func(s *Observation) {
			s.Cliques = append(s.Cliques, Clique{Domain: otherUID, ID: testClique, Daemons: []Member{{Node: "n9", Ready: true}, {Node: "n8"}}})
		}, others: verdict(ReasonConflict), says: []string{otherUID, "n8, n9", "CUDA_ERROR_NOT_SUPPORTED"}},
		{name: "a clique of another domain without entries", spoil: func(s *Observation) {
			s.Cliques = append(s.Cliques, Clique{Domain: otherUID, ID: testClique})
		}},
		{name: "as many nodes as may be", spoil: many(18, 18)},
		{name: "one node too many waits", spoil: many(19, 18), want: map[string]words{"n18": verdict(ReasonNotRegistered)}, at: "n18", says: []string{"19 nodes, 18 of them with an entry", "driver's default limit is 18"}},
		{name: "one node too many before all are in", spoil: many(19, 17), want: map[string]words{"n17": verdict(ReasonNotRegistered), "n18": verdict(ReasonNotRegistered)}},
		{name: "all places taken, by nodes that are not known", spoil: func(s *Observation) {
			many(18, 18)(s)
			s.Cliques[0].Daemons[1].Node = "n99"
			delete(s.Members, "n1")
		}, want: n1(ReasonNotRegistered)},
		{name: "a limit of the driver that is higher", spoil: many(19, 19)},
		{name: "the status says otherwise, which does not count", spoil: func(s *Observation) {
			s.Members["n1"] = Member{Node: "n1", Index: 9, Address: "10.0.0.9", Clique: oldClique}
			delete(s.Members, "n2")
		}},
		{name: "the status is not to be read", spoil: func(s *Observation) { s.Members = nil }},
	})
}

// TestJudgeNotes has what is wrong beside a node that is ready. What is wrong with its peers
// is theirs to say.
func TestJudgeNotes(t *testing.T) {
	runJudgeCases(t, []judgeCase{
		{name: "several", spoil: func(s *Observation) {
			s.entry(0, func(m *Member) { m.Ready = false })
			s.local("n1", func(l *topology.IMEX) { l.DomainState = "DEGRADED" })
			s.node("n1", func(n *Node) { n.CliqueLabel = oldClique })
		}, want: map[string]words{"n0": verdict(ReasonNotReady), "n1": noted}, says: []string{", but the local daemon says that the domain is DEGRADED, although this node is connected to each of its nodes (", "; the label", "nvidia-imex-ctl"}, not: "n0"},
		{name: "without power", spoil: func(s *Observation) { s.node("n1", func(n *Node) { n.Lost = true }) },
			want: but(), says: []string{"its entry may be out of date"}},
	})
}

// TestJudgeByStatus judges the entries of a driver without objects for cliques.
func TestJudgeByStatus(t *testing.T) {
	old := func(change func(m map[string]Member)) func(*Observation) {
		return func(s *Observation) {
			s.Cliques = nil
			change(s.Members)
		}
	}
	set := func(m map[string]Member, e Member) { m["n1"] = e }
	runJudgeCases(t, []judgeCase{
		{name: "healthy", spoil: old(func(map[string]Member) {})},
		{name: "not ready", spoil: old(func(m map[string]Member) { set(m, Member{Clique: testClique, Index: 1}) }), want: map[string]words{"n1": verdict(ReasonNotReady)}},
		{name: "one address twice", spoil: old(func(m map[string]Member) {
			set(m, Member{Clique: testClique, Address: "10.0.0.3", Index: 1, Ready: true})
		}),
			want: map[string]words{"n1": verdict(ReasonConflict), "n2": verdict(ReasonConflict)}, says: []string{"n2 (index 2) has the same address"}},
		{name: "one index twice, of every two", spoil: old(func(m map[string]Member) {
			for name, e := range m {
				e.Index = int(name[1]-'0') &^ 1
				m[name] = e
			}
		}), want: map[string]words{"n0": verdict(ReasonConflict), "n1": verdict(ReasonConflict), "n2": verdict(ReasonConflict), "n3": verdict(ReasonConflict)}, says: []string{"n0 (10.0.0.1) has the same index"}},
		{name: "beside a domain of a driver with cliques", spoil: func(s *Observation) {
			old(func(map[string]Member) {})(s)
			s.Cliques = []Clique{{Domain: "another", ID: oldClique, Daemons: []Member{{Node: "x", Address: "10.0.9.1", Clique: oldClique, Ready: true}}}}
		}},
		{name: "not listed", spoil: old(func(m map[string]Member) { delete(m, "n1") }), want: map[string]words{"n1": verdict(ReasonNotRegistered)}},
		{name: "under another clique", spoil: old(func(m map[string]Member) { set(m, Member{Clique: oldClique, Ready: true}) }), want: map[string]words{"n1": verdict(ReasonNotRegistered)}},
		{name: "without a clique", spoil: old(func(m map[string]Member) { set(m, Member{Ready: true}) }), want: map[string]words{"n1": verdict(ReasonNotRegistered)}},
	})
}

// TestJudgeOne judges the one node that an agent sees: its labels, its clique and
// its own report.
func TestJudgeOne(t *testing.T) {
	s := rack()
	s.Domain.UID, s.Claims, s.ClaimsUnread, s.Members = "", nil, true, nil
	s.Nodes = map[string]Node{"n1": s.Nodes["n1"]}
	s.Cliques[0].Daemons[3].Ready = false
	want := map[string]Verdict{"n1": {topology.Finding{Subject: topology.Subject{Node: "n1"}, Severity: topology.OK,
		Reason: ReasonReady, Message: "index 1 (10.0.0.2) in clique " + testClique,
	}}}
	if got := Judge(s); !maps.Equal(got, want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
}

func TestList(t *testing.T) {
	var names []string
	for i := range 23 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	if got, want := list(names), strings.Join(names[:20], ", ")+" and 3 more"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	if got, want := list(names[:20]), strings.Join(names[:20], ", "); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}
