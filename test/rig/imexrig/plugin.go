package imexrig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
)

// prepared is a claim that the kubelet plugin has begun to prepare.
type prepared struct {
	channelOf string // the domain's UID; empty for a daemon's claim
	done      bool
}

// prepare prepares a claim as the kubelet plugin does, and reports whether that is
// done: for a channel, the node's label first, which brings the daemon, and then
// the wait for that daemon.
func (n *Node) prepare(ctx context.Context, v view, claim *resourcev1.ResourceClaim) (bool, error) {
	if p := n.prepared[claim.UID]; p != nil && p.done {
		return true, nil
	}
	config, err := channelConfig(claim)
	if err != nil {
		return false, err
	}
	p := &prepared{}
	n.prepared[claim.UID] = p
	if config == nil {
		p.done = true
		return true, nil
	}
	p.channelOf = config.DomainID
	domain := n.fleet.domain(config.DomainID)
	if domain == nil {
		return false, fmt.Errorf("ComputeDomain not found: %s", config.DomainID)
	}
	if domain.Namespace != claim.Namespace {
		return false, errors.New("the ResourceClaim's namespace is different than the ComputeDomain's namespace")
	}
	if err := n.label(ctx, config.DomainID); err != nil {
		return false, err
	}
	p.done = n.memberReady(v.clique, domain)
	return p.done, nil
}

// channelConfig returns the driver's configuration of a channel's claim, nil for
// the claim of a daemon or of another driver.
func channelConfig(claim *resourcev1.ResourceClaim) (*nvapi.ComputeDomainChannelConfig, error) {
	for _, c := range claim.Status.Allocation.Devices.Config {
		if c.Opaque == nil || c.Opaque.Driver != DriverName {
			continue
		}
		obj, err := runtime.Decode(nvapi.StrictDecoder, c.Opaque.Parameters.Raw)
		if err != nil {
			return nil, err
		}
		if channel, ok := obj.(*nvapi.ComputeDomainChannelConfig); ok {
			return channel, channel.Validate()
		}
	}
	return nil, nil //nolint:nilnil // it has none
}

// domain returns a ComputeDomain, nil where there is none of that UID.
func (f *Fleet) domain(uid string) *nvapi.ComputeDomain {
	for _, obj := range f.domains.List() {
		if d := obj.(*nvapi.ComputeDomain); d.UID == types.UID(uid) {
			return d
		}
	}
	return nil
}

// memberReady reports whether the node's own daemon is ready, by its clique or,
// for a node without one, by the domain's status.
func (n *Node) memberReady(clique string, domain *nvapi.ComputeDomain) bool {
	if object := n.fleet.clique(string(domain.UID), clique); object != nil {
		if d := entryOf(object.Daemons, n.name); d != nil && d.Status == nvapi.ComputeDomainStatusReady {
			return true
		}
	}
	return slices.ContainsFunc(domain.Status.Nodes, func(m *nvapi.ComputeDomainNode) bool {
		return m.Name == n.name && m.Status == nvapi.ComputeDomainStatusReady
	})
}

// label gives the node the label of a domain.
func (n *Node) label(ctx context.Context, domain string) error {
	has, machine, err := n.labelled()
	switch {
	case err != nil || has == domain:
		return err
	case has != "":
		return errors.New("label already exists for a different ComputeDomain")
	}
	machine.Labels[DomainLabel] = domain
	return n.update(ctx, machine)
}

// unlabel takes the label of a domain from the node.
func (n *Node) unlabel(ctx context.Context, domain string) error {
	has, machine, err := n.labelled()
	if err != nil || has != domain {
		return err
	}
	delete(machine.Labels, DomainLabel)
	return n.update(ctx, machine)
}

// labelled returns the domain of the node's label and a copy of its object.
func (n *Node) labelled() (string, *corev1.Node, error) {
	obj, there, err := n.fleet.machines.GetByKey(n.name)
	if err != nil {
		return "", nil, err
	}
	if !there {
		return "", nil, fmt.Errorf("node %s is not there", n.name)
	}
	machine := obj.(*corev1.Node).DeepCopy()
	return machine.Labels[DomainLabel], machine, nil
}

func (n *Node) update(ctx context.Context, machine *corev1.Node) error {
	if _, err := n.fleet.kube.CoreV1().Nodes().Update(ctx, machine, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write labels of node %s: %w", n.name, err)
	}
	return nil
}

// unprepareUnused unprepares what no pod uses any more. The end of any claim for a
// channel of a domain takes the node's label, and so the daemon.
func (n *Node) unprepareUnused(ctx context.Context, live []*corev1.Pod) error {
	used := map[types.UID]bool{}
	for _, pod := range live {
		claims, _, err := n.fleet.claimsOf(pod)
		if err != nil {
			return err
		}
		for _, claim := range claims {
			used[claim.UID] = true
		}
	}
	for uid, p := range maps.Clone(n.prepared) {
		if used[uid] {
			continue
		}
		if p.channelOf != "" {
			if err := n.unlabel(ctx, p.channelOf); err != nil {
				return err
			}
		}
		delete(n.prepared, uid)
	}
	return nil
}
