package publisher

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/logtext"
)

// scaleRig is a real API server with a NodeSet of 72 pods, and a publisher with the rights
// of the manifests.
type scaleRig struct {
	*slinkyRig
	store *kube.Store
	// sets are the NodeSets as an admin reads and writes them, and token as the publisher
	// does.
	sets, token dynamic.ResourceInterface
	second      func(log *slog.Logger) *kube.Store
}

// warnings is a log that a test reads.
type warnings struct{ logtext.Text }

// logger logs warnings and errors.
func (w *warnings) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// TestRealScaleIn scales a NodeSet in. The publisher starts before NodeSets are defined.
// Nodes whose pods it gave up leave after RemoveAfter, and nobody is asked.
func TestRealScaleIn(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	r := &scaleRig{slinkyRig: &slinkyRig{c, t}}
	defineReports(t, c)
	client, sets, reports := r.permit(slinkyValues)
	for n := range 72 {
		r.addNode(n)
		r.addWorker("a", fmt.Sprintf("gpu-%d", n), fmt.Sprintf("gpu-%02d", n), n)
	}
	ms := Duration{Duration: time.Millisecond}
	pubs := confirmAfter(500*time.Millisecond, complete(t, Publication{Name: "a", ConfigMap: "quoin-slurm", Namespace: "slurm", Nodes: Selection{Slinky: "a"}, Membership: "file", SettleTime: Duration{Duration: 500 * time.Millisecond},
		LoadTimeout: ms, RemoveAfter: Duration{Duration: 30 * time.Second}}))
	r.second = func(log *slog.Logger) *kube.Store { return kube.New(client, sets, reports, "quoin-system", pubs, log) }
	resource := schema.GroupVersionResource{Group: "slinky.slurm.net", Version: "v1beta1", Resource: "nodesets"}
	r.sets, r.token = setClient(t, c.Config()).Resource(resource).Namespace("slurm"), sets.Resource(resource).Namespace("slurm")
	var log warnings
	r.store = r.second(log.logger())
	inBackground(t, r.store.Run, newPublisher(r.store, pubs).Run)
	r.untilNodes(t, "published without NodeSets", 72)
	t.Run("defined later", r.defined)
	t.Run("rolling update", r.rolls)
	t.Run("scale-in", r.scalesIn)
	t.Run("scale-in to nothing", r.scalesToNothing)
	if text := log.String(); text != "" {
		t.Errorf("warnings:\n%s", text)
	}
	t.Run("no right", r.refused)
}

// untilNodes waits until so many nodes are in published blocks. No change may be held.
func (r *scaleRig) untilNodes(t *testing.T, what string, want int) {
	t.Helper()
	r.until(t, what, "quoin-slurm", func(cm *corev1.ConfigMap) bool {
		if held := cm.Annotations[plandoc.AnnotationHeldReason]; held != "" {
			t.Fatalf("%s: held %q", what, held)
		}
		p, err := slurmconf.ReadPlan("topology.yaml", []byte(cm.Data["topology.yaml"]))
		return err == nil && len(p.Places()) == want
	})
}

// untilSets waits until a store has so many NodeSets.
func untilSets(t *testing.T, store *kube.Store, want int) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		snap, err := store.Snapshot(t.Context())
		if err == nil && len(snap.NodeSets) == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the NodeSets are not %d within 3 minutes: %v", want, err)
		}
	}
}

func (r *scaleRig) defined(t *testing.T) {
	if err := r.Objects().Apply(t.Context(), "../../test/rig/kuberig/nodesets.yaml"); err != nil {
		t.Fatal(err)
	}
	set := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": map[string]any{"name": "gpu"},
		"spec": map[string]any{"controllerRef": map[string]any{"name": "a"}, "replicas": int64(72)}}}
	if _, err := r.sets.Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	untilSets(t, r.store, 1)
}

// rolls deletes 18 pods at once, which is more than maxChange, and makes them again.
func (r *scaleRig) rolls(t *testing.T) {
	writes := r.writes(t, func() {
		for n := range 18 {
			if err := r.RemovePod(t.Context(), "slurm", fmt.Sprintf("gpu-%d", n)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second) // longer than facts settle, and shorter than RemoveAfter
		for n := range 18 {
			r.addWorker("a", fmt.Sprintf("gpu-%d", n), fmt.Sprintf("gpu-%02d", n), n)
		}
	})
	if len(writes) > 0 {
		t.Errorf("written in a rolling update: %v", writes)
	}
}

// scale sets the replicas as the autoscaler does, and ends pods as the operator does.
func (r *scaleRig) scale(t *testing.T, replicas int, pods ...int) {
	t.Helper()
	if _, err := r.sets.Patch(t.Context(), "gpu", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	for _, n := range pods {
		if err := r.RemovePod(t.Context(), "slurm", fmt.Sprintf("gpu-%d", n)); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *scaleRig) scalesIn(t *testing.T) {
	var idle []int // Slinky chooses idle nodes, and not the last ones
	for n := 5; n < 35; n++ {
		idle = append(idle, n)
	}
	r.scale(t, 42, idle...)
	r.untilNodes(t, "scaled in", 42)
}

// scalesToNothing ends all pods. The last file stays.
func (r *scaleRig) scalesToNothing(t *testing.T) {
	var all []int
	for n := range 72 {
		if n < 5 || n >= 35 {
			all = append(all, n)
		}
	}
	r.scale(t, 0, all...)
	cm := r.until(t, "scaled in to nothing", "quoin-slurm", func(cm *corev1.ConfigMap) bool { return cm.Annotations[plandoc.AnnotationHeldReason] != "" })
	const want = "NothingToPublish: no node is in a block or switch: there is nothing to write; no node has a worker pod of nodes.slinky, which is a"
	if diff := cmp.Diff(want, cm.Annotations[plandoc.AnnotationHeldReason]); diff != "" {
		t.Errorf("held reason (-want +got):\n%s", diff)
	}
	if p, err := slurmconf.ReadPlan("topology.yaml", []byte(cm.Data["topology.yaml"])); err != nil || len(p.Places()) != 42 {
		t.Errorf("the last file does not stay: %v\n%s", err, cm.Data["topology.yaml"])
	}
}

// refused takes the rule for NodeSets from the publisher, and starts another.
func (r *scaleRig) refused(t *testing.T) {
	for _, role := range []string{"quoin-workers-a", "quoin-workers-b"} {
		if _, err := r.Client().RbacV1().Roles("slurm").Patch(t.Context(), role, types.JSONPatchType, []byte(`[{"op":"remove","path":"/rules/1"}]`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(await.Limit); ; time.Sleep(20 * time.Millisecond) {
		_, err := r.token.List(t.Context(), metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("NodeSets are still readable: %v", err)
		}
	}
	var log warnings
	second := r.second(log.logger())
	inBackground(t, second.Run)
	for end := time.Now().Add(await.Limit); !strings.Contains(log.String(), "NodeSets in") || !strings.Contains(log.String(), "Controllers in"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log does not say that NodeSets and Controllers are not readable:\n%s", log.String())
		}
	}
	untilSets(t, second, 0)
	const remedy = "the chart's Role quoin-workers-PUBLICATION gives it the right"
	if text := log.String(); strings.Count(text, "\n") != 2 || strings.Count(text, remedy) != 2 {
		t.Errorf("want one warning of each kind, with the remedy:\n%s", text)
	}
}
