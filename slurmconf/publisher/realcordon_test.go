package publisher

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/testdata/rig/kuberig"
)

// TestRealSetCordon cordons a Node that other people write too.
func TestRealSetCordon(t *testing.T) {
	c := kuberig.StartTest(t)
	r := &publicationRig{t: t, client: c.Client()}
	r.addNode(0)
	store := NewKubeStore(c.Client(), "default", "", complete(t, Publication{Namespace: "default"}), slog.New(slog.DiscardHandler))
	store.WatchCordons()
	inBackground(t, store.Run)
	admin := func(patch string) {
		t.Helper()
		if _, err := r.client.CoreV1().Nodes().Patch(t.Context(), "n00", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// seen waits until the store shows a cordon, and has woken for it.
	seen := func(want Cordon) *Node {
		t.Helper()
		for end := time.After(40 * time.Second); ; {
			snap, err := store.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(snap.Nodes) == 1 && snap.Nodes[0].Cordon == want {
				return &snap.Nodes[0]
			}
			select {
			case <-store.Changes():
			case <-end:
				t.Fatalf("the store has %+v and not %+v", snap.Nodes, want)
			}
		}
	}
	ours := Cordon{true, "quoin: NotReady: x"}
	free := seen(Cordon{})
	if err := store.SetCordon(t.Context(), free, ours); err != nil {
		t.Fatal(err)
	}
	cordoned := seen(ours)
	admin(`{"metadata":{"annotations":{"` + CordonAnnotation + `":"disk failed"}}}`)
	for name, n := range map[string]*Node{"before it was cordoned": free, "before another's reason": cordoned} {
		if err := store.SetCordon(t.Context(), n, Cordon{}); !errors.Is(err, ErrNodeChanged) {
			t.Errorf("uncordoned as it was %s: %v", name, err)
		}
	}
	theirs := seen(Cordon{true, "disk failed"})
	admin(`{"metadata":{"annotations":{"theirs":"stays"}},"spec":{"unschedulable":null}}`)
	if err := store.SetCordon(t.Context(), theirs, ours); !errors.Is(err, ErrNodeChanged) {
		t.Errorf("cordoned over another's change: %v", err)
	}
	if err := store.SetCordon(t.Context(), seen(Cordon{false, "disk failed"}), Cordon{}); err != nil {
		t.Fatal(err)
	}
	gone := seen(Cordon{})
	n, err := r.client.CoreV1().Nodes().Get(t.Context(), "n00", metav1.GetOptions{})
	if err != nil || n.Annotations["theirs"] != "stays" || len(n.Annotations) != 1 || n.Spec.Unschedulable {
		t.Errorf("in the end the Node has %v, %+v, %v", n.Annotations, n.Spec, err)
	}
	if err := r.client.CoreV1().Nodes().Delete(t.Context(), "n00", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := store.SetCordon(t.Context(), gone, ours); err != nil {
		t.Errorf("a Node that is gone: %v", err)
	}
}
