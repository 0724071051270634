// Package fitting is what quoin fit says: whether a job fits, and how many segments do. It brings
// a topology and the states of its nodes together. Package fit has the rules.
package fitting

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/live"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// Plan is what is known of a Slurm cluster.
type Plan struct {
	Topologies []slurmconf.Topology
	// Owners are the Kubernetes nodes by Slurm name.
	Owners map[string]string
	// States are the nodes' states, and Said is who said them. Without any all nodes count as
	// free.
	States map[string]fit.State
	Said   string
}

// Stored is a plan that the publisher has stored.
func Stored(plan *plandoc.Plan) (*Plan, error) {
	p := &Plan{Owners: map[string]string{}}
	for i := range plan.Nodes {
		p.Owners[plan.Nodes[i].Name] = cmp.Or(plan.Nodes[i].Node, plan.Nodes[i].Name)
	}
	var err error
	p.Topologies, err = plan.Slurm()
	return p, err
}

// Made is a plan that was made just now, as files.
func Made(files map[string]string, placed []placement.Placement) (*Plan, error) {
	p := &Plan{Owners: map[string]string{}}
	for i := range placed {
		p.Owners[placed[i].SlurmName] = placed[i].Node
	}
	var err error
	for name, text := range files {
		if strings.HasPrefix(name, "topology.") {
			if p.Topologies, err = slurmconf.ParseTopologies(name, []byte(text)); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// Topology returns the topology of the name, or the one of partitions that name none.
func (p *Plan) Topology(name string) (*slurmconf.Topology, error) {
	var names []string
	for i := range p.Topologies {
		t := &p.Topologies[i]
		if t.Name == name || name == "" && (t.Default || len(p.Topologies) == 1) {
			return t, nil
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return nil, errors.New("the plan has no topology")
	}
	if name == "" {
		return nil, fmt.Errorf("no topology is the default one: choose one by --topology: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("--topology %s: want one of %s", name, strings.Join(names, ", "))
}

// site returns the topology with the states of its nodes.
func (p *Plan) site(t *slurmconf.Topology) (*fit.Site, error) {
	s := &fit.Site{State: p.state}
	placed := map[string]bool{}
	for i := range p.Topologies {
		if err := addNodes(placed, &p.Topologies[i]); err != nil {
			return nil, err
		}
	}
	if t.Block == nil {
		own := map[string]bool{}
		if err := addNodes(own, t); err != nil {
			return nil, err
		}
		s.Apart = slices.Sorted(maps.Keys(own))
	} else {
		s.Sizes = t.Block.Sizes
		for _, b := range t.Block.Blocks {
			nodes, err := hostlist.Expand(b.Nodes)
			if err != nil {
				return nil, fmt.Errorf("block %s: %w", b.Name, err)
			}
			s.Blocks = append(s.Blocks, fit.Block{Name: b.Name, Nodes: nodes})
		}
		if len(s.Sizes) == 0 {
			return nil, fmt.Errorf("topology %s has no BlockSizes", t.Name)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(p.States)) {
		if !placed[node] {
			s.Apart = append(s.Apart, node)
		}
	}
	return s, nil
}

func addNodes(to map[string]bool, t *slurmconf.Topology) error {
	var lists []string
	if t.Block != nil {
		for _, b := range t.Block.Blocks {
			lists = append(lists, b.Nodes)
		}
	}
	if t.Tree != nil {
		for _, s := range t.Tree.Switches {
			lists = append(lists, s.Nodes)
		}
	}
	for _, list := range lists {
		if err := hostlist.Walk(list, func(node []byte) { to[string(node)] = true }); err != nil {
			return fmt.Errorf("topology %s: %w", t.Name, err)
		}
	}
	return nil
}

func (p *Plan) state(node string) fit.State {
	if p.States == nil {
		return fit.State{}
	}
	if s, known := p.States[node]; known {
		return s
	}
	return fit.State{Use: fit.Unwell, Why: "not in Slurm"}
}

// Live takes the states that the running Slurm says.
func (p *Plan) Live(nodes map[string]live.Node, said string) {
	p.States, p.Said = make(map[string]fit.State, len(nodes)), said
	for name, n := range nodes {
		s := fit.StateOf(n.State)
		s.GPUs = fit.GPUs(n.Gres)
		p.States[name] = s
	}
}

// Sinfo takes the states of a file: the output of sinfo -N, or of scontrol --json show nodes.
func (p *Plan) Sinfo(name string, in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, maxFile))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if strings.HasPrefix(strings.TrimSpace(string(text[:min(len(text), 100)])), "{") {
		nodes, err := live.ReadNodes(strings.NewReader(string(text)))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p.Live(nodes, name)
		return nil
	}
	p.States, err = fit.ReadSinfo(name, strings.NewReader(string(text)))
	p.Said = name
	return err
}

// maxFile bounds a file with the states of nodes, in bytes.
const maxFile = 256 << 20

// Pods takes the states that Slinky's operator wrote into the conditions of worker pods. in has
// lists as kubectl get -o json prints them. Without any such condition nothing is known.
func (p *Plan) Pods(in io.Reader) error {
	states := map[string]fit.State{}
	for d := json.NewDecoder(in); ; {
		var list struct {
			Kind  string            `json:"kind"`
			Items []json.RawMessage `json:"items"`
		}
		if err := d.Decode(&list); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("read pods: %w", err)
		}
		for _, item := range list.Items {
			var kind metav1.TypeMeta
			if err := json.Unmarshal(item, &kind); err != nil || cmp.Or(kind.Kind, strings.TrimSuffix(list.Kind, "List")) != "Pod" {
				continue
			}
			var pod corev1.Pod
			if err := json.Unmarshal(item, &pod); err != nil {
				return fmt.Errorf("read pods: %w", err)
			}
			p.addPod(states, &pod)
		}
	}
	if len(states) > 0 {
		p.States, p.Said = states, "the conditions of Slinky's pods"
	}
	return nil
}

func (p *Plan) addPod(states map[string]fit.State, pod *corev1.Pod) {
	facts := inputs.Pod{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Hostname: pod.Spec.Hostname, Labels: pod.Labels, HostNetwork: pod.Spec.HostNetwork}
	name := facts.Worker()
	if owner := cmp.Or(p.Owners[name.Hostname], name.Hostname); owner != pod.Spec.NodeName {
		return // of another Slurm cluster, or not where the plan has it
	}
	var words []string
	for _, c := range pod.Status.Conditions {
		if word := inputs.StateWord(string(c.Type)); word != "" && c.Status == corev1.ConditionTrue {
			words = append(words, word)
		}
	}
	if len(words) > 0 {
		states[name.Hostname] = fit.StateOf(words...)
	}
}
