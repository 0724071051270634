package publisher

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// TestRealPublication does to a published ConfigMap in a real API server what
// people and accidents do, while nothing else in the cluster changes.
func TestRealPublication(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	defineReports(t, c)
	ms := Duration{Duration: time.Millisecond}
	pubs := confirmAfter(time.Second, complete(t, Publication{Namespace: "default", SettleTime: Duration{Duration: time.Second}, LoadTimeout: ms, RemoveAfter: ms}))
	r := &publicationRig{t: t, client: c.Client()}
	for n := range 36 {
		r.addNode(n)
	}
	store := kube.New(c.Client(), setClient(t, c.Config()), reportClient(t, c.Config()), "default", pubs, slog.New(slog.DiscardHandler))
	inBackground(t, store.Run, newPublisher(store, pubs).Run)
	t.Run("first", r.first)
	t.Run("deleted", r.deleted)
	t.Run("edited", r.edited)
	t.Run("made unreadable", r.unreadable)
	t.Run("somebody else's", r.foreign)
	t.Run("held and approved", r.approved)
	t.Run("scaled in", r.scaledIn)
	t.Run("most bytes", r.mostBytes)
	t.Run("gres.conf alone", func(t *testing.T) { r.gresAlone(t, c) })
}

// defineReports has the API server know NodeReports.
func defineReports(t *testing.T, c *kuberig.Cluster) {
	t.Helper()
	if err := c.Objects().Apply(t.Context(), "../../manifests/plain/base/05-nodereports.yaml"); err != nil {
		t.Fatal(err)
	}
}

