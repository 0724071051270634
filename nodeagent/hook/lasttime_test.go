package hook

import (
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// TestLastTime: the last line of a call has what is left of the call's time, to
// which the gate does not count, and a moment where nothing is left.
func TestLastTime(t *testing.T) {
	for _, tt := range []struct {
		name           string
		ago, gate      time.Duration
		over           bool
		atLeast, under time.Duration
	}{
		{"quick", 0, 0, false, 1500 * time.Millisecond, 2001 * time.Millisecond},
		{"slow", time.Second, 0, false, 500 * time.Millisecond, 1001 * time.Millisecond},
		{"waited at the gate", 31 * time.Second, 30 * time.Second, false, 500 * time.Millisecond, 1001 * time.Millisecond},
		{"nothing left", 3 * time.Second, 0, false, lastGrace, lastGrace + 1},
		{"given up", 0, 0, true, lastGrace, lastGrace + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &hook{start: time.Now().Add(-tt.ago), wait: 2 * time.Second, over: tt.over, call: rundir.Call{GateNs: int64(tt.gate)}}
			if got := h.lastTime(); got < tt.atLeast || got >= tt.under {
				t.Errorf("%s, want %s to %s", got, tt.atLeast, tt.under)
			}
		})
	}
}
