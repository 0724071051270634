package manifests_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// slinkyNodes is the number of nodes of a Slinky site. There are 18 in each rack.
const slinkyNodes = 72

// slinkySite is a cluster with GPU Operator's labels and Slinky's worker pods, whose names are not
// those of their Nodes.
type slinkySite struct {
	*membership // starts programs
}

func newSlinkySite(t *testing.T) *slinkySite {
	t.Helper()
	s := newSlinkyCluster(t)
	s.must(s.cluster.Objects().Create(t.Context(), "apiVersion: slinky.slurm.net/v1beta1\nkind: Controller\nmetadata: {name: slurm, namespace: slurm}\nspec: {slurmctld: {image: \"ghcr.io/slinkyproject/slurmctld:25.11-ubuntu24.04\"}}\n"))
	s.must(s.cluster.Objects().Create(t.Context(), fmt.Sprintf("apiVersion: slinky.slurm.net/v1beta1\nkind: NodeSet\nmetadata: {name: gb, namespace: slurm}\nspec: {controllerRef: {name: slurm}, replicas: %d}\n", slinkyNodes)))
	for n := range slinkyNodes {
		node := s.addNode(fmt.Sprintf("gb200-%03d", n+1), n/18, nil)
		s.addWorker("slurm", "gb", fmt.Sprintf("gb-%d", n), node)
	}
	return s
}

// newSlinkyCluster starts a cluster with Slinky's NodeSets and no node.
func newSlinkyCluster(t *testing.T) *slinkySite {
	t.Helper()
	dir := t.TempDir()
	programs.PutTest(t, dir, programs.Quoin)
	s := &slinkySite{&membership{t: t, cluster: kuberig.StartTest(t), quoin: filepath.Join(dir, "quoin")}}
	s.must(s.cluster.Objects().Apply(t.Context(), "../test/rig/kuberig/nodesets.yaml"))
	s.must(s.cluster.Objects().ApplyText(t.Context(), slinkyKinds))
	s.must(s.cluster.AddNamespaces(t.Context(), "slurm"))
	return s
}

func (s *slinkySite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// addNode makes a node of a rack as GPU Operator labels it, with further labels.
func (s *slinkySite) addNode(name string, rack int, labels map[string]string) string {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"nvidia.com/gpu.present": "true",
		topology.CliqueLabel: fmt.Sprintf("8a61c302-0000-4000-8000-000000000001.%d", rack), nodelabels.Count: "4", nodelabels.Product: "NVIDIA-GB200"}}}
	maps.Copy(node.Labels, labels)
	_, err := s.cluster.Client().CoreV1().Nodes().Create(s.t.Context(), node, metav1.CreateOptions{})
	s.must(err)
	return name
}

// addWorker makes a worker pod as a NodeSet of a Controller does.
func (s *slinkySite) addWorker(controller, set, pod, node string) {
	s.t.Helper()
	_, err := s.cluster.Client().CoreV1().Pods("slurm").Create(s.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "slurm", Labels: map[string]string{"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker",
			"app.kubernetes.io/instance": set, "slinky.slurm.net/cluster": controller, "nodeset.slinky.slurm.net/pod-hostname": pod},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "slinky.slurm.net/v1beta1", Kind: "NodeSet", Name: set, UID: "1", Controller: new(true)}}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "slurmd", Image: "slurmd"}}},
	}, metav1.CreateOptions{})
	s.must(err)
}

// install installs or upgrades the chart as the page says, with files of values. It returns the
// publisher's configuration, as a file.
func (s *slinkySite) install(values ...string) string {
	s.t.Helper()
	args := []string{"upgrade", "--install", "quoin", "chart", "--namespace", "quoin-system", "--create-namespace", "--kubeconfig", s.cluster.Kubeconfig(), "--set", kuberig.Image}
	for _, file := range values {
		args = append(args, "-f", file)
	}
	if out, err := kuberig.Helm(s.t, args...); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	return s.config()
}

