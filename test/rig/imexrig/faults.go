package imexrig

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// set changes what the node is played by, and plays it on.
func (n *Node) set(change func()) {
	n.mu.Lock()
	change()
	n.mu.Unlock()
	n.fleet.queue.Add(n.name)
}

func (n *Node) setErr(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

// Err says why the node does not get on, such as a label of another domain or a
// clique that is full; nil where it does.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// SetReady makes the IMEX daemon ready or not ready: its pod first, which the
// daemon then writes into its entry. Not ready stays until it is set again.
func (n *Node) SetReady(ready bool) { n.set(func() { n.ready = ready }) }

// SetReadyAfter sets how long an IMEX daemon takes from its entry to be ready, for
// daemons that are not ready yet.
func (n *Node) SetReadyAfter(d time.Duration) { n.set(func() { n.readyAfter = d }) }

// LoseEntry takes the node's entry out of its clique, as a lost update does, until
// it is called with false. The daemon goes on and takes itself for entered; its
// next entry gets the next free index.
func (n *Node) LoseEntry(lost bool) { n.set(func() { n.lost = lost }) }

// FreezeStatus keeps the status in the node's entry as it is, as lost updates do,
// until it is called with false.
func (n *Node) FreezeStatus(frozen bool) { n.set(func() { n.frozen = frozen }) }

// FallBehind has the kubelet unprepare nothing until it is called with false, as one
// does that has yet to find out that a pod was deleted by force.
func (n *Node) FallBehind(behind bool) { n.set(func() { n.behind = behind }) }

// RestartDaemon deletes the pod of the node's daemon. The daemon takes itself out
// of its clique, and the next one enters with another address and the lowest free
// index.
func (n *Node) RestartDaemon(ctx context.Context) error {
	objects, err := n.fleet.pods.ByIndex(byNode, n.name)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if pod := obj.(*corev1.Pod); n.fleet.isDaemon(pod) {
			err := n.fleet.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
			if err != nil {
				return fmt.Errorf("restart daemon of node %s: %w", n.name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("restart daemon of node %s: it has none", n.name)
}

// Kill takes the node's power: nothing on it says anything any more, and its entry
// stays as it was. What the node controller writes after a while is written at
// once: the node's condition, and that its pods are not ready.
func (n *Node) Kill(ctx context.Context) error {
	n.set(func() { n.dead = true })
	if err := n.setMachineReady(ctx, corev1.ConditionUnknown); err != nil {
		return err
	}
	objects, err := n.fleet.pods.ByIndex(byNode, n.name)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		pod := obj.(*corev1.Pod)
		patch := `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"NodeNotReady"}]}}`
		_, err := n.fleet.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if err != nil {
			return fmt.Errorf("kill node %s: %w", n.name, err)
		}
	}
	return nil
}

// Boot starts the node again, after Kill or without it. Its pods are the same and
// their addresses are new. In another clique than before, the daemon enters that
// one, and its entry under the old one stays: nothing takes it away while the node
// has a daemon's pod.
func (n *Node) Boot(ctx context.Context, clique string) error {
	label := "null"
	if clique != "" {
		label = fmt.Sprintf("%q", clique)
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, GPUClique, label)
	if _, err := n.fleet.kube.CoreV1().Nodes().Patch(ctx, n.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("boot node %s: %w", n.name, err)
	}
	if err := n.setMachineReady(ctx, corev1.ConditionTrue); err != nil {
		return err
	}
	n.set(func() {
		n.boot++
		n.dead, n.clique = false, clique
	})
	return nil
}

func (n *Node) setMachineReady(ctx context.Context, ready corev1.ConditionStatus) error {
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, ready)
	if _, err := n.fleet.kube.CoreV1().Nodes().Patch(ctx, n.name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("write condition of node %s: %w", n.name, err)
	}
	return nil
}
