package imexrig

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
)

// isDaemon reports whether a pod is of a domain's daemons.
func (f *Fleet) isDaemon(pod *corev1.Pod) bool {
	return pod.Namespace == f.namespace && pod.Labels[DomainLabel] != ""
}

// runDaemon plays a domain's daemon on the node: it marks its pod, enters its
// clique, starts IMEX, and once its pod is ready says so in its entry.
func (n *Node) runDaemon(ctx context.Context, v view, pod *corev1.Pod, p *process) error {
	p.domain = pod.Labels[DomainLabel]
	if clique, ok := pod.Labels[CliqueLabel]; !ok || clique != p.clique {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, CliqueLabel, p.clique)
		_, err := n.fleet.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("mark daemon's pod %s: %w", pod.Name, err)
		}
		return nil // the event of it goes on
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP != p.address {
		return n.setStatus(ctx, pod, p.address, false)
	}
	if p.clique != "" || n.fleet.noCliques {
		if in, err := n.enter(ctx, v, pod, p); err != nil || !in {
			return err
		}
	}
	if p.joined.IsZero() {
		p.joined = time.Now()
	}
	if wait := v.readyAfter - time.Since(p.joined); !p.up && wait > 0 {
		n.fleet.queue.AddAfter(n.name, wait)
	} else {
		p.up = true
	}
	return n.setStatus(ctx, pod, p.address, v.ready && p.up)
}

// enter keeps the daemon's entry in its clique: there, with its address, and
// ready when its pod is. It reports whether nothing had to be written.
func (n *Node) enter(ctx context.Context, v view, pod *corev1.Pod, p *process) (bool, error) {
	if n.fleet.noCliques {
		return n.enterStatus(ctx, v, pod, p)
	}
	clique := n.fleet.clique(p.domain, p.clique)
	if clique == nil {
		return false, n.makeClique(ctx, pod, p)
	}
	clique = clique.DeepCopy()
	changed, err := n.change(&clique.Daemons, v, pod, p)
	if err != nil || !changed {
		return err == nil, err
	}
	own(clique, pod)
	return false, n.writeClique(ctx, clique)
}

// change makes the daemon's entry what it is to be, and reports whether it was another.
func (n *Node) change(entries *[]*nvapi.ComputeDomainDaemonInfo, v view, pod *corev1.Pod, p *process) (changed bool, err error) {
	entry, status := entryOf(*entries, n.name), statusOf(pod)
	switch {
	case v.lost && entry == nil:
		return false, nil
	case v.lost:
		*entries = slices.DeleteFunc(*entries, func(d *nvapi.ComputeDomainDaemonInfo) bool { return d == entry })
	case entry == nil:
		index, err := freeIndex(*entries, p.clique)
		if err != nil {
			return false, err
		}
		*entries = append(*entries, &nvapi.ComputeDomainDaemonInfo{
			NodeName: n.name, IPAddress: p.address, CliqueID: p.clique, Index: index, Status: nvapi.ComputeDomainStatusNotReady,
		})
	case entry.IPAddress != p.address:
		entry.IPAddress = p.address
	case entry.Status != status && !v.frozen:
		entry.Status = status
	default:
		return false, nil
	}
	return true, nil
}

func statusOf(pod *corev1.Pod) string {
	if podReady(pod) {
		return nvapi.ComputeDomainStatusReady
	}
	return nvapi.ComputeDomainStatusNotReady
}

// leave takes the daemon out of its clique, as its process does when it is asked
// to end.
func (n *Node) leave(ctx context.Context, p *process) error {
	if p.domain == "" || p.clique == "" {
		return nil
	}
	clique := n.fleet.clique(p.domain, p.clique)
	if clique == nil {
		return nil
	}
	clique = clique.DeepCopy()
	before := len(clique.Daemons)
	clique.Daemons = slices.DeleteFunc(clique.Daemons, func(d *nvapi.ComputeDomainDaemonInfo) bool { return d.IPAddress == p.address })
	if len(clique.Daemons) == before {
		return nil
	}
	return n.writeClique(ctx, clique)
}

// clique returns the clique's object of a domain, nil where there is none.
func (f *Fleet) clique(domain, id string) *nvapi.ComputeDomainClique {
	obj, there, err := f.cliques.GetByKey(f.namespace + "/" + domain + "." + id)
	if err != nil || !there {
		return nil
	}
	return obj.(*nvapi.ComputeDomainClique)
}

// entryOf returns a node's entry, nil where it has none.
func entryOf(entries []*nvapi.ComputeDomainDaemonInfo, node string) *nvapi.ComputeDomainDaemonInfo {
	for _, d := range entries {
		if d.NodeName == node {
			return d
		}
	}
	return nil
}

// freeIndex returns the lowest that no daemon of the clique has.
func freeIndex(entries []*nvapi.ComputeDomainDaemonInfo, clique string) (int, error) {
	for index := range MaxDaemons {
		if !slices.ContainsFunc(entries, func(d *nvapi.ComputeDomainDaemonInfo) bool { return d.CliqueID == clique && d.Index == index }) {
			return index, nil
		}
	}
	return 0, fmt.Errorf("no available indices within maxNodesPerIMEXDomain (%d)", MaxDaemons)
}

func (n *Node) makeClique(ctx context.Context, pod *corev1.Pod, p *process) error {
	clique := &nvapi.ComputeDomainClique{ObjectMeta: metav1.ObjectMeta{
		Name: p.domain + "." + p.clique, Namespace: n.fleet.namespace, Labels: map[string]string{DomainLabel: p.domain, CliqueLabel: p.clique},
	}}
	own(clique, pod)
	_, err := n.fleet.nvidia.ResourceV1beta1().ComputeDomainCliques(n.fleet.namespace).Create(ctx, clique, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make clique %s: %w", clique.Name, err)
	}
	n.fleet.queue.Add(n.name) // its first event names no node
	return nil
}

func (n *Node) writeClique(ctx context.Context, clique *nvapi.ComputeDomainClique) error {
	_, err := n.fleet.nvidia.ResourceV1beta1().ComputeDomainCliques(clique.Namespace).Update(ctx, clique, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write clique %s: %w", clique.Name, err)
	}
	return nil
}

// own makes a daemon's pod one of the owners of its clique.
func own(clique *nvapi.ComputeDomainClique, pod *corev1.Pod) {
	for _, o := range clique.OwnerReferences {
		if o.UID == pod.UID {
			return
		}
	}
	clique.OwnerReferences = append(clique.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
}
