package publisher

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
)

// apply has somebody write parts of a Node.
func (r *publicationRig) apply(manager string, node map[string]any, subresources ...string) {
	r.t.Helper()
	node["apiVersion"], node["kind"] = "v1", "Node"
	data, err := json.Marshal(node)
	if err == nil {
		_, err = r.client.CoreV1().Nodes().Patch(r.t.Context(), "n00", types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: manager}, subresources...)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestRealConditions reads Nodes as people and other programs do, while the
// fabric of one of their GPUs changes and another program owns its annotation.
func TestRealConditions(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	defineReports(t, c)
	reports := reportClient(t, c.Config())
	r := &publicationRig{t: t, client: c.Client()}
	r.addNode(0)
	r.addNode(1)
	kubelet := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}
	for _, name := range []string{"n00", "n01"} {
		n, err := r.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Status.Conditions = append(n.Status.Conditions, kubelet)
		if _, err := r.client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	clique, err := topology.ParseClique("8a61c302-0000-4000-8000-000000000001.0") // as addNode labels it
	if err != nil {
		t.Fatal(err)
	}
	report := func(change func(*topology.Fabric)) {
		t.Helper()
		n := &topology.Node{Name: "n00"}
		n.GPUs = []topology.GPU{{UUID: "GPU-a", Fabric: topology.Fabric{ClusterUUID: clique.ClusterUUID, State: topology.FabricCompleted, Health: topology.HealthHealthy}}}
		if change != nil {
			change(&n.GPUs[0].Fabric)
		}
		text, err := topology.EncodeReport(n)
		if err != nil {
			t.Fatal(err)
		}
		meta := metav1.ObjectMeta{Name: "n00"}
		stored, err := reports.Get(t.Context(), "n00")
		if err != nil {
			t.Fatal(err)
		}
		if stored != nil {
			meta.ResourceVersion = stored.ResourceVersion
		}
		err = reports.Put(t.Context(), text, meta, "test")
		if err != nil {
			t.Fatal(err)
		}
	}
	report(nil)
	r.apply("topograph", map[string]any{"metadata": map[string]any{"name": "n00", "annotations": map[string]string{plandoc.SpecAnnotation: "default:theirs"}}})
	// As the leader before left it: without that it would be said after minutes.
	const places = "its annotation topology.slinky.slurm.net/spec says default:theirs, the published files say nvl:nvl-8a61c302-0"
	r.apply("quoin-publisher", map[string]any{"metadata": map[string]any{"name": "n00"}, "status": map[string]any{"conditions": []any{
		map[string]any{"type": nodestatus.ConditionDrift, "status": "True", "reason": nodestatus.ReasonAnnotationDiffers, "message": places + ": as it was"},
	}}}, "status")
	ms := Duration{Duration: time.Millisecond}
	pubs := confirmAfter(ms.Duration, complete(t, Publication{Namespace: "default", SettleTime: ms, LoadTimeout: ms, RemoveAfter: ms}))
	store := kube.New(c.Client(), setClient(t, c.Config()), reports, "default", pubs, slog.New(slog.DiscardHandler))
	pub := newPublisher(store, pubs)
	pub.options.Conditions = store
	inBackground(t, store.Run, pub.Run)

	until := func(what, kind string, is func(corev1.NodeCondition) bool) corev1.NodeCondition {
		t.Helper()
		var n *corev1.Node
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			var err error
			if n, err = r.client.CoreV1().Nodes().Get(t.Context(), "n00", metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, c := range n.Status.Conditions {
				if string(c.Type) == kind && is(c) {
					return c
				}
			}
		}
		t.Fatalf("%s: not within 3 minutes: %+v", what, n.Status.Conditions)
		return corev1.NodeCondition{}
	}
	well := until("well", nodestatus.ConditionFabric, func(c corev1.NodeCondition) bool {
		return c.Status == corev1.ConditionFalse && c.Reason == "FabricHealthy"
	})
	report(func(f *topology.Fabric) { f.Health = topology.HealthLimitedCapacity })
	limited := until("limited", nodestatus.ConditionFabric, func(c corev1.NodeCondition) bool {
		return c.Status == corev1.ConditionTrue && c.Reason == "FabricLimitedCapacity"
	})
	report(func(f *topology.Fabric) { f.Health = topology.HealthUnhealthy })
	worse := until("unhealthy", nodestatus.ConditionFabric, func(c corev1.NodeCondition) bool { return c.Reason == "FabricUnhealthy" })
	if well.LastTransitionTime.IsZero() || !well.LastTransitionTime.Before(&limited.LastTransitionTime) || !worse.LastTransitionTime.Equal(&limited.LastTransitionTime) {
		t.Errorf("times of transition: %s, %s, %s: want a later second and that again", well.LastTransitionTime, limited.LastTransitionTime, worse.LastTransitionTime)
	}
	out, err := c.Kubectl(t.Context(), "describe", "node", "n00")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"KubeletReady", "QuoinTopologyDrift    True", "AnnotationDiffers", places + ": it cannot be written: ", `conflict with "topograph"`, "QuoinFabricDegraded   True", "GPU 0, GPU-a: its health is unhealthy"} {
		if !strings.Contains(out, want) {
			t.Errorf("kubectl describe node does not say %q:\n%s", want, out)
		}
	}
	r.apply("topograph", map[string]any{"metadata": map[string]any{"name": "n00"}}) // gives it up
	until("annotated", nodestatus.ConditionDrift, func(c corev1.NodeCondition) bool { return c.Status == corev1.ConditionFalse && c.Reason == "Agrees" })
	other, err := r.client.CoreV1().Nodes().Get(t.Context(), "n01", metav1.GetOptions{})
	if err != nil || len(other.Status.Conditions) != 1 {
		t.Errorf("the node of which nothing is known has conditions %+v, %v", other.Status.Conditions, err)
	}
}
