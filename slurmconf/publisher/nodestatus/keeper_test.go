package nodestatus

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestKeepConditions writes each condition once, again when it changes, and goes on
// trying where it may not.
func TestKeepConditions(t *testing.T) {
	s := newSite(72, nil)
	const n = "n00004"
	fabric := &s.snap.Reports[n].GPUs[1].Fabric
	s.pass(t.Context(), time.Hour)
	if got := s.conditions[n]; len(s.conditions) != 72 || got[ConditionFabric].Reason != "FabricHealthy" || got[ConditionDrift].Reason != "Agrees" || s.writes != 72 {
		t.Fatalf("%d nodes with conditions by %d writes, %s has %+v", len(s.conditions), s.writes, n, got)
	}
	s.change(t.Context(), func() {
		fabric.Health = topology.HealthUnhealthy
		s.found(topology.Finding{Subject: topology.Subject{Node: n}, Reason: topology.ReasonLabelDiffers}, topology.Finding{Subject: topology.Subject{Node: "n00001"}, Reason: placement.ReasonNoDomain})
	})
	if got := s.conditions[n]; !got[ConditionFabric].True || got[ConditionDrift].Reason != topology.ReasonLabelDiffers || s.writes != 73 {
		t.Errorf("%d writes, %s has %+v", s.writes, n, got)
	}
	s.change(t.Context(), func() {
		s.refuses = errors.New("forbidden")
		fabric.Health = topology.HealthHealthy
	})
	if tries := s.writes - 73; tries < 8 || tries > 30 || !s.conditions[n][ConditionFabric].True || s.logged("node conditions not written") != 1 {
		t.Errorf("%d tries in an hour in which it was refused, the log says\n%s", tries, s.log.String())
	}
	s.refuses = nil
	s.pass(t.Context(), time.Hour)
	if s.conditions[n][ConditionFabric].True {
		t.Error("it was not written when it was allowed again")
	}
}

// TestFabricOfPass has a node that a pass has judged, and one that no pass has: the report of that one counts alone. A
// pass without a plan judges too. The verdict stays if a pass ends before it judges.
func TestFabricOfPass(t *testing.T) {
	s := newSite(2, nil)
	verdict := func(reason string) map[string]topology.FabricVerdict {
		return map[string]topology.FabricVerdict{"n00000": {Finding: &topology.Finding{Severity: topology.Warning, Reason: reason}}}
	}
	for _, tt := range []struct {
		name string
		pass Pass
		want string
	}{
		{"with a plan", Pass{Plan: &topology.Plan{}, Fabrics: verdict(topology.ReasonFabricMissing)}, topology.ReasonFabricMissing},
		{"without a plan", Pass{Fabrics: verdict(topology.ReasonUnhealthy)}, topology.ReasonUnhealthy},
		{"ended before", Pass{}, topology.ReasonUnhealthy},
	} {
		s.keeper.Found("default", &tt.pass, s.now)
		s.pass(t.Context(), time.Hour)
		got := []string{s.conditions["n00000"][ConditionFabric].Reason, s.conditions["n00001"][ConditionFabric].Reason}
		if diff := cmp.Diff([]string{tt.want, topology.ReasonFabricHealthy}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestTurns writes many Nodes in turns, and each once.
func TestTurns(t *testing.T) {
	const nodes = 4*NodesATurn + 50
	s := newSite(nodes, nil)
	if most := s.pass(t.Context(), time.Hour); s.writes != nodes || len(s.conditions) != nodes || most != NodesATurn {
		t.Errorf("%d nodes are written by %d writes, %d at most between two looks", len(s.conditions), s.writes, most)
	}
	s.change(t.Context(), func() {})
	if s.writes != nodes {
		t.Errorf("%d writes at rest", s.writes-nodes)
	}
}

// TestTurnsRefused tries few of many Nodes where none can be written.
func TestTurnsRefused(t *testing.T) {
	const nodes = 4 * NodesATurn
	s := newSite(nodes, nil)
	s.refuses = errors.New("forbidden")
	s.pass(t.Context(), 2*time.Hour)
	if most := NodesATurn + int(2*time.Hour/turnPause)*writers; s.writes < NodesATurn || s.writes > most {
		t.Errorf("%d tries in two hours, want at most %d for all nodes together", s.writes, most)
	}
	s.refuses = nil
	s.pass(t.Context(), time.Hour)
	if len(s.conditions) != nodes {
		t.Errorf("%d of %d nodes are written when they may be", len(s.conditions), nodes)
	}
}

// TestOneRefused lets a Node that can never be written keep no other waiting.
func TestOneRefused(t *testing.T) {
	s := newSite(72, nil)
	s.refuses, s.refused = errors.New("invalid"), "n00007"
	s.pass(t.Context(), time.Hour)
	const other = "n00004"
	fabric := &s.snap.Reports[other].GPUs[1].Fabric
	for range 20 {
		fabric.Health = topology.HealthUnhealthy
		if s.conditions[other][ConditionFabric].True {
			fabric.Health = topology.HealthHealthy
		}
		s.keeper.Touch(s.now)
		s.pass(t.Context(), 2*turnPause)
		if s.conditions[other][ConditionFabric].True != (fabric.Health == topology.HealthUnhealthy) {
			t.Fatalf("%s has %+v a minute after its fabric changed", other, s.conditions[other])
		}
	}
	if len(s.conditions) != 71 || s.logged("node conditions not written") > 20 {
		t.Errorf("%d nodes have conditions, the log says\n%s", len(s.conditions), s.log.String())
	}
}

// TestFirstPassesAreAwaited waits for each publication, and writes what it knows if one
// has no pass.
func TestFirstPassesAreAwaited(t *testing.T) {
	s := newSite(2, nil)
	s.keeper.options.Publications = 2
	s.pass(t.Context(), 50*time.Second)
	if s.writes != 0 {
		t.Errorf("%d writes before the first pass", s.writes)
	}
	s.pass(t.Context(), time.Minute)
	if got := s.conditions["n00001"]; s.writes != 2 || len(got) != 1 || got[ConditionFabric].Reason != "FabricHealthy" {
		t.Errorf("%d writes, a node has %+v, want no drift", s.writes, got)
	}
	s.change(t.Context(), func() { s.keeper.Found("other", passOf(), s.now) })
	if got := s.conditions["n00001"]; s.writes != 4 || got[ConditionDrift].Reason != "Agrees" {
		t.Errorf("%d writes, a node has %+v", s.writes, got)
	}
}
