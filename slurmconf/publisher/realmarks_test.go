package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/testdata/rig/await"
	"github.com/quoin-hpc/quoin/testdata/rig/kuberig"
	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealFeatures gives real Slurm the tokens that the publisher writes, under the prefix of
// slurm-operator beside a feature of the site, as that operator does. Jobs then ask for each of them.
func TestRealFeatures(t *testing.T) {
	t.Parallel()
	mig := topology.GPU{Product: "NVIDIA H100 80GB HBM3"}
	for _, profile := range []string{"1g.10gb", "1g.10gb+me", "1c.3g.40gb", "7g.80gb"} {
		mig.MIG = append(mig.MIG, topology.MIGInstance{Profile: profile})
	}
	w := wanted{labels: [4]string{1: markValue("sw7/p3_a.b")}, facts: &topology.Facts{Report: &topology.Node{GPUs: []topology.GPU{mig, {Product: "NVIDIA GB200"}, {Product: "NVIDIA A100-SXM4-80GB"}, {Product: "a,b|c&d*[e](f)=g"}, {Product: strings.Repeat("x", 200)}}}}}
	tokens := strings.Split(w.tokens(""), ",")
	if len(tokens) != 5+1+4 {
		t.Fatalf("tokens %q", tokens)
	}
	var features []string
	for _, token := range tokens {
		features = append(features, "k8s/"+token)
	}
	features = append(features, "site")
	slices.Sort(features)
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			rig := slurmrig.StartTest(t, release, slurmrig.Config{SlurmConf: "NodeName=n[0-1] NodeAddr=127.0.0.1 Port=17801-17802 CPUs=2 Features=site State=UNKNOWN\nPartitionName=p Nodes=ALL Default=YES State=UP\n"})
			list := strings.Join(features, ",")
			rig.RunTest(t, "scontrol", "update", "NodeName=n0", "AvailableFeatures="+list, "ActiveFeatures="+list)
			got := map[string]string{}
			for field := range strings.FieldsSeq(rig.RunTest(t, "scontrol", "show", "node", "n0")) {
				if key, value, ok := strings.Cut(field, "="); ok {
					got[key] = value
				}
			}
			for _, key := range []string{"AvailableFeatures", "ActiveFeatures"} {
				is := strings.Split(got[key], ",")
				if slices.Sort(is); !slices.Equal(is, features) {
					t.Errorf("%s %q, want %q", key, is, features)
				}
			}
			for _, feature := range features[:len(features)-1] {
				id := strings.TrimSpace(rig.RunTest(t, "sbatch", "--parsable", "--hold", "--constraint="+feature, "--wrap", "true"))
				if shown := rig.RunTest(t, "scontrol", "show", "job", id); !strings.Contains(shown, "Features="+feature+" ") {
					t.Errorf("a job that asks for %s:\n%s", feature, shown)
				}
			}
			if out, err := rig.Run(t.Context(), "sbatch", "--parsable", "--constraint=k8s/quoin-leaf-nowhere", "--wrap", "true"); err == nil {
				t.Errorf("Slurm takes a job that asks for a feature of no node: %s", out)
			}
			if out, err := rig.Run(t.Context(), "sbatch", "--parsable", "-N2", "--constraint="+features[0], "--wrap", "true"); err == nil {
				t.Errorf("Slurm takes a job that asks for two nodes with the feature of one: %s", out)
			}
		})
	}
}

// TestRealMarks labels Nodes of a real API server and writes tokens beside those of others, while others
// write the same keys. Then a publisher that does neither takes both away.
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
		p.Namespace, p.SettleTime, p.ConfirmTime, p.LoadTimeout, p.RemoveAfter = "default", ms, ms, ms, ms
		pubs := complete(t, p)
		store = kube.New(c.Client(), setClient(t, c.Config()), reportClient(t, c.Config()), "default", pubs, slog.New(slog.DiscardHandler))
		pub := newPublisher(store, pubs)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = store.Run(ctx) })
		running.Go(func() { _ = pub.Run(ctx) })
		return func() { cancel(); running.Wait() }
	}
	const token, block = "quoin-product-NVIDIA-GB200", "nvl-8a61c302-0"
	patch("topograph", "n00", `"labels":{"quoin.dev/agent":"true"},"annotations":{"features.slinky.slurm.net/spec":"nn-75bf,GPU"}`)
	patch("kubectl-label", "n03", `"labels":{"quoin.dev/block":"theirs"}`)
	on := Publication{Labels: true, Features: true}
	marked := func(n *corev1.Node) bool {
		return n.Labels[plandoc.LabelBlock] == block && n.Labels[plandoc.LabelClique] == "8a61c302-0000-4000-8000-000000000001.0" && n.Annotations[plandoc.FeaturesWritten] == token
	}

	stop := run(on)
	until("n00", "marked beside others", func(n *corev1.Node) bool {
		return marked(n) && n.Annotations[plandoc.FeaturesAnnotation] == "nn-75bf,GPU,"+token && n.Labels["quoin.dev/agent"] == "true" && n.Annotations[plandoc.SpecAnnotation] == "nvl:"+block
	})
	until("n03", "marked but for what is another's", func(n *corev1.Node) bool {
		return n.Labels[plandoc.LabelBlock] == "theirs" && n.Labels[plandoc.LabelClique] != "" && n.Annotations[plandoc.FeaturesAnnotation] == token
	})
	until("n01", "marked", marked)
	patch("kubectl-edit", "n00", `"annotations":{"features.slinky.slurm.net/spec":"nn-75bf"}`)
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
	if n := get("n00"); n.Annotations[plandoc.FeaturesAnnotation] != "nn-75bf" || !marked(n) {
		t.Errorf("a token that somebody removed: annotations %v", n.Annotations)
	}

	stop = run(Publication{})
	for _, name := range []string{"n00", "n01", "n02"} {
		until(name, "labels and tokens are taken away", func(n *corev1.Node) bool {
			for _, key := range plandoc.NodeLabels {
				if _, is := n.Labels[key]; is {
					return false
				}
			}
			list, is := n.Annotations[plandoc.FeaturesAnnotation]
			_, noted := n.Annotations[plandoc.FeaturesWritten]
			return !noted && is == (name == "n00") && (list == "nn-75bf") == is && n.Annotations[plandoc.SpecAnnotation] == "nvl:"+block
		})
	}
	until("n03", "what is another's stays", func(n *corev1.Node) bool {
		return n.Labels[plandoc.LabelBlock] == "theirs" && n.Labels[plandoc.LabelClique] == "" && n.Annotations[plandoc.FeaturesWritten] == ""
	})
	stop()
	if n := get("n00"); n.Labels["quoin.dev/agent"] != "true" {
		t.Errorf("labels %v: where agents run is none of the publisher's", n.Labels)
	}
}
