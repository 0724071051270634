package publisher

import (
	"fmt"
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
)

// namesRig is a real API server with 72 Nodes, gb200-001 to gb200-072, on which Slinky's pods run the
// Slurm nodes gb-0 to gb-71.
type namesRig struct{ *slinkyRig }

// slurmName is an annotation that says a Node's name in Slurm.
const slurmName = "example.com/slurm-name"

// TestRealNamesChange changes the settings that say names, one publisher after the other. Each begins
// without a memory of pods, and runs for longer than removeAfter. No node may leave.
func TestRealNamesChange(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	r := &namesRig{&slinkyRig{c, t}}
	defineReports(t, c)
	if err := c.AddNamespaces(t.Context(), "slurm", "hpc"); err != nil {
		t.Fatal(err)
	}
	for n := range 72 {
		r.addNamed(n)
	}
	pods := Publication{SlurmNames: "slinky"}
	r.publishes(t, "by pods", pods, "gb-[0-17]")
	const renamed = "BigChange: 72 of 72 nodes would get another Slurm name, more than 20 %: Node gb200-001 was named gb-0 until now (slurmNames: slinky, namespace: slurm); by slurmNames: "
	for _, tt := range []struct {
		name string
		pub  Publication
		want string
	}{
		{"short", Publication{}, renamed + "short it is gb200-001;"},
		{"short, after a restart", Publication{}, renamed + "short it is gb200-001;"},
		{"short, and another membership", Publication{Membership: "annotation"}, renamed + "short it is gb200-001;"},
		{"a pattern", Publication{SlurmNames: "s/gb200-(.+)/n$1/"}, renamed + "s/gb200-(.+)/n$1/ it is n001;"},
		{"another Controller", Publication{SlurmNames: "slinky:other"}, "72 are without a worker pod by slurmNames: slinky:other, which was slinky"},
		{"another selection by pods", Publication{SlurmNames: "slinky", Nodes: Selection{Slinky: "other"}}, "72 are without a worker pod by slurmNames: slinky:other, which was slinky"},
		{"another selector", Publication{SlurmNames: "slinky", Nodes: Selection{Selector: "pool=x"}}, "of the published nodes 72 are not selected any more (nodes.selector: pool=x, which is new)"},
		{"another namespace", Publication{SlurmNames: "slinky", Namespace: "hpc"}, "72 are without a worker pod by namespace: hpc, which was slurm"},
		{"another name, and short", Publication{Name: "hgx", ConfigMap: "quoin-slurm"}, renamed + "short it is gb200-001;"},
	} {
		r.holds(t, tt.name, tt.pub, tt.want)
	}
	r.publishes(t, "by pods again", pods, "gb-[0-17]")
	t.Run("the seed of a second publication", r.seedsSecond)
	byNote := Publication{Name: "noted", SlurmNames: "annotation:" + slurmName}
	r.publishes(t, "by annotation", byNote, "noted-[00-17]")
	r.unnote(t)
	r.run(t, "the annotations are gone", byNote, func(t *testing.T, place plandoc.Location) {
		cm := untilConfigMap(t, r.Client(), place.Namespace, place.Name, "the publisher looked", func(cm *corev1.ConfigMap) bool { return true })
		time.Sleep(4 * time.Second) // longer than removeAfter
		if held := cm.Annotations[plandoc.AnnotationHeldReason]; held != "" || !strings.Contains(r.placed(t, "noted"), "noted-[00-17]") {
			t.Errorf("held %q, placed %s", held, r.placed(t, "noted"))
		}
	})
}

func (r *namesRig) addNamed(n int) {
	r.t.Helper()
	name := fmt.Sprintf("gb200-%03d", n+1)
	createNode(r.t, r.Client(), name, n, map[string]string{slurmName: fmt.Sprintf("noted-%02d", n)})
	pod := fmt.Sprintf("gb-%d", n)
	r.addPod("slurm", pod, pod, name)
}

