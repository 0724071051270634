package publisher

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/imex"
)

// TestCordonIdle has a node that is cordoned lose what could be wrong with it: that it
// is well again nobody has seen.
func TestCordonIdle(t *testing.T) {
	const minute = time.Minute
	tests := []struct {
		name     string
		verdicts []string // each for a minute
		cordoned bool
	}{
		{"well", []string{imex.ReasonReady, imex.ReasonReady}, false},
		{"its worker pod is evicted", []string{imex.ReasonNoWorkerPod, imex.ReasonNoWorkerPod, imex.ReasonNoWorkerPod}, true},
		{"its worker pod waits", []string{imex.ReasonNotClaimed, imex.ReasonClaimWaits, imex.ReasonClaimUnused}, true},
		{"and is bad again", []string{imex.ReasonNoWorkerPod, imex.ReasonNoWorkerPod, imex.ReasonNotReady, imex.ReasonNoWorkerPod, imex.ReasonNoWorkerPod, imex.ReasonNoWorkerPod}, true},
		{"it has none for long", []string{imex.ReasonNoWorkerPod, imex.ReasonNotClaimed, imex.ReasonNoWorkerPod, imex.ReasonNoWorkerPod, imex.ReasonNoWorkerPod, imex.ReasonNoWorkerPod}, false},
		{"the CRD goes and comes", []string{imex.ReasonNoCRD, imex.ReasonNoCRD, imex.ReasonNotReady, imex.ReasonNotReady}, true},
		{"the CRD is gone", []string{imex.ReasonNoCRD, imex.ReasonNoCRD, imex.ReasonNoCRD, imex.ReasonNoCRD, imex.ReasonNoCRD, imex.ReasonNoCRD}, false},
		{"the domain is gone", []string{imex.ReasonNoDomain, imex.ReasonNoDomain, imex.ReasonNoDomain, imex.ReasonNoDomain, imex.ReasonNoDomain, imex.ReasonNoDomain}, true},
		{"its GPUs are gone", []string{"", "", "", "", "", "", ""}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := &cordonStore{memory: newMemory(&Snapshot{Nodes: []Node{{Name: "a", Version: "1", Cordon: Cordon{true, "quoin: NotReady: x"}}}})}
			p := newPublisher(store, nil)
			p.KeepConditions(store)
			p.KeepCordons(store, CordonConfig{After: 5 * minute, Join: imex.JoinSlurmd})
			var said bytes.Buffer
			p.log = slog.New(slog.NewTextHandler(&said, nil))
			for i, reason := range append([]string{imex.ReasonNotReady}, tt.verdicts...) {
				verdicts := map[string]imex.Verdict{}
				if reason != "" {
					verdicts["a"] = imex.Verdict{Node: "a", Reason: reason}
				}
				p.keepCordons(t.Context(), store.snap, verdicts, noon.Add(time.Duration(i)*minute))
			}
			if got := len(store.ours()) == 1; got != tt.cordoned {
				t.Errorf("cordoned %t, want %t", got, tt.cordoned)
			}
			want := 0
			if tt.verdicts[0] == "" {
				want = 1
			}
			if n := strings.Count(said.String(), "stays cordoned"); n != want {
				t.Errorf("said %d times that it stays so, want %d:\n%s", n, want, &said)
			}
		})
	}
}

// TestCordonTenth has one rack stand beside ten times as many nodes that join no domain.
func TestCordonTenth(t *testing.T) {
	store := &cordonStore{memory: newMemory(&Snapshot{})}
	verdicts := map[string]imex.Verdict{}
	for i := range 218 {
		reason := imex.ReasonNotReady
		if i >= 18 {
			reason = []string{imex.ReasonNoMultiNodeNVLink, imex.ReasonNotWanted}[i%2]
		}
		name := fmt.Sprintf("n%03d", i)
		verdicts[name] = imex.Verdict{Node: name, Reason: reason}
		store.snap.Nodes = append(store.snap.Nodes, Node{Name: name, Version: "1"})
	}
	p := newPublisher(store, nil)
	p.KeepConditions(store)
	p.KeepCordons(store, CordonConfig{After: time.Minute, Join: imex.JoinHolder})
	for i := range 3 {
		p.keepCordons(t.Context(), store.snap, verdicts, noon.Add(time.Duration(i)*time.Minute))
	}
	if got, held := len(store.ours()), testutil.ToFloat64(p.metrics.heldBack); got != 1 || held != 17 {
		t.Errorf("of a rack of 18 nodes %d are cordoned and %v held back, want 1 and 17", got, held)
	}
}
