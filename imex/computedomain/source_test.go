package computedomain

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/topology"
)

func claimNamed(name, class string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: exactly(class)}}}
}

// TestSource holds what wakes and what is kept: nothing of what is of no
// interest.
func TestSource(t *testing.T) {
	woken := 0
	s := newSource(readClaim, func() { woken++ })
	steps := []struct {
		name  string
		do    func() error
		woken int
		kept  int
	}{
		{"first list", func() error {
			return s.Replace([]any{claimNamed("a", channelClass), claimNamed("b", "gpu.nvidia.com")}, "1")
		}, 1, 1},
		{"the same list again", func() error {
			return s.Replace([]any{claimNamed("b", "gpu.nvidia.com"), claimNamed("a", channelClass)}, "2")
		}, 0, 1},
		{"one of no interest comes", func() error { return s.Add(claimNamed("c", "gpu.nvidia.com")) }, 0, 1},
		{"and changes", func() error { return s.Update(claimNamed("c", "mig.nvidia.com")) }, 0, 1},
		{"and goes", func() error { return s.Delete(claimNamed("c", "mig.nvidia.com")) }, 0, 1},
		{"one of interest comes", func() error { return s.Add(claimNamed("d", channelClass)) }, 1, 2},
		{"and says nothing new", func() error { return s.Update(claimNamed("d", channelClass)) }, 0, 2},
		{"and is reserved", func() error {
			c := claimNamed("d", channelClass)
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Name: "p"}}
			return s.Update(c)
		}, 1, 2},
		{"and is of no interest any more", func() error { return s.Update(claimNamed("d", "gpu.nvidia.com")) }, 1, 1},
		{"all is forgotten", func() error { s.forget(); return nil }, 1, 0},
		{"a list slimmed before", func() error {
			slim, err := s.Transformer()(claimNamed("e", channelClass))
			if err != nil {
				return err
			}
			other, err := s.Transformer()(claimNamed("f", "gpu.nvidia.com"))
			return errors.Join(err, s.Replace([]any{slim, other}, "3"))
		}, 1, 1},
	}
	for _, step := range steps {
		woken = 0
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		kept, _ := s.all()
		if woken != step.woken || len(kept) != step.kept {
			t.Errorf("%s: woken %d times, want %d; kept %d, want %d", step.name, woken, step.woken, len(kept), step.kept)
		}
	}
}

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
