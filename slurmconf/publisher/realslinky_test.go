package publisher

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// slinkyRig is a real API server with two Slurm clusters' worker pods, and a
// publisher with its own token, which may do what manifests say with the rules
// that are there in comments.
type slinkyRig struct {
	*kuberig.Cluster
	t *testing.T
}

// slinkyValues are those of the chart for two publications by Slinky's pods.
const slinkyValues = "config.publicationDefaults.slurmNames=slinky,config.publications.a.configMap=quoin-slurm,config.publications.b.configMap=quoin-b,publisher.resourceSlices=true"

func TestRealSlinky(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	r := &slinkyRig{c, t}
	defineReports(t, c)
	client, sets, reports := r.permit(slinkyValues)
	for n := range 40 {
		r.addNode(n)
	}
	for n := range 18 {
		r.addWorker("a", fmt.Sprintf("a-%d", n), fmt.Sprintf("gpu-%02d", n), n)
		r.addWorker("b", fmt.Sprintf("b-%d", n), fmt.Sprintf("gpu-%02d", n), 18+n)
	}
	ms := Duration{Duration: time.Millisecond}
	base := Publication{Namespace: "slurm", SettleTime: Duration{Duration: 200 * time.Millisecond}, LoadTimeout: ms}
	a, b := base, base
	a.Membership = "file" // b has what Slinky's pods mean
	a.Name, a.ConfigMap, a.Nodes.Slinky, b.Name, b.ConfigMap, b.Nodes.Slinky = "a", "quoin-slurm", "a", "b", "quoin-b", "b"
	pubs := confirmAfter(200*time.Millisecond, complete(t, a, b))
	store := kube.New(client, sets, reports, "quoin-system", pubs, slog.New(slog.DiscardHandler))
	inBackground(t, store.Run, newPublisher(store, pubs).Run)
	t.Run("two clusters", r.twoClusters)
	t.Run("rolling update", r.rolls)
	t.Run("hostname change", r.renames)
	t.Run("a node changes its cluster", r.moves)
	t.Run("resource slices", r.slices)
	t.Run("NodeSet replaced", r.replaces)
	t.Run("at rest", r.rests)
}

// TestRealSelectedPods names nodes by pods that a selector selects, with the rights that the chart
// gives for that.
func TestRealSelectedPods(t *testing.T) {
	t.Parallel()
	const names = "pod:slurm.nebius.ai/worker=true"
	c := kuberig.StartTest(t)
	r := &slinkyRig{c, t}
	defineReports(t, c)
	client, sets, reports := r.permit("config.publicationDefaults.slurmNames=" + names)
	add := func(pod, worker string, node int) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "slurm", Labels: map[string]string{"slurm.nebius.ai/worker": worker}},
			Spec: corev1.PodSpec{NodeName: fmt.Sprintf("n%02d", node), Containers: []corev1.Container{{Name: "slurmd", Image: "slurmd"}}}}
		if _, err := client.CoreV1().Pods("slurm").Create(t.Context(), p, metav1.CreateOptions{}); err == nil {
			t.Error("the publisher may create pods")
		}
		if _, err := c.Client().CoreV1().Pods("slurm").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 4 {
		r.addNode(n)
		add(fmt.Sprintf("worker-%d", n), "true", n)
		add(fmt.Sprintf("login-%d", n), "false", n)
	}
	soon := Duration{Duration: 200 * time.Millisecond}
	pubs := confirmAfter(soon.Duration, complete(t, Publication{Namespace: "slurm", SlurmNames: names, SettleTime: soon}))
	store := kube.New(client, sets, reports, "quoin-system", pubs, slog.New(slog.DiscardHandler))
	inBackground(t, store.Run, newPublisher(store, pubs).Run)
	r.until(t, "the names of the pods", "quoin-slurm", func(cm *corev1.ConfigMap) bool {
		return strings.Contains(cm.Data["topology.yaml"], "nodes: worker-[0-3]\n")
	})
	r.end("worker-2")
	r.addNode(4)
	add("worker-4", "true", 4)
	r.until(t, "a further pod, and the last name of a node without one", "quoin-slurm", func(cm *corev1.ConfigMap) bool {
		return strings.Contains(cm.Data["topology.yaml"], "nodes: worker-[0-4]\n")
	})
}

