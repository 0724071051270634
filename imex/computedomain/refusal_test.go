package computedomain

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r refusal
		var again []time.Duration
		for range 6 {
			began := time.Now()
			woken := make(chan struct{})
			r.begin(topology.Problem{Reason: "R"}, func() { close(woken) })
			if !r.stands() {
				t.Error("does not stand")
			}
			<-woken
			synctest.Wait()
			again = append(again, time.Since(began))
			if r.stands() || r.why().Reason != "R" {
				t.Errorf("after its time it stands %v and says %v", r.stands(), r.why())
			}
		}
		for i, want := range []time.Duration{1, 2, 4, 8, 15, 15} {
			if again[i] != want*time.Minute {
				t.Errorf("tried again after %v, want %d minutes", again[i], want)
			}
		}
		if r.end(); r.stands() || r.why().Reason != "" {
			t.Error("stands after its end")
		}
	})
}
