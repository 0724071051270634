package imex

import (
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		name    string
		config  Config
		serves  Service
		held    bool     // pods of the holder hold channels
		workers []string // domains of worker pods
		want    string
	}{
		{"no driver", Config{}, NoService, false, nil, JoinHost},
		{"the driver leaves it to the hosts", Config{}, HostServices, true, []string{"slurm/a"}, JoinHost},
		{"nothing claims", Config{}, OwnDaemons, false, nil, JoinHolder},
		{"worker pods claim", Config{}, OwnDaemons, false, []string{"slurm/a"}, JoinSlurmd},
		{"a holder holds, and a worker pod claims by mistake", Config{}, OwnDaemons, true, []string{"slurm/a"}, JoinHolder},
		{"the worker pods' namespace, scaled to none", Config{Namespace: "slurm"}, OwnDaemons, false, nil, JoinSlurmd},
		{"a holder in another namespace", Config{Namespace: "quoin-system"}, OwnDaemons, true, nil, JoinHolder},
		{"set", Config{Join: JoinHolder}, NoService, false, []string{"slurm/a"}, JoinHolder},
		{"set to none", Config{Join: JoinNone}, OwnDaemons, true, nil, JoinNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config, err := tt.config.Complete()
			if err != nil {
				t.Fatal(err)
			}
			join, why := config.Choose(tt.serves, tt.held, tt.workers...)
			if join != tt.want || (why == "") != (config.Join != JoinAuto) {
				t.Errorf("%s (%s), want %s", join, why, tt.want)
			}
		})
	}
}

// TestJudgeHost judges nodes by their own nvidia-imex.service: by nothing that the cluster
// has of them.
func TestJudgeHost(t *testing.T) {
	host := func(change func(l *topology.IMEX)) func(*Observation) {
		return func(s *Observation) {
			s.Join, s.Domain, s.Cliques, s.Members, s.Claims = JoinHost, Domain{}, nil, nil, nil
			for _, name := range []string{"n0", "n1", "n2", "n3"} {
				s.node(name, func(n *Node) { n.DomainLabel = "" })
				s.local(name, func(l *topology.IMEX) { l.HostService, l.DomainState = true, "UP" })
			}
			s.local("n1", change)
		}
	}
	n1 := func(reason string) map[string]words { return map[string]words{"n1": verdict(reason)} }
	lists := func(most, listed int, state string) func(*Observation) {
		return func(s *Observation) {
			host(func(l *topology.IMEX) { l.DaemonState = state })(s)
			s.node("n1", func(n *Node) { n.MaxNodes, n.Listed = most, listed })
		}
	}
	runJudgeCases(t, []judgeCase{
		{name: "all ready", spoil: host(func(*topology.IMEX) {}), says: []string{"nvidia-imex.service says READY"}},
		{name: "not running", spoil: host(func(l *topology.IMEX) { l.HostService, l.DaemonState = false, "" }), want: n1(ReasonNotReady), says: []string{"systemctl enable --now"}, not: "disable"},
		{name: "waiting", spoil: host(func(l *topology.IMEX) { l.DaemonState = "WAITING_FOR_PEERS" }), want: n1(ReasonNotReady), says: []string{"WAITING_FOR_PEERS", "quoin imex nodes-config"}, not: "disable"},
		{name: "nobody can ask", spoil: host(func(l *topology.IMEX) { l.DaemonState, l.DomainState = "", "" }), want: n1(ReasonUnknown), says: []string{"ImexUnreadable"}},
		{name: "some peers are not connected", spoil: host(func(l *topology.IMEX) {
			l.DomainState, l.Peers = "DEGRADED", []topology.IMEXPeer{{Address: "10.0.0.2", Name: "n2", State: topology.PeerDead}, {Address: "10.0.0.3", State: topology.PeerDead},
				{Address: "n4", Name: "n4", State: topology.PeerUnknown}, {Address: "10.0.0.5", Name: "n5", State: topology.PeerConnected}}
		}), want: but(), says: []string{"DEGRADED: it has no connection to n2 (10.0.0.2), 10.0.0.3, and perhaps none to n4"}, not: "n5"},
		{name: "a domain that is degraded, and lacks no connection", spoil: host(func(l *topology.IMEX) { l.DomainState = "DEGRADED" }), want: n1(ReasonReady),
			says: []string{"DEGRADED, although this node is connected to each of its nodes"}},
		{name: "a domain that is up, and lacks a connection", spoil: host(func(l *topology.IMEX) {
			l.Peers = []topology.IMEXPeer{{Address: "10.0.0.2", State: topology.PeerDead}}
		}), want: but(), says: []string{"UP: it has no connection to 10.0.0.2"}},
		{name: "a list with the nodes of two racks", spoil: lists(18, 36, DaemonReady), want: but(), says: []string{"READY, but nodes_config.cfg has 36 nodes, and NVLink joins at most 18 such nodes", "quoin imex nodes-config"}},
		{name: "a list with the nodes of two racks, and the service waits for them", spoil: lists(18, 36, "WAITING_FOR_PEERS"), want: n1(ReasonNotReady), says: []string{"WAITING_FOR_PEERS, and nodes_config.cfg has 36 nodes", "quoin imex nodes-config"}},
		{name: "a list with the nodes of one rack", spoil: lists(18, 18, DaemonReady), want: n1(ReasonReady)},
		{name: "a product of which nothing is known", spoil: lists(0, 36, DaemonReady), want: n1(ReasonReady)},
		{name: "no channels in the driver", spoil: host(func(l *topology.IMEX) { l.ChannelMajor = nil }), want: n1(ReasonFabricNotReady)},
		{name: "no report", spoil: func(s *Observation) {
			host(func(*topology.IMEX) {})(s)
			s.node("n1", func(n *Node) { n.Local = nil })
		}, want: n1(ReasonUnknown), says: []string{"agent"}},
		{name: "labels, entries and claims of a driver that started daemons before", spoil: func(s *Observation) {
			s.Join = JoinHost
			for _, name := range []string{"n0", "n1", "n2", "n3"} {
				s.local(name, func(l *topology.IMEX) { l.HostService = true })
			}
			s.entry(1, func(m *Member) { m.Ready = false })
		}},
		{name: "no driver, and the service of one node runs", spoil: func(s *Observation) {
			host(func(*topology.IMEX) {})(s)
			s.Domain.Problem = topology.Finding{Reason: ReasonNoDriver, Message: "no driver", Remedy: "none"}
			for _, name := range []string{"n0", "n2", "n3"} {
				s.local(name, func(l *topology.IMEX) { l.HostService = false })
			}
		}, want: map[string]words{"n1": verdict(ReasonReady)}, others: verdict(ReasonNoDriver)},
	})
}
