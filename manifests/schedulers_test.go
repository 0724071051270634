package manifests_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// notServed are the kinds in schedulers that no definition could be had of.
var notServed = []string{"kai.scheduler/v1alpha1 Topology"}

// TestRealSchedulers applies the examples of schedulers to an API server. It then runs the scheduler
// of Kubernetes on podgroup.yaml: all pods are in one block, or none is anywhere.
func TestRealSchedulers(t *testing.T) {
	t.Parallel()
	c := kuberig.StartPodGroupsTest(t)
	for _, apply := range []func() error{
		func() error { return c.ApplyCRDs(t.Context(), kuberig.Kueue) },
		func() error { return c.ApplyComputeDomainCRDs(t.Context()) },
	} {
		if err := apply(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("schedulers/*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("examples %v, %v: want four", files, err)
	}
	var unknown []string
	for _, file := range files {
		for _, text := range documents(t, file) {
			err := c.Objects().ApplyText(t.Context(), text)
			if meta.IsNoMatchError(err) {
				unknown = append(unknown, apiKind(t, text))
			} else if err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if !slices.Equal(unknown, notServed) {
		t.Errorf("the API server does not serve %q, want %q", unknown, notServed)
	}

	if err := c.StartControllerManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	for block, nodes := range map[string]int{"b1": 3, "b2": 4, "b3": 3} {
		for n := range nodes {
			addNode(t, c, fmt.Sprintf("%s-%d", block, n), block)
		}
	}
	if err := c.StartScheduler(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the first group is in the one block that has room for it", func() bool {
		on := podsOf(t, c, "podgroup-train")
		return slices.Equal(on, []string{"b2-0", "b2-1", "b2-2", "b2-3"})
	}, func() string { return strings.Join(podsOf(t, c, "podgroup-train"), " ") })

	text, err := os.ReadFile("schedulers/podgroup.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Objects().ApplyText(t.Context(), strings.ReplaceAll(string(text), "podgroup-train", "second")); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the second group has no room in one block", func() bool {
		group, err := c.Client().SchedulingV1beta1().PodGroups("default").Get(t.Context(), "second", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		scheduled := meta.FindStatusCondition(group.Status.Conditions, "PodGroupInitiallyScheduled")
		return scheduled != nil && scheduled.Status == metav1.ConditionFalse && scheduled.Reason == "Unschedulable"
	})
	if on := podsOf(t, c, "second"); !slices.Equal(on, []string{"", "", "", ""}) {
		t.Errorf("six free nodes in two blocks: the pods of the second group are on %q, want none", on)
	}
}

// TestSchedulerLabels holds that the examples and their page name the labels that the publisher
// writes, and no other.
func TestSchedulerLabels(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("schedulers/*")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range regexp.MustCompile(`quoin\.dev/\w+`).FindAllString(string(text), -1) {
			if named[key] = true; key != "quoin.dev/imex" && !slices.Contains(plandoc.NodeLabels, key) { // people write that one
				t.Errorf("%s names %s, which nobody writes", file, key)
			}
		}
	}
	for _, key := range plandoc.NodeLabels {
		if !named[key] {
			t.Errorf("no example names %s", key)
		}
	}
}

// schedulersValues are the chart's values of the page for other schedulers.
func schedulersValues(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("schedulers/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, values, found := strings.Cut(string(page), "\n       config:\n")
	if !found {
		t.Fatal("the page has no values of the chart")
	}
	values, _, _ = strings.Cut("       config:\n"+values, "\n\n")
	return values
}

// TestSchedulersPage renders the chart with the values of the page.
func TestSchedulersPage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(schedulersValues(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := kuberig.Helm(t, "template", "quoin", "chart", "--namespace", "quoin-system", "--set", kuberig.Image, "-f", file)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for text, times := range map[string]int{"  labels: true\n": 2, "  annotate: false\n": 1, "resources: [nodes]\n  verbs: [get, list, watch, patch]\n": 1} {
		if got := strings.Count(out, text); got != times {
			t.Errorf("%q is %d times in what the chart renders, want %d", text, got, times)
		}
	}
}

// apiKind is the kind of an object.
func apiKind(t *testing.T, text string) string {
	t.Helper()
	var object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
	}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object.APIVersion + " " + object.Kind
}

// documents are the objects of a YAML file.
func documents(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n---\n")
}

// addNode makes a node with four GPUs, as a kubelet and the publisher do.
func addNode(t *testing.T, c *kuberig.Cluster, name, block string) {
	t.Helper()
	nodes := c.Client().CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"kubernetes.io/hostname": name, "example.com/pool": "kubernetes", "quoin.dev/block": block}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("10")}
	node.Status.Capacity = node.Status.Allocatable
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if node, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	node.Spec.Taints = nil // the API server gives each new Node one
	if _, err := nodes.Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// podsOf are the nodes of a job's pods, sorted. A pod that waits is on "".
func podsOf(t *testing.T, c *kuberig.Cluster, job string) []string {
	t.Helper()
	pods, err := c.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job})
	if err != nil {
		t.Fatal(err)
	}
	var on []string
	for i := range pods.Items {
		on = append(on, pods.Items[i].Spec.NodeName)
	}
	slices.Sort(on)
	return on
}