// permit applies the manifests as a site would change them, and returns the
// publisher's client.
func (r *slinkyRig) permit(values string) (kubernetes.Interface, dynamic.Interface, *nodereport.Client) {
	r.t.Helper()
	dir := r.t.TempDir()
	if out, err := kuberig.Helm(r.t, "template", "quoin", "../../manifests/chart", "--namespace", "quoin-system", "--output-dir", dir, "--set", kuberig.Image+","+values); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	if _, err := r.Client().CoreV1().Namespaces().Create(r.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "slurm"}}, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Objects().Apply(r.t.Context(), filepath.Join(dir, "quoin", "templates")); err != nil {
		r.t.Fatal(err)
	}
	token, err := r.Token(r.t.Context(), "quoin-system", "quoin-publisher", "")
	if err != nil {
		r.t.Fatal(err)
	}
	rc, err := clientcmd.BuildConfigFromFlags("", token)
	if err != nil {
		r.t.Fatal(err)
	}
	rc.QPS, rc.Burst = 100, 200
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		r.t.Fatal(err)
	}
	return client, setClient(r.t, rc), reportClient(r.t, rc)
}

func (r *slinkyRig) addNode(n int) {
	r.t.Helper()
	createNode(r.t, r.Client(), fmt.Sprintf("n%02d", n), n, nil)
}

// addWorker creates a pod as slurm-operator's NodeSet does.
func (r *slinkyRig) addWorker(cluster, pod, hostname string, node int) {
	r.t.Helper()
	r.addPod(cluster, pod, hostname, fmt.Sprintf("n%02d", node))
}

// addPod creates a pod on a Node.
func (r *slinkyRig) addPod(cluster, pod, hostname, node string) {
	r.t.Helper()
	p := workerPod(cluster, pod, hostname)
	p.Spec.NodeName = node
	if _, err := r.Client().CoreV1().Pods("slurm").Create(r.t.Context(), p, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// workerPod is a pod as slurm-operator's NodeSet gpu makes it, on no Node yet.
func workerPod(cluster, pod, hostname string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "slurm", Labels: map[string]string{"app.kubernetes.io/name": "slurmd",
			"app.kubernetes.io/component": "worker", "app.kubernetes.io/instance": "gpu", "slinky.slurm.net/cluster": cluster, "nodeset.slinky.slurm.net/pod-hostname": hostname},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "slinky.slurm.net/v1beta1", Kind: "NodeSet", Name: "gpu", UID: "1", Controller: new(true)}}},
		Spec: corev1.PodSpec{Hostname: hostname, Containers: []corev1.Container{{Name: "slurmd", Image: "slurmd"}}},
	}
}

// end deletes a pod as the operator does, and then plays the kubelet.
func (r *slinkyRig) end(pod string) {
	r.t.Helper()
	if err := r.Client().CoreV1().Pods("slurm").Delete(r.t.Context(), pod, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if err := r.RemovePod(r.t.Context(), "slurm", pod); err != nil {
		r.t.Fatal(err)
	}
}

func (r *slinkyRig) until(t *testing.T, what, configMap string, is func(*corev1.ConfigMap) bool) *corev1.ConfigMap {
	t.Helper()
	return untilConfigMap(t, r.Client(), "slurm", configMap, what, is)
}

// writes are those of the publisher while a function runs, and for a while after.
func (r *slinkyRig) writes(t *testing.T, during func()) []kuberig.Request {
	t.Helper()
	_, from, err := r.Writes(0)
	if err != nil {
		t.Fatal(err)
	}
	during()
	time.Sleep(3 * time.Second)
	writes, _, err := r.Writes(from)
	if err != nil {
		t.Fatal(err)
	}
	return writes
}

// members are the nodes of each block of b, whose file names none.
func (r *slinkyRig) members(t *testing.T) string {
	t.Helper()
	d, err := kube.Plans{Client: r.Client(), Namespace: "quoin-system"}.LoadPlan(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	return blocksOf(d)
}

// blocksOf are the nodes of each block of a stored plan, which may be nil.
func blocksOf(d *plandoc.Document) string {
	if d == nil || len(d.Current.Plan.Topologies) == 0 {
		return ""
	}
	var all strings.Builder
	for _, b := range d.Current.Plan.Topologies[0].Blocks {
		fmt.Fprintf(&all, "%s %s ", b.Name, hostlist.Compress(b.Nodes))
	}
	return all.String()
}

// untilMembers waits until the plan of b has the nodes, and none of the others. The file of
// b has none of them.
func (r *slinkyRig) untilMembers(t *testing.T, what, nodes, others string) {
	t.Helper()
	r.until(t, what, "quoin-b", func(cm *corev1.ConfigMap) bool {
		if text := cm.Data["topology.yaml"] + cm.Data["gres.conf"]; strings.Contains(text, "gpu-") || strings.Contains(text, "next-") {
			t.Fatalf("%s: the files of b name nodes: %v", what, cm.Data)
		}
		all := r.members(t)
		return strings.Contains(all, nodes) && (others == "" || !strings.Contains(all, others))
	})
}

func has(text string) func(*corev1.ConfigMap) bool {
	return func(cm *corev1.ConfigMap) bool { return strings.Contains(cm.Data["topology.yaml"], text) }
}

func (r *slinkyRig) twoClusters(t *testing.T) {
	cm := r.until(t, "published", "quoin-slurm", has("nodes: gpu-[00-17]\n"))
	if strings.Count(cm.Data["topology.yaml"], "gpu-") != 1 {
		t.Errorf("a has nodes that it should not:\n%s", cm.Data["topology.yaml"])
	}
	r.until(t, "published", "quoin-b", has("- block: "))
	r.untilMembers(t, "published", "gpu-[00-17] ", "")
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		nodes, err := r.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		annotated := 0
		for i := range nodes.Items {
			if nodes.Items[i].Annotations[plandoc.SpecAnnotation] != "" {
				annotated++
			}
		}
		if annotated == 36 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d nodes are annotated, want the 36 with a worker pod", annotated)
		}
	}
}

