package nodeagent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

const gateClique = "8a61c302-0000-4000-8000-000000000001.7"

// membersOfOne is a node's membership that a test changes by hand.
type membersOfOne struct {
	mu      sync.Mutex
	changes chan struct{}
	seen    imex.Observation
	broken  error
	nvml    string
}

func (m *membersOfOne) Changes() <-chan struct{} { return m.changes }

func (m *membersOfOne) Snapshot() (*imex.Observation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.seen
	return &seen, m.broken
}

func (m *membersOfOne) SetClique(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nvml = id
}

func (m *membersOfOne) edit(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	again.Notify(m.changes)
}

// readySeries is what testdata/site.series of the manifests has too.
const readySeries = `
# HELP quoin_agent_imex_ready 1 if jobs across nodes may use IMEX on this node, 0 if not. Absent without multi-node NVLink, or if not known.
# TYPE quoin_agent_imex_ready gauge
quoin_agent_imex_ready{clique="` + gateClique + `",reason="Ready"} 1
`

// TestGate writes what is known of the node, confirms it, and lets it go stale
// while nothing is.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := &membersOfOne{changes: make(chan struct{}, 1), seen: imex.Observation{Join: imex.JoinHolder, ClaimsUnread: true,
			Nodes: map[string]imex.Node{"n1": {Name: "n1", DomainLabel: "u1"}},
			Cliques: []imex.Clique{{Domain: "u1", ID: gateClique, Daemons: []imex.Member{
				{Node: "n1", Address: "10.0.0.1", Clique: gateClique, Index: 0, Ready: true}, {Node: "n2", Address: "10.0.0.2", Clique: gateClique, Index: 1}}}}}}
		run := t.TempDir()
		reg := prometheus.NewRegistry()
		reports := make(chan *topology.Node, 1)
		g := NewGate("n1", "b1", rundir.Dir(run), m, new(fabric.Site).Alone, reports, reg, discard())
		var running sync.WaitGroup
		running.Go(func() { _ = g.Run(ctx) })
		nobodyKnows := gate.State{Node: "n1", Reason: imex.ReasonUnknown}
		check := func(what string, want *gate.State) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			got, _, err := gate.Read(run)
			if want == nil {
				if err == nil {
					t.Errorf("%s: %+v, want none", what, got)
				}
				return
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(gate.State{}, "APIVersion", "Kind", "BootID", "Message", "Remedy")); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
			}
		}
		check("before the first report", nil)
		clique, err := topology.ParseClique(gateClique)
		if err != nil {
			t.Fatal(err)
		}
		major := 235
		report := &topology.Node{Name: "n1", GPUs: []topology.GPU{{UUID: "GPU-a"}}, Domain: topology.NVLinkDomain{Clique: clique}, IMEX: &topology.IMEX{ChannelMajor: &major, Channels: 2048}}
		reports <- report
		members := []gate.Member{{Node: "n1", Ready: true}, {Node: "n2"}}
		check("ready", &gate.State{Node: "n1", Clique: gateClique, Ready: true, Reason: imex.ReasonReady, Members: members})
		if err := testutil.GatherAndCompare(reg, strings.NewReader(readySeries), "quoin_agent_imex_ready"); err != nil {
			t.Error(err)
		}
		if m.nvml != gateClique {
			t.Errorf("NVML's clique is told as %q", m.nvml)
		}
		m.edit(func() { m.seen.Nodes = map[string]imex.Node{"n1": {Name: "n1"}} })
		check("without the label", &gate.State{Node: "n1", Clique: gateClique, Reason: imex.ReasonNotClaimed})
		reports <- &topology.Node{Name: "n1", GPUs: report.GPUs, Domain: topology.NVLinkDomain{None: true}}
		check("no multi-node NVLink", &gate.State{Node: "n1", Reason: imex.ReasonNoMultiNodeNVLink})
		if m.nvml != "" {
			t.Errorf("NVML's clique is told as %q", m.nvml)
		}
		m.edit(func() { m.seen.Domain.Problem.Reason = imex.ReasonNoDriver })
		reports <- report
		check("no ComputeDomains", &gate.State{Node: "n1", Reason: imex.ReasonNoDriver})
		m.edit(func() { m.seen.Domain.Problem.Reason = "" })
		m.edit(func() { m.seen.Join = imex.JoinNone })
		reports <- report
		check("nobody joins", &gate.State{Node: "n1", Reason: imex.ReasonNotWanted})

		m.edit(func() { m.seen.Join = imex.JoinHost })
		service := *report
		peers := []topology.IMEXPeer{{Address: "10.0.0.2", State: topology.PeerDead}, {Address: "10.0.0.3", Name: "n3", State: topology.PeerUnknown}}
		service.IMEX = &topology.IMEX{ChannelMajor: &major, HostService: true, DaemonState: "READY", DomainState: "DEGRADED", Peers: peers}
		reports <- &service
		check("its own service serves", &gate.State{Node: "n1", Clique: gateClique, Ready: true, Reason: imex.ReasonReady, Peers: peers})
		service.IMEX = &topology.IMEX{ChannelMajor: &major, HostService: true, DaemonState: "READY"}
		mute := service
		reports <- &mute
		check("its own service does not tell its peers", &gate.State{Node: "n1", Clique: gateClique, Ready: true, Reason: imex.ReasonReady, PeersUnknown: peersUnknown})
		waits := *report
		waits.IMEX = &topology.IMEX{ChannelMajor: &major, HostService: true, DaemonState: "WAITING_FOR_PEERS"}
		reports <- &waits
		check("its own service is not ready", &gate.State{Node: "n1", Clique: gateClique, Reason: imex.ReasonNotReady})
		m.edit(func() { m.seen.Join, m.seen.Nodes = imex.JoinSlurmd, nil })
		reports <- report
		check("no worker pod is here", &gate.State{Node: "n1", Reason: imex.ReasonNotClaimed})
		unknown := &topology.Node{Name: "n1", GPUs: report.GPUs}
		m.edit(func() {
			m.seen.Join, m.seen.Nodes = imex.JoinHolder, map[string]imex.Node{"n1": {Name: "n1", CliqueLabel: gateClique}}
		})
		reports <- unknown
		check("NVML does not say it yet, the label does", &gate.State{Node: "n1", Clique: gateClique, Reason: imex.ReasonNotClaimed})
		m.edit(func() { m.broken = errors.New("not listed") })
		reports <- &topology.Node{Name: "n1", GPUs: report.GPUs, Domain: topology.NVLinkDomain{None: true}}
		check("no multi-node NVLink, whatever is known else", &gate.State{Node: "n1", Reason: imex.ReasonNoMultiNodeNVLink})
		m.edit(func() { m.broken, m.seen.Nodes = nil, nil })
		reports <- unknown
		check("nobody says for a moment whether there is a clique", &gate.State{Node: "n1", Reason: imex.ReasonNoMultiNodeNVLink})
		time.Sleep(lostFor)
		check("nobody says for long whether there is a clique", &nobodyKnows)
		reports <- report
		check("NVML says it", &gate.State{Node: "n1", Clique: gateClique, Reason: imex.ReasonNotClaimed})

		m.edit(func() {
			m.seen.Nodes = map[string]imex.Node{"n1": {Name: "n1", DomainLabel: "u1"}}
			m.seen.Cliques = nil
		})
		starting := *report
		starting.IMEX = &topology.IMEX{ChannelMajor: &major, Channels: 2048, DaemonState: "INITIALIZING"}
		reports <- &starting
		check("its clique is yet to be made", &gate.State{Node: "n1", Clique: gateClique, Reason: imex.ReasonNotRegistered})
		ready := *report
		ready.IMEX = &topology.IMEX{ChannelMajor: &major, Channels: 2048, DaemonState: "READY"}
		for _, unknown := range []*topology.Node{&ready, report} { // with a daemon that says READY, and with one that nobody can ask
			reports <- unknown
			time.Sleep(lostFor)
			check("the driver has no cliques", &nobodyKnows)
		}
		m.edit(func() { m.seen.Cliques = []imex.Clique{{Domain: "u2", ID: "another.1"}} })
		reports <- report
		check("other nodes have cliques", &gate.State{Node: "n1", Clique: gateClique, Reason: imex.ReasonNotRegistered})
		m.edit(func() { m.seen.Cliques = nil })
		reports <- &starting
		check("its daemon says that it is not ready", &gate.State{Node: "n1", Clique: gateClique, Reason: imex.ReasonNotRegistered})

		m.edit(func() {
			m.seen.Cliques = []imex.Clique{{Domain: "u1", ID: gateClique, Daemons: []imex.Member{{Node: "n1", Address: "10.0.0.1"}}}}
		})
		behind := gate.State{Node: "n1", Clique: gateClique, Reason: imex.ReasonNotReady, Members: []gate.Member{{Node: "n1"}}}
		reports <- &ready
		check("its entry is behind", &behind)
		time.Sleep(10 * time.Second)
		behind.Ready = true
		check("its entry is behind for long", &behind)
		reports <- &starting
		check("its daemon starts again", &gate.State{Node: "n1", Clique: gateClique, Reason: imex.ReasonNotReady, Members: behind.Members})
		reports <- &ready
		behind.Ready = false
		check("its entry is behind again", &behind)

		others := []imex.Member{{Node: "n2", Address: "10.0.0.2", Index: 1, Ready: true}}
		for what, want := range map[string]gate.State{
			"it has no entry":                      {Reason: imex.ReasonNotRegistered, Members: []gate.Member{{Node: "n2", Ready: true}}},
			"another node's entry has its address": {Reason: imex.ReasonConflict, Members: []gate.Member{{Node: "n1"}, {Node: "n2", Ready: true}}},
		} {
			m.edit(func() {
				m.seen.Cliques = []imex.Clique{{Domain: "u1", ID: gateClique, Daemons: others}}
				if len(want.Members) > 1 {
					m.seen.Cliques[0].Daemons = append([]imex.Member{{Node: "n1", Address: "10.0.0.2"}}, others...)
				}
			})
			time.Sleep(time.Hour)
			want.Node, want.Clique = "n1", gateClique
			check(what, &want)
		}
		m.edit(func() { m.seen.Cliques[0].Daemons = []imex.Member{{Node: "n1", Address: "10.0.0.1"}} })
		check("its entry is behind again, for a moment", &behind)

		m.edit(func() { m.broken = errors.New("not listed") })
		check("nothing is known for a moment", &behind)
		time.Sleep(time.Hour)
		check("nothing is known", &nobodyKnows)
		stale := ready
		stale.Problems = []topology.Finding{{Reason: topology.ReasonFactsStale, Message: "the probe hangs"}}
		m.edit(func() { m.broken, m.seen.Join = nil, imex.JoinHost })
		reports <- &stale
		time.Sleep(lostFor)
		check("what the service said is old", &nobodyKnows)
		m.edit(func() { m.seen.Join = imex.JoinHolder })
		reports <- &ready
		for range 10 { // a look at any time finds it fresh
			time.Sleep(gate.Stale / 3)
			synctest.Wait()
			if _, at, err := gate.Read(run); err != nil || time.Since(at) > gate.Stale/3 {
				t.Errorf("%s old, %v", time.Since(at), err)
			}
		}
		cancel()
		running.Wait()
	})
}

