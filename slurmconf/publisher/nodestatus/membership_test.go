package nodestatus

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

func TestMembers(t *testing.T) {
	const clique = "8a61c302-0000-4000-8000-000000000001.7"
	parsed, err := topology.ParseClique(clique)
	if err != nil {
		t.Fatal(err)
	}
	inClique := &topology.Node{Name: "n", GPUs: []topology.GPU{{}}, Domain: topology.NVLinkDomain{Clique: parsed}, IMEX: &topology.IMEX{Channels: 1}}
	tests := []struct {
		name   string
		node   inputs.Node
		report *topology.Node
		want   imex.Node
	}{
		{"of which nothing is known", inputs.Node{GPUs: 4}, nil, imex.Node{}},
		{"by labels", inputs.Node{Labels: map[string]string{nodelabels.Count: "4", topology.CliqueLabel: clique}}, nil, imex.Node{GPUs: true, CliqueLabel: clique}},
		{"by its capacity, labelled by the driver", inputs.Node{GPUs: 4, Labels: map[string]string{imex.DomainLabel: "u1"}}, nil, imex.Node{GPUs: true, DomainLabel: "u1"}},
		{"without GPUs, with a clique's label", inputs.Node{Labels: map[string]string{topology.CliqueLabel: clique}}, nil, imex.Node{CliqueLabel: clique}},
		{"by its report", inputs.Node{}, inClique, imex.Node{GPUs: true, Fabric: imex.FabricClique, Clique: clique, Local: inClique.IMEX}},
		{"whose GPUs register", inputs.Node{}, &topology.Node{Name: "n", GPUs: []topology.GPU{{Fabric: topology.Fabric{State: topology.FabricInProgress}}}, EarlierClique: parsed},
			imex.Node{GPUs: true, Fabric: imex.FabricNotReady, Clique: clique}},
		{"whose GPUs have not said", inputs.Node{}, &topology.Node{Name: "n", GPUs: []topology.GPU{{}}}, imex.Node{GPUs: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.node.Name, tt.want.Name = "n", "n"
			snap := &inputs.Snapshot{Nodes: []inputs.Node{tt.node}, Reports: map[string]*topology.Node{"n": tt.report}}
			got := Members(snap, Fabrics(snap, new(fabric.Site)))
			if diff := cmp.Diff(map[string]imex.Node{"n": tt.want}, got, cmpopts.IgnoreFields(imex.Node{}, "Why")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestMembershipConditions brings the verdicts on membership onto the Nodes.
func TestMembershipConditions(t *testing.T) {
	d := &domain{domain: imex.Domain{Namespace: "quoin-system", Name: "quoin", Problem: topology.Finding{Reason: imex.ReasonNoDriver, Message: "no driver"}}, seen: imex.Observation{Join: imex.JoinHolder}}
	s := newSite(72, d)
	n := &s.snap.Nodes[0]
	has := func(what, reason string, is bool, change func()) {
		t.Helper()
		s.change(t.Context(), change)
		if c := s.conditions[n.Name][ConditionIMEX]; c.Reason != reason || c.True != is {
			t.Errorf("%s: %+v, want %s, %t", what, c, reason, is)
		}
	}
	has("without the driver", imex.ReasonNoDriver, false, func() {})
	writes := s.writes
	has("another spec, which is said once and of the domain", imex.ReasonNoDriver, false, func() { d.domain.Problem.Reason = imex.DomainDiffers })
	if want := []string{"DomainDiffers true"}; s.writes != writes || !slices.Equal(d.events, want) {
		t.Errorf("%d writes and events %q, want none and %q", s.writes-writes, d.events, want)
	}
	if got := testutil.ToFloat64(s.metrics.members.WithLabelValues(imex.ReasonDomainProblem)); got != 72 {
		t.Errorf("%v nodes cannot join, want 72", got)
	}
	has("a member", imex.ReasonReady, false, func() {
		d.domain.UID, d.domain.Problem = "u1", topology.Finding{}
		clique := s.snap.Reports[n.Name].Domain.Clique.String()
		d.seen.Cliques = []imex.Clique{{Domain: "u1", ID: clique, Daemons: []imex.Member{{Node: n.Name, Address: "10.0.0.1", Clique: clique, Ready: true}}}}
		d.seen.Claims = []imex.Claim{{Namespace: "quoin-system", Name: "c", Domain: "u1", Node: n.Name, Owner: imex.OwnerHolder, Pods: []string{"quoin-system/p"}}}
		n.Labels = map[string]string{imex.DomainLabel: "u1"}
		major := 235
		s.snap.Reports[n.Name].IMEX = &topology.IMEX{ChannelMajor: &major, Channels: 2048, DaemonState: "READY"}
	})
	if other := s.conditions[s.snap.Nodes[1].Name][ConditionIMEX]; !other.True || other.Reason != imex.ReasonNotClaimed || !strings.Contains(other.Message, ". ") {
		t.Errorf("another node: %+v, want NotClaimed with a remedy", other)
	}
	if got := testutil.ToFloat64(s.metrics.members.WithLabelValues(imex.ReasonNotClaimed)); got != 71 {
		t.Errorf("%v nodes are not claimed, want 71", got)
	}
	writes = s.writes
	has("when nothing is known it stays", imex.ReasonReady, false, func() { d.broken = errors.New("not listed yet") })
	if s.writes != writes {
		t.Errorf("%d writes while nothing was known", s.writes-writes)
	}
	has("its daemon is not ready", imex.ReasonNotReady, true, func() {
		clique := d.seen.Cliques[0]
		clique.Daemons = slices.Clone(clique.Daemons)
		clique.Daemons[0].Ready = false
		d.broken, d.seen.Cliques = nil, []imex.Clique{clique}
	})
	ensured := d.ensured
	s.pass(t.Context(), 24*time.Hour)
	if d.ensured != ensured {
		t.Errorf("asked for the domain %d times in a day at rest", d.ensured-ensured)
	}
}

// TestDomainNote says once what is to be done about the domain, and once that it is done.
func TestDomainNote(t *testing.T) {
	d := &domain{domain: imex.Domain{Namespace: "quoin-node", Name: "quoin", UID: "u1"}, seen: imex.Observation{Join: imex.JoinHolder}}
	s := newSite(4, d)
	is := func(what string, note topology.Finding, begun, over int, series int) {
		t.Helper()
		d.domain.Note = note
		for range 2 {
			s.keeper.Touch(s.now)
			s.pass(t.Context(), time.Minute)
		}
		begins, ends := s.logged(`msg="ComputeDomain has a problem" `), s.logged(`msg="ComputeDomain no longer has a problem" `)
		if got := int(testutil.ToFloat64(s.metrics.domain.WithLabelValues("quoin-node", "quoin", "u1", imex.DomainOutdated))); begins != begun || ends != over || got != series {
			t.Errorf("%s: said %d times that it begins and %d that it is over, with %d series, want %d, %d and %d", what, begins, ends, got, begun, over, series)
		}
	}
	is("nothing", topology.Finding{}, 0, 0, 0)
	is("outdated", topology.Finding{Reason: imex.DomainOutdated, Message: "the image"}, 1, 0, 1)
	is("renewed", topology.Finding{}, 1, 1, 0)
}
