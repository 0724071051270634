package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// TestRealMarks labels Nodes of a real API server, while others write the same keys. Then a publisher
// that labels none takes the labels away.
func TestRealMarks(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	defineReports(t, c)
	r := &publicationRig{t: t, client: c.Client()}
	for n := range 4 {
		r.addNode(n)
	}
	nodes := c.Client().CoreV1().Nodes()
	patch := func(manager, name, metadata string) {
		t.Helper()
		if _, err := nodes.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{`+metadata+`}}`), metav1.PatchOptions{FieldManager: manager}); err != nil {
			t.Fatal(err)
		}
	}
	get := func(name string) *corev1.Node {
		t.Helper()
		n, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	until := func(name, what string, is func(*corev1.Node) bool) {
		t.Helper()
		await.Until(t, what, func() bool { return is(get(name)) }, func() string {
			n := get(name)
			return fmt.Sprintf("%s has labels %v, annotations %v", name, n.Labels, n.Annotations)
		})
	}
	var store *kube.Store
	run := func(p Publication) (stop func()) {
		ms := Duration{Duration: time.Millisecond}
		p.Namespace, p.SettleTime, p.LoadTimeout, p.RemoveAfter = "default", ms, ms, ms
		pubs := confirmAfter(ms.Duration, complete(t, p))
		store = kube.New(c.Client(), setClient(t, c.Config()), reportClient(t, c.Config()), "default", pubs, slog.New(slog.DiscardHandler))
		pub := newPublisher(store, pubs)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = store.Run(ctx) })
		running.Go(func() { _ = pub.Run(ctx) })
		return func() { cancel(); running.Wait() }
	}
	const block = "nvl-8a61c302-0"
	patch("topograph", "n00", `"labels":{"quoin.dev/agent":"true"}`)
	patch("kubectl-label", "n03", `"labels":{"quoin.dev/block":"theirs"}`)
	on := Publication{Labels: true}
	marked := func(n *corev1.Node) bool {
		return n.Labels[plandoc.LabelBlock] == block && n.Labels[plandoc.LabelClique] == "8a61c302-0000-4000-8000-000000000001.0"
	}

	stop := run(on)
	until("n00", "marked beside others", func(n *corev1.Node) bool {
		return marked(n) && n.Labels["quoin.dev/agent"] == "true" && n.Annotations[plandoc.SpecAnnotation] == "nvl:"+block
	})
	until("n03", "marked but for what is another's", func(n *corev1.Node) bool {
		return n.Labels[plandoc.LabelBlock] == "theirs" && n.Labels[plandoc.LabelClique] != ""
	})
	until("n01", "marked", marked)
	patch("kubectl-label", "n01", `"labels":{"quoin.dev/block":null}`)
	until("n01", "marked again", marked)
	if err := store.Mark(t.Context(), &inputs.Node{Name: "n02", Version: "1"}, inputs.Marks{Labels: map[string]string{plandoc.LabelBlock: "x"}}); !errors.Is(err, plandoc.ErrNodeChanged) {
		t.Errorf("a Node that has changed since: %v", err)
	}
	stop()

	stop = run(on)
	patch("kubectl-label", "n01", `"labels":{"quoin.dev/clique":null}`)
	until("n01", "marked again after a restart", marked)
	stop()

	stop = run(Publication{})
	for _, name := range []string{"n00", "n01", "n02"} {
		until(name, "labels are taken away", func(n *corev1.Node) bool {
			for _, key := range plandoc.NodeLabels {
				if _, is := n.Labels[key]; is {
					return false
				}
			}
			return n.Annotations[plandoc.SpecAnnotation] == "nvl:"+block
		})
	}
	until("n03", "what is another's stays", func(n *corev1.Node) bool {
		return n.Labels[plandoc.LabelBlock] == "theirs" && n.Labels[plandoc.LabelClique] == ""
	})
	stop()
	if n := get("n00"); n.Labels["quoin.dev/agent"] != "true" {
		t.Errorf("labels %v: where agents run is none of the publisher's", n.Labels)
	}
}
