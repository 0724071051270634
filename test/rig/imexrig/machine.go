package imexrig

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AddNode makes a Node object, publishes its devices as the kubelet plugin does,
// and plays it from then on.
func (f *Fleet) AddNode(ctx context.Context, s Spec) (*Node, error) {
	labels := map[string]string{corev1.LabelHostname: s.Name, "nvidia.com/gpu.present": "true"}
	maps.Copy(labels, s.Labels)
	if s.Clique != "" {
		labels[GPUClique] = s.Clique
	}
	gpus := s.GPUs
	if gpus == 0 {
		gpus = 4
	}
	nodes := f.kube.CoreV1().Nodes()
	machine, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: labels}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("add node %s: %w", s.Name, err)
	}
	patch := fmt.Sprintf(`{"spec":{"taints":null},"status":%s}`, status(gpus, corev1.ConditionTrue))
	// The API server taints new nodes; the node controller would take that away.
	if _, err := nodes.Patch(ctx, s.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return nil, fmt.Errorf("add node %s: %w", s.Name, err)
	}
	if _, err := nodes.Patch(ctx, s.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		return nil, fmt.Errorf("add node %s: %w", s.Name, err)
	}
	n := newNode(f, s)
	if !s.NoDevices {
		if err := n.publish(ctx, machine); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	f.nodes[s.Name] = n
	f.mu.Unlock()
	f.queue.Add(s.Name)
	return n, nil
}

// Publish publishes the devices of a node that was made without.
func (n *Node) Publish(ctx context.Context) error {
	machine, err := n.fleet.kube.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("publish devices of node %s: %w", n.name, err)
	}
	return n.publish(ctx, machine)
}

func (n *Node) publish(ctx context.Context, machine *corev1.Node) error {
	if _, err := n.fleet.kube.ResourceV1().ResourceSlices().Create(ctx, slice(machine), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("publish devices of node %s: %w", n.name, err)
	}
	return nil
}

// status is a node's, in JSON.
func status(gpus int, ready corev1.ConditionStatus) string {
	has := fmt.Sprintf(`{"cpu":"144","memory":"900Gi","pods":"110","nvidia.com/gpu":%q}`, strconv.Itoa(gpus))
	return fmt.Sprintf(`{"capacity":%s,"allocatable":%s,"conditions":[{"type":"Ready","status":%q}]}`, has, has, ready)
}

// slice is what a node's kubelet plugin publishes: one channel and one daemon.
func slice(machine *corev1.Node) *resourcev1.ResourceSlice {
	device := func(kind string) resourcev1.Device {
		return resourcev1.Device{Name: kind + "-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"type": {StringValue: &kind}, "id": {IntValue: new(int64(0))},
		}}
	}
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    "0-" + DriverName + "-" + machine.Name + "-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: machine.Name, UID: machine.UID, Controller: new(true)}},
		},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: DriverName, NodeName: &machine.Name,
			Pool:    resourcev1.ResourcePool{Name: machine.Name, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{device("channel"), device("daemon")},
		},
	}
}