// seedsSecond adds a publication beside one whose Nodes have their annotations.
func (r *namesRig) seedsSecond(t *testing.T) {
	nodes, err := r.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		if nodes.Items[i].Annotations[plandoc.SpecAnnotation] == "" {
			t.Fatalf("%s is not annotated", nodes.Items[i].Name)
		}
	}
	pubs := complete(t, Publication{SlurmNames: "slinky"}, Publication{Name: "second", SlurmNames: "slinky:other"})
	store := kube.New(r.Client(), setClient(t, r.Config()), reportClient(t, r.Config()), "default", pubs, slog.New(slog.DiscardHandler))
	p := newPublisher(store, pubs)
	p.options.Seed = true
	inBackground(t, store.Run, p.Run)
	cm := untilConfigMap(t, r.Client(), "slurm", "quoin-slurm-second", "seeded", func(cm *corev1.ConfigMap) bool { return cm.Annotations[plandoc.AnnotationSeed] != "" })
	if !strings.Contains(cm.Data["topology.yaml"], "block: seed") {
		t.Errorf("the seed is\n%s", cm.Data["topology.yaml"])
	}
}

// unnote removes the annotation of all Nodes.
func (r *namesRig) unnote(t *testing.T) {
	t.Helper()
	for n := range 72 {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, slurmName)
		if _, err := r.Client().CoreV1().Nodes().Patch(t.Context(), fmt.Sprintf("gb200-%03d", n+1), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a publisher while a test runs.
func (r *namesRig) run(t *testing.T, name string, pub Publication, test func(t *testing.T, place plandoc.Location)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		short := func(d time.Duration) Duration { return Duration{Duration: d} }
		pub.SettleTime, pub.LoadTimeout, pub.RemoveAfter = short(200*time.Millisecond), short(time.Millisecond), short(time.Second)
		pubs := confirmAfter(200*time.Millisecond, complete(t, pub))
		store := kube.New(r.Client(), setClient(t, r.Config()), reportClient(t, r.Config()), "default", pubs, slog.New(slog.DiscardHandler))
		inBackground(t, store.Run, newPublisher(store, pubs).Run)
		test(t, pubs[0].Place())
	})
}

// placed are the nodes of each block in the stored plan.
func (r *namesRig) placed(t *testing.T, publication string) string {
	t.Helper()
	d, err := kube.Plans{Client: r.Client(), Namespace: "default"}.LoadPlan(t.Context(), publication)
	if err != nil {
		t.Fatal(err)
	}
	return blocksOf(d)
}

// publishes runs a publisher until it has published the nodes of the first rack and holds nothing.
func (r *namesRig) publishes(t *testing.T, name string, pub Publication, nodes string) {
	t.Helper()
	r.run(t, name, pub, func(t *testing.T, place plandoc.Location) {
		untilConfigMap(t, r.Client(), place.Namespace, place.Name, "published", func(cm *corev1.ConfigMap) bool {
			publication := pub.Name
			if publication == "" {
				publication = "default"
			}
			return cm.Annotations[plandoc.AnnotationHeldReason] == "" && strings.Contains(r.placed(t, publication), nodes+" ")
		})
	})
}

// holds runs a publisher for longer than removeAfter. It publishes nothing, and says why.
func (r *namesRig) holds(t *testing.T, name string, pub Publication, want string) {
	t.Helper()
	before := r.placed(t, "default")
	r.run(t, name, pub, func(t *testing.T, place plandoc.Location) {
		said := func(cm *corev1.ConfigMap) bool {
			return strings.Contains(cm.Annotations[plandoc.AnnotationHeldReason], want)
		}
		cm := untilConfigMap(t, r.Client(), place.Namespace, place.Name, want, said)
		digest := cm.Annotations[plandoc.AnnotationDigest]
		time.Sleep(2 * time.Second) // longer than removeAfter
		cm = untilConfigMap(t, r.Client(), place.Namespace, place.Name, want, said)
		publication := "default"
		if pub.Name != "" {
			publication = pub.Name
		}
		if after := r.placed(t, publication); after != before || cm.Annotations[plandoc.AnnotationDigest] != digest {
			t.Errorf("placed %s\nbefore %s", after, before)
		}
	})
}
