package manifests_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// TestRealAgentLetsGo labels nodes as RUNBOOKS.md says before the reset of a GPU: Kubernetes
// takes the agent's pod away, makes no other one, and makes one when the label is gone.
func TestRealAgentLetsGo(t *testing.T) {
	t.Parallel()
	c := startSets(t, "base", "imex")
	for name, label := range map[string]string{"a": "nvidia.com/gpu.present", "b": "feature.node.kubernetes.io/pci-10de.present", "c": "quoin.dev/agent", "d": "other"} {
		createNode(t, c, `{name: `+name+`, labels: {`+label+`: "true"}}`, "[]")
	}
	label := func(node, value string) { labelNode(t, c, node, "quoin.dev/agent", value) }
	untilOn(t, c, "agent", "a b c")
	label("a", `"false"`)
	untilOn(t, c, "agent", "b c")
	label("b", `"false"`)
	label("c", `"false"`)
	untilOn(t, c, "agent", "")
	label("a", "null")
	label("c", `"true"`)
	untilOn(t, c, "agent", "a c")
}

// TestRealAgentMakesWay changes the label of GPU Operator as the operator does while it upgrades the driver or changes MIG:
// Kubernetes takes the agent's pod away, and later makes one again. The pods that hold IMEX channels stay. A node that is
// tainted for Slurm has both pods.
func TestRealAgentMakesWay(t *testing.T) {
	t.Parallel()
	c := startSets(t, "gpu-operator", "imex")
	if err := c.Objects().Create(t.Context(), "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, handler: nvidia}"); err != nil {
		t.Fatal(err)
	}
	for name, taints := range map[string]string{"a": "[]", "b": "[{key: slinky.slurm.net/slurm, effect: NoExecute}]"} {
		createNode(t, c, `{name: `+name+`, labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.deploy.dcgm-exporter: "true"}}`, taints)
	}
	untilOn(t, c, "agent", "a b")
	holders := untilOn(t, c, "imex", "a b")
	for _, paused := range []string{`"paused-for-driver-upgrade"`, `"paused-for-mig-change"`} {
		labelNode(t, c, "a", "nvidia.com/gpu.deploy.dcgm-exporter", paused)
		untilOn(t, c, "agent", "b")
		labelNode(t, c, "a", "nvidia.com/gpu.deploy.dcgm-exporter", `"true"`)
		untilOn(t, c, "agent", "a b")
	}
	if diff := cmp.Diff(holders, untilOn(t, c, "imex", "a b")); diff != "" {
		t.Errorf("pods that hold channels (-before +after):\n%s", diff)
	}
}

// startSets starts a cluster with folders of plain/, where a real controller makes the pods of DaemonSets.
func startSets(t *testing.T, folders ...string) *kuberig.Cluster {
	t.Helper()
	c := kuberig.StartTest(t)
	if err := c.StartControllerManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "apply", "-k", overlay(t, folders...)); err != nil {
		t.Fatal(err)
	}
	return c
}

func createNode(t *testing.T, c *kuberig.Cluster, metadata, taints string) {
	t.Helper()
	if err := c.Objects().Create(t.Context(), "{apiVersion: v1, kind: Node, metadata: "+metadata+", spec: {taints: "+taints+"}}"); err != nil {
		t.Fatal(err)
	}
}

func labelNode(t *testing.T, c *kuberig.Cluster, node, label, value string) {
	t.Helper()
	if err := c.Objects().Patch(t.Context(), "nodes", "", node, `{"metadata":{"labels":{"`+label+`":`+value+`}}}`); err != nil {
		t.Fatal(err)
	}
}

// untilOn waits until the pods of a component are on the nodes, and returns the UID of each by node.
func untilOn(t *testing.T, c *kuberig.Cluster, component, want string) map[string]types.UID {
	t.Helper()
	var on map[string]types.UID
	await.Until(t, component+" on "+want, func() bool {
		list, err := c.Client().CoreV1().Pods("quoin-node").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
		if err != nil {
			t.Fatal(err)
		}
		on = map[string]types.UID{}
		for i := range list.Items {
			if node := runs(t, c, &list.Items[i]); node != "" {
				on[node] = list.Items[i].UID
			}
		}
		return strings.Join(slices.Sorted(maps.Keys(on)), " ") == want
	})
	return on
}

// runs does the work of scheduler and kubelet on a pod of a DaemonSet: it puts the pod on its
// node, and ends a pod that was deleted. It returns the node of a pod that runs on.
func runs(t *testing.T, c *kuberig.Cluster, pod *corev1.Pod) string {
	t.Helper()
	pods := c.Client().CoreV1().Pods(pod.Namespace)
	var err error
	switch node := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]; {
	case pod.DeletionTimestamp != nil:
		now := int64(0)
		err = pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	case pod.Spec.NodeName == "":
		err = pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
	default:
		return node
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return ""
}