// TestGateFabric has the gate shut where GPUs should be in a clique and are not, whatever the reason, and open
// where there is nothing to wait for.
func TestGateFabric(t *testing.T) {
	clique, err := topology.ParseClique(gateClique)
	if err != nil {
		t.Fatal(err)
	}
	const gb200, h100 = "NVIDIA GB200", "NVIDIA H100 80GB HBM3"
	joined := topology.Fabric{State: topology.FabricCompleted, ClusterUUID: clique.ClusterUUID, CliqueID: clique.ID}
	failed := topology.Fabric{State: topology.FabricCompleted, Status: "ERROR_UNKNOWN"}
	none := topology.Fabric{State: topology.FabricNotSupported}
	for _, tt := range []struct {
		name    string
		product string
		fabric  topology.Fabric
		earlier topology.Clique
		listed  int
		want    gate.State
		says    string
	}{
		{"in progress", gb200, topology.Fabric{State: topology.FabricInProgress}, clique, 1, gate.State{Clique: gateClique, Reason: imex.ReasonFabricNotReady}, "in progress. What to do: wait while"},
		{"in progress in the first boot", gb200, topology.Fabric{State: topology.FabricInProgress}, topology.Clique{}, 1, gate.State{Clique: cliqueUnknown, Reason: imex.ReasonFabricNotReady}, "in progress. What to do: wait while"},
		{"failed", gb200, failed, clique, 1, gate.State{Clique: gateClique, Reason: imex.ReasonFabricNotReady}, "failed with ERROR_UNKNOWN. What to do: the registration failed, so waiting does not help"},
		{"not supported, and a clique before", gb200, none, clique, 1, gate.State{Clique: gateClique, Reason: imex.ReasonFabricNotReady}, "none of its 1 GPUs has an NVLink fabric"},
		{"not supported, and peers", gb200, none, topology.Clique{}, 2, gate.State{Clique: cliqueUnknown, Reason: imex.ReasonFabricNotReady}, "nodes_config.cfg"},
		{"an NVL4 board", gb200, none, topology.Clique{}, 1, gate.State{Reason: imex.ReasonNoMultiNodeNVLink}, ""},
		{"H100 with a clique", h100, joined, topology.Clique{}, 1, gate.State{Reason: imex.ReasonNoMultiNodeNVLink}, ""},
		{"H100 with FABRIC_MODE=1", h100, topology.Fabric{State: topology.FabricInProgress}, topology.Clique{}, 1, gate.State{Reason: imex.ReasonNoMultiNodeNVLink}, ""},
	} {
		major := 235
		m := &membersOfOne{seen: imex.Observation{Join: imex.JoinHost}}
		g := NewGate("n1", "", rundir.Dir(t.TempDir()), m, new(fabric.Site).Alone, nil, prometheus.NewRegistry(), discard())
		g.report = &topology.Node{Name: "n1", EarlierClique: tt.earlier, GPUs: []topology.GPU{{UUID: "GPU-a", Product: tt.product, Fabric: tt.fabric}}, IMEXNodes: &tt.listed,
			IMEX: &topology.IMEX{ChannelMajor: &major, HostService: true, DaemonState: "READY"}}
		got, err := g.state()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		tt.want.Node = "n1"
		if diff := cmp.Diff(&tt.want, got, cmpopts.IgnoreFields(gate.State{}, "Message", "Remedy")); diff != "" || !strings.Contains(got.Message+". What to do: "+got.Remedy, tt.says) {
			t.Errorf("%s: %s (-want +got):\n%s", tt.name, got.Message, diff)
		}
	}
}