func (r *slinkyRig) rolls(t *testing.T) {
	writes := r.writes(t, func() {
		for n := range 6 {
			r.end(fmt.Sprintf("a-%d", n))
			time.Sleep(500 * time.Millisecond) // longer than facts settle
			r.addWorker("a", fmt.Sprintf("a-%d", n), fmt.Sprintf("gpu-%02d", n), n)
		}
	})
	if len(writes) > 0 {
		t.Errorf("written in a rolling update: %v", writes)
	}
}

func (r *slinkyRig) renames(t *testing.T) {
	writes := r.writes(t, func() {
		r.end("a-3")
		r.addWorker("a", "a-x7k2p", "rack1-3", 3)
		r.until(t, "renamed", "quoin-slurm", has("nodes: gpu-[00-02,04-17],rack1-3\n"))
	})
	if len(writes) != 2 || writes[0].Name != "quoin-plan-a" || writes[1].Name != "quoin-slurm" {
		t.Errorf("written: %v, want the plan once, and then the ConfigMap once", writes)
	}
}

func (r *slinkyRig) moves(t *testing.T) {
	r.end("a-9")
	r.addWorker("b", "b-18", "gpu-18", 9)
	r.until(t, "left", "quoin-slurm", has("nodes: gpu-[00-02,04-08,10-17],rack1-3\n"))
	r.until(t, "came", "quoin-b", func(cm *corev1.ConfigMap) bool {
		return strings.Contains(cm.Annotations[plandoc.AnnotationLeftOut]+r.members(t), "gpu-18")
	})
	r.untilMembers(t, "came", "gpu-[00-17] ", "")
}

func (r *slinkyRig) slices(t *testing.T) {
	cm := r.until(t, "detected", "quoin-slurm", func(cm *corev1.ConfigMap) bool {
		return strings.Contains(cm.Data["gres.conf"], "AutoDetect=nvidia")
	})
	if strings.Contains(cm.Data["gres.conf"], "File=") {
		t.Errorf("before there are slices gres.conf has files:\n%s", cm.Data["gres.conf"])
	}
	for n := range 18 {
		if n == 9 { // it is of b now, whose file would name it
			continue
		}
		slice := draSlice(fmt.Sprintf("n%02d", n), 1, 1, draGPU(1, "NVIDIA GB200"), draGPU(0, "NVIDIA GB200"), draGPU(3, "NVIDIA GB200"), draGPU(2, "NVIDIA GB200"))
		if _, err := r.Client().ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r.until(t, "listed", "quoin-slurm", func(cm *corev1.ConfigMap) bool {
		return strings.Contains(cm.Data["gres.conf"], "NodeName=gpu-[00-02,04-08,10-17],rack1-3 Name=gpu Type=gb200 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env\n")
	})
}

// replaces deletes all pods of a NodeSet and makes those of another.
func (r *slinkyRig) replaces(t *testing.T) {
	for n := range 18 {
		r.end(fmt.Sprintf("b-%d", n))
	}
	for n := range 18 {
		r.addWorker("b", fmt.Sprintf("next-%d", n), fmt.Sprintf("next-%02d", n), 18+n)
	}
	r.untilMembers(t, "renamed", "next-[00-17] ", "gpu-0")
	cm := r.until(t, "renamed", "quoin-b", has("- block: "))
	if held := cm.Annotations[plandoc.AnnotationHeldReason]; held != "" {
		t.Errorf("held %q:\n%s", held, cm.Data["topology.yaml"])
	}
}

func (r *slinkyRig) rests(t *testing.T) {
	writes := r.writes(t, func() {
		for n := range 3 { // what kubelets write all the time
			if err := r.SetReady(t.Context(), "slurm", fmt.Sprintf("a-%d", n), corev1.ConditionTrue); err != nil {
				t.Fatal(err)
			}
		}
	})
	if len(writes) > 0 {
		t.Errorf("written at rest: %v", writes)
	}
}