func reportClient(t *testing.T, rc *rest.Config) *nodereport.Client {
	t.Helper()
	client, err := nodereport.NewClient(rc)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func setClient(t *testing.T, rc *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type publicationRig struct {
	t      *testing.T
	client kubernetes.Interface
	text   string // of topology.yaml as first published
}

func (r *publicationRig) addNode(n int) {
	r.t.Helper()
	createNode(r.t, r.client, fmt.Sprintf("n%02d", n), n, nil)
}

// createNode creates the Node of a machine in racks of 18, which labels place.
func createNode(t *testing.T, client kubernetes.Interface, name string, n int, annotations map[string]string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations, Labels: map[string]string{
		topology.CliqueLabel: fmt.Sprintf("8a61c302-0000-4000-8000-000000000001.%d", n/18), nodelabels.Count: "4", nodelabels.Product: "NVIDIA-GB200",
	}}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// until waits for a state of the ConfigMap.
func (r *publicationRig) until(t *testing.T, what string, is func(*corev1.ConfigMap) bool) *corev1.ConfigMap {
	t.Helper()
	return untilConfigMap(t, r.client, "default", "quoin-slurm", what, is)
}

// untilConfigMap waits for a state of a ConfigMap.
func untilConfigMap(t *testing.T, client kubernetes.Interface, namespace, name, what string, is func(*corev1.ConfigMap) bool) *corev1.ConfigMap {
	t.Helper()
	var cm *corev1.ConfigMap
	await.Until(t, what, func() bool {
		var err error
		cm, err = client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && is(cm)
	}, func() string { return fmt.Sprintf("the ConfigMap is %+v", cm) })
	return cm
}

func (r *publicationRig) patch(t *testing.T, patch map[string]any) {
	t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.CoreV1().ConfigMaps("default").Patch(t.Context(), "quoin-slurm", types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (r *publicationRig) first(t *testing.T) {
	r.text = r.until(t, "published", func(cm *corev1.ConfigMap) bool {
		return strings.Contains(cm.Data["topology.yaml"], "n[00-17]") && strings.Contains(cm.Data["topology.yaml"], "n[18-35]")
	}).Data["topology.yaml"]
}

func (r *publicationRig) deleted(t *testing.T) {
	if err := r.client.CoreV1().ConfigMaps("default").Delete(t.Context(), "quoin-slurm", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.until(t, "published again", func(cm *corev1.ConfigMap) bool { return cm.Data["topology.yaml"] == r.text })
}

func (r *publicationRig) edited(t *testing.T) {
	r.patch(t, map[string]any{"data": map[string]any{"topology.yaml": r.text + "# a note\n", "gres.conf": nil, "theirs": "stays"}})
	r.until(t, "restored", func(cm *corev1.ConfigMap) bool {
		return cm.Data["topology.yaml"] == r.text && cm.Data["gres.conf"] != "" && cm.Data["theirs"] == "stays"
	})
}

func (r *publicationRig) unreadable(t *testing.T) {
	r.patch(t, map[string]any{"data": map[string]any{"topology.yaml": "- {"}})
	r.until(t, "restored", func(cm *corev1.ConfigMap) bool { return cm.Data["topology.yaml"] == r.text })
}

func (r *publicationRig) foreign(t *testing.T) {
	// Without the label from one write to the next: nothing of it may change.
	r.patch(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{"quoin.dev/kind": nil}}, "data": map[string]any{"topology.yaml": "theirs"}})
	time.Sleep(4 * time.Second)
	r.until(t, "left alone", func(cm *corev1.ConfigMap) bool {
		return cm.Data["topology.yaml"] == "theirs" && cm.Labels["quoin.dev/kind"] == ""
	})
	r.patch(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{"quoin.dev/kind": "publication"}}, "data": map[string]any{"topology.yaml": nil}})
	r.until(t, "given over, and written again", func(cm *corev1.ConfigMap) bool { return cm.Data["topology.yaml"] == r.text })
}

func (r *publicationRig) approved(t *testing.T) {
	move := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"8a61c302-0000-4000-8000-000000000001.2"}}}`, topology.CliqueLabel)
	for n := range 9 {
		if _, err := r.client.CoreV1().Nodes().Patch(t.Context(), fmt.Sprintf("n%02d", n), types.MergePatchType, move, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var digest string
	r.until(t, "held", func(cm *corev1.ConfigMap) bool {
		digest = cm.Annotations[plandoc.AnnotationHeld]
		return strings.HasPrefix(cm.Annotations[plandoc.AnnotationHeldReason], "BigChange: 9 of 36 nodes") && cm.Data["topology.yaml"] == r.text
	})
	plans := kube.Plans{Client: r.client, Namespace: "default"}
	if d, err := plans.LoadPlan(t.Context(), "default"); err != nil || d == nil || len(d.Held) != 1 || d.Held[0].Digest != digest || !d.Held[0].Waits || d.Wanted == nil {
		t.Fatalf("plan %+v, %v: want one that holds %s", d, err, digest)
	}
	if stored, err := plans.Stored(t.Context()); err != nil || len(stored) != 1 || stored["default"] != (plandoc.Stored{Place: plandoc.Location{Namespace: "default", Name: "quoin-slurm"}, Files: "ConfigMap default/quoin-slurm", RemovePlan: "kubectl -n default delete configmap quoin-plan-default", RemoveFiles: "kubectl -n default delete configmap quoin-slurm"}) {
		t.Errorf("stored are %v, %v: want default alone", stored, err)
	}
	if err := plans.Ask(t.Context(), plandoc.Location{Namespace: "default", Name: "quoin-slurm"}, map[string]string{plandoc.AnnotationApprove: digest, plandoc.AnnotationBy: "ann"}); err != nil {
		t.Fatal(err)
	}
	cm := r.until(t, "let through", func(cm *corev1.ConfigMap) bool { return strings.Contains(cm.Data["topology.yaml"], "n[00-08]") })
	if cm.Annotations[plandoc.AnnotationHeld] != "" || cm.Annotations[plandoc.AnnotationApprove] != "" || cm.Annotations[plandoc.AnnotationDigest] != digest {
		t.Errorf("annotations after the approval of %s: %v", digest, cm.Annotations)
	}
	if d, err := plans.LoadPlan(t.Context(), "default"); err != nil || d.Held != nil || d.Current.Digest != digest || d.Current.Author != "ann" || len(d.History) == 0 {
		t.Errorf("plan %+v, %v: want the revision that ann approved", d, err)
	}
}

// scaledIn deletes half of the Nodes, which nobody has to approve.
func (r *publicationRig) scaledIn(t *testing.T) {
	for n := 18; n < 36; n++ {
		if err := r.client.CoreV1().Nodes().Delete(t.Context(), fmt.Sprintf("n%02d", n), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r.until(t, "left", func(cm *corev1.ConfigMap) bool {
		if held := cm.Annotations[plandoc.AnnotationHeldReason]; held != "" {
			t.Fatalf("held %q", held)
		}
		text := cm.Data["topology.yaml"]
		return strings.Contains(text, "n[00-08]") && strings.Contains(text, "n[09-17]") && !strings.Contains(text, "35")
	})
}

// mostBytes has the API server take a ConfigMap of MaxBytes, and no larger one.
func (r *publicationRig) mostBytes(t *testing.T) {
	for more, taken := range []bool{true, false} {
		data := map[string]string{"topology.yaml": strings.Repeat("x", kube.MaxBytes-10), "gres.conf": strings.Repeat("x", 10+more)}
		_, err := r.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: data}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if (err == nil) != taken {
			t.Errorf("%d bytes more than MaxBytes: %v", more, err)
		}
	}
}

// gresAlone publishes machines whose switches nobody has named, and leaves the topology.conf in the
// ConfigMap alone that is the site's own.
func (r *publicationRig) gresAlone(t *testing.T, c *kuberig.Cluster) {
	for n := range 4 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("hgx%d", n), Labels: map[string]string{"pool": "hgx", nodelabels.Count: "8", nodelabels.Product: "NVIDIA-H100-80GB-HBM3"}}}
		if _, err := r.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pubs := complete(t, Publication{Name: "hgx", Namespace: "default", Nodes: Selection{Selector: "pool=hgx"}, SettleTime: Duration{Duration: 100 * time.Millisecond}})
	store := kube.New(c.Client(), setClient(t, c.Config()), reportClient(t, c.Config()), "default", pubs, slog.New(slog.DiscardHandler))
	inBackground(t, store.Run, newPublisher(store, pubs).Run)
	const name, lines = "quoin-slurm-hgx", "\nNodeName=hgx[0-3] AutoDetect=nvidia\n"
	published := func(cm *corev1.ConfigMap) bool {
		return strings.HasSuffix(cm.Data["gres.conf"], lines) && cm.Annotations[plandoc.AnnotationHeldReason] == ""
	}
	if cm := untilConfigMap(t, r.client, "default", name, "published", published); len(cm.Data) != 1 {
		t.Errorf("files %v", cm.Data)
	}
	const own = "SwitchName=s Nodes=hgx[0-3]\n"
	patch := `{"data":{"topology.conf":` + strconv.Quote(own) + `,"gres.conf":"# edited"}}`
	if _, err := r.client.CoreV1().ConfigMaps("default").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if cm := untilConfigMap(t, r.client, "default", name, "written again", published); cm.Data["topology.conf"] != own || len(cm.Data) != 2 {
		t.Errorf("files %v", cm.Data)
	}
}
