package manifests_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/testdata/rig/await"
	"github.com/quoin-hpc/quoin/testdata/rig/kuberig"
)

// TestRealAgentLetsGo labels nodes as RUNBOOKS.md says before the reset of a GPU: Kubernetes
// takes the agent's pod away, makes no other one, and makes one when the label is gone.
func TestRealAgentLetsGo(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	if err := c.StartControllerManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Objects().Apply(t.Context(), "plain/base", "plain/imex"); err != nil {
		t.Fatal(err)
	}
	for name, label := range map[string]string{"a": "nvidia.com/gpu.present", "b": "feature.node.kubernetes.io/pci-10de.present", "c": "quoin.dev/agent", "d": "other"} {
		if err := c.Objects().Create(t.Context(), `{apiVersion: v1, kind: Node, metadata: {name: `+name+`, labels: {`+label+`: "true"}}}`); err != nil {
			t.Fatal(err)
		}
	}
	pods := func(want string) {
		t.Helper()
		await.Until(t, "agents on "+want, func() bool {
			list, err := c.Client().CoreV1().Pods("quoin-node").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=agent"})
			if err != nil {
				t.Fatal(err)
			}
			var on []string
			for i := range list.Items {
				if node := runs(t, c, &list.Items[i]); node != "" {
					on = append(on, node)
				}
			}
			slices.Sort(on)
			return strings.Join(on, " ") == want
		})
	}
	label := func(node, value string) {
		t.Helper()
		if err := c.Objects().Patch(t.Context(), "nodes", "", node, `{"metadata":{"labels":{"quoin.dev/agent":`+value+`}}}`); err != nil {
			t.Fatal(err)
		}
	}
	pods("a b c")
	label("a", `"false"`)
	pods("b c")
	label("b", `"false"`)
	label("c", `"false"`)
	pods("")
	label("a", "null")
	label("c", `"true"`)
	pods("a c")
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