// config returns the publisher's configuration, as a file.
func (s *slinkySite) config() string {
	s.t.Helper()
	cm, err := s.cluster.Client().CoreV1().ConfigMaps("quoin-system").Get(s.t.Context(), "quoin-config", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.t.TempDir(), "quoin.yaml")
	if err := os.WriteFile(path, []byte(cm.Data["quoin.yaml"]), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// publish runs the publisher with its own token and the configuration. Its waits are short: nodes
// that Slurm no longer has leave after three seconds, and not after ten minutes.
func (s *slinkySite) publish(config string) *exec.Cmd {
	s.t.Helper()
	token, err := s.cluster.Token(s.t.Context(), "quoin-system", "quoin-publisher", "")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(s.quoin, "publisher", "--config", config, "--kubeconfig", token, "--listen", loopback.Address(9836), "--set", "publisher.healthListen=", "--set", "publisher.mapListen=",
		"--times", "confirm: 300ms, spacing: 1ms", "--set", "publications.*.settleTime=300ms", "--set", "publications.*.loadTimeout=1ms", "--set", "publications.*.removeAfter=3s")
	cmd.Env = append(os.Environ(), "NAMESPACE=quoin-system")
	s.start("publisher", cmd)
	return cmd
}

// placed are the annotations of the nodes that the stored plan has in a block, by Slurm name. It is
// nil while a node of the plan is not annotated, or while the plan was made for another release.
func (s *slinkySite) placed(release string) map[string]string {
	s.t.Helper()
	d, err := kube.Plans{Client: s.cluster.Client(), Namespace: "quoin-system"}.LoadPlan(s.t.Context(), "default")
	if err != nil {
		s.t.Fatal(err)
	}
	if d == nil || d.Current.Plan.Policy["slurmVersion"] != release {
		return nil
	}
	nodes, err := s.cluster.Client().CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	annotated := map[string]string{}
	for i := range nodes.Items {
		annotated[nodes.Items[i].Name] = nodes.Items[i].Annotations[plandoc.SpecAnnotation]
	}
	specs, places := map[string]string{}, d.Current.Plan.Places()
	for _, n := range d.Current.Plan.Nodes {
		if at := places[n.SlurmName].Block; at != "" {
			specs[n.SlurmName] = annotated[n.Node]
			if !strings.Contains(annotated[n.Node], at) {
				return nil
			}
		}
	}
	return specs
}

// until waits until so many nodes are placed and annotated, and returns their annotations.
func (s *slinkySite) until(what, release string, want int) map[string]string {
	s.t.Helper()
	var specs map[string]string
	await.Until(s.t, what, func() bool { specs = s.placed(release); return len(specs) == want }, func() string { return fmt.Sprintf("placed: %v", slices.Sorted(maps.Keys(specs))) })
	return specs
}

// TestRealSlinkySite installs a Slinky site by the page: presets for Slinky and GPU Operator, and then
// a site's file that has another Slurm release alone. The image of the Controller names the first one. Every
// node stays where it is under the name of its worker pod. Only the pod that its NodeSet gives up leaves, when
// the others would have left too.
func TestRealSlinkySite(t *testing.T) {
	t.Parallel()
	s := newSlinkySite(t)
	const slinky, gpuOperator = "chart/presets/slinky.yaml", "chart/presets/gpu-operator.yaml"
	first := s.publish(s.install(slinky, gpuOperator))
	before := s.until("all nodes are placed", "25.11", slinkyNodes)
	for n := range slinkyNodes {
		if before[fmt.Sprintf("gb-%d", n)] == "" {
			t.Fatalf("gb-%d has no place: %v", n, before)
		}
	}
	site := filepath.Join(t.TempDir(), "site.yaml")
	if err := os.WriteFile(site, []byte("config: {publicationDefaults: {slurmVersion: \"25.05\"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := s.install(slinky, gpuOperator, site)
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it gives up the lead
	s.publish(config)
	const last = "gb-71"
	if err := s.cluster.Objects().Patch(t.Context(), "nodesets.slinky.slurm.net", "slurm", "gb", fmt.Sprintf(`{"spec":{"replicas":%d}}`, slinkyNodes-1)); err != nil {
		t.Fatal(err)
	}
	if err := s.cluster.RemovePod(t.Context(), "slurm", last); err != nil {
		t.Fatal(err)
	}
	after := s.until(last+" leaves", "25.05", slinkyNodes-1)
	delete(before, last)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("annotations (-before +when %s has left)\n%s", last, diff)
	}
	cm, err := s.cluster.Client().CoreV1().ConfigMaps("slurm").Get(t.Context(), "quoin-slurm", metav1.GetOptions{})
	if err != nil || cm.Annotations[plandoc.AnnotationHeldReason] != "" {
		t.Errorf("%v, held: %s", err, cm.Annotations[plandoc.AnnotationHeldReason])
	}
}
