package main

import (
	"context"
	"fmt"
	"maps"
	"sync"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// rackNodes is the number of nodes of a rack, which is one NVLink domain.
const rackNodes = 18

// machine is one node: what it reports now, and all that it has reported.
type machine struct {
	name   string
	labels map[string]string
	report *topology.Node
	agent  *agent

	mu   sync.Mutex
	now  topology.Clique // zero if it reports none
	said map[topology.Clique]bool
}

// site is all machines, and the clients that write for them.
type site struct {
	cluster  *kuberig.Cluster
	agents   *agents
	admin    kubernetes.Interface
	machines []*machine
	byName   map[string]*machine
}

// newSite plans the racks. Nothing is written yet.
func newSite(c *kuberig.Cluster, racks int) (*site, error) {
	text := fmt.Sprintf(`name: scale
groups:
- {name: gpu, racks: %d, nodes: %d, node: "gpu-{node:05}", nvlink: rack, tiers: ["leaf-{rack:03}", "spine-{rack/20}", "core"],
   gpus: {count: 8, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144, nvlinks: 18}}
`, racks, rackNodes)
	simulation, err := simulated.Parse("scale", []byte(text))
	if err != nil {
		return nil, err
	}
	a, err := newAgents(c)
	if err != nil {
		return nil, err
	}
	admin, err := kubernetes.NewForConfig(&rest.Config{Host: c.Config().Host, BearerToken: c.Config().BearerToken, Transport: newTransport(), QPS: -1})
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	s := &site{cluster: c, agents: a, admin: admin, byName: map[string]*machine{}}
	for _, m := range simulation.Machines() {
		m.Report.Tiers = nil // labels name switches
		one := &machine{name: m.Name, labels: m.Labels, report: m.Report, said: map[topology.Clique]bool{}}
		s.machines, s.byName[m.Name] = append(s.machines, one), one
	}
	return s, nil
}

// rack returns the machines of a rack.
func (s *site) rack(n int) []*machine { return s.machines[n*rackNodes : (n+1)*rackNodes] }

// join adds the Node, gives its agent a token that is bound to the Node, and reports.
func (s *site) join(ctx context.Context, m *machine) error {
	node, err := s.admin.CoreV1().Nodes().Create(ctx, m.node(), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("add node: %w", err)
	}
	bound := &authv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: node.Name, UID: node.UID}
	token, err := s.admin.CoreV1().ServiceAccounts("quoin-node").CreateToken(ctx, "quoin-agent",
		&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make a token of node %s: %w", m.name, err)
	}
	m.agent = s.agents.of(m.name, token.Status.Token)
	return m.say(ctx, m.report)
}

// say reports n, which may be another report than m's own.
func (m *machine) say(ctx context.Context, n *topology.Node) error {
	m.mu.Lock()
	m.now = n.Domain.Clique
	if !m.now.IsZero() {
		m.said[m.now] = true
	}
	m.mu.Unlock()
	return m.agent.report(ctx, n)
}

// has reports whether m has reported the clique at any time.
func (m *machine) has(c topology.Clique) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said[c]
}

// labelCount is how many labels of other programs a Node has.
const labelCount = 60

// node is a Node as a kubelet and the GPU Operator leave it, as far as its size matters.
func (m *machine) node() *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: map[string]string{"nvidia.com/gpu.present": "true"}},
		Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("112"), "nvidia.com/gpu": resource.MustParse("8")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}}}}
	maps.Copy(n.Labels, m.labels)
	for k := range labelCount {
		n.Labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-cpuid.%d", k)] = "true"
	}
	for k := range 20 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 30,
			Names: []string{fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", k, k), fmt.Sprintf("registry.example.com/team/image-%d:v1.2.3", k)}})
	}
	return n
}

// writers is how many machines are written at the same time.
const writers = 48

// each calls do for every machine, many at the same time, and returns the first error.
func each(ctx context.Context, machines []*machine, do func(context.Context, *machine) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan *machine)
	var working sync.WaitGroup
	for range min(writers, len(machines)) {
		working.Go(func() {
			for m := range todo {
				if err := do(ctx, m); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, m := range machines {
		select {
		case todo <- m:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(todo)
	working.Wait()
	return context.Cause(ctx)
}
