// Package inputs turns what a cluster shows of its nodes into the facts that a plan is
// made from.
//
// A Snapshot holds Node objects, parsed reports, worker pods and ResourceSlices.
// Rules say which of the nodes a publication takes and how Slurm calls them. Rules and a
// Snapshot give Inputs: facts by Slurm name, and the nodes that have no name, with the
// reason. ListReader makes a Snapshot from the output of kubectl get -o json.
//
// The package has no clock and no network. It changes no Snapshot.
package inputs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// Inputs are the nodes that a publication takes, as a plan needs them.
type Inputs struct {
	// Facts has one entry for each Slurm name of a node, mostly one.
	Facts []topology.Facts
	// Unnamed says why a node has no Slurm name. UnnamedFacts are the facts of these nodes.
	Unnamed      []topology.Finding
	UnnamedFacts []topology.Facts
	// Problems are further problems of nodes.
	Problems []topology.Finding
	// Nodes has the nodes of Facts by Slurm name. All has these and the nodes of Unnamed by their own name.
	Nodes, All map[string]*Node
	// States are Slurm's words for the state of nodes by Slurm name, if worker pods in a list
	// have them.
	States map[string]string
	// Claimed says why no node has a Slurm name that several nodes claim. A published node
	// keeps such a name.
	Claimed map[string]string
	// Fabrics are the texts of the publication's fabrics, in the order of its fabricFiles.
	Fabrics []FabricText
	// Described are adapters of nodes by Node that --ibnetdiscover of a command knows by their descriptions.
	Described map[string][]switches.Adapter
	// Pending are the Slurm names of worker pods that are not scheduled yet.
	Pending map[string]bool
	// Pools are Slinky's NodeSets that have worker pods of the cluster. AllPools says that each NodeSet of
	// the cluster has a pod on a Node. NodeSets says that the NodeSets of the cluster can be read.
	Pools              []Pool
	AllPools, NodeSets bool
	// Expected are the facts of Nodes without a worker pod, with the Slurm name that a NodeSet with a pod on
	// each Node gives them.
	Expected []topology.Facts
}

// Gather returns what the snapshot says of the nodes that the rules take.
func (r *Rules) Gather(snap *Snapshot) Inputs {
	in := Inputs{Facts: make([]topology.Facts, 0, len(snap.Nodes)), Nodes: make(map[string]*Node, len(snap.Nodes)),
		All: make(map[string]*Node, len(snap.Nodes)), States: map[string]string{}, Claimed: map[string]string{}, Pending: map[string]bool{}}
	unreadable := snap.Unreadable()
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if !r.Takes(n) {
			continue
		}
		in.All[n.Name] = n
		names, problem := r.NamesOf(n)
		if problem.Reason != "" {
			in.Unnamed = append(in.Unnamed, problem)
			in.UnnamedFacts = append(in.UnnamedFacts, r.Read(n, snap, unreadable))
			continue
		}
		f := r.Read(n, snap, unreadable)
		in.judgeSlices(&f)
		if f.Shared = len(names) > 1; f.Shared {
			in.Problems = append(in.Problems, topology.Finding{Severity: topology.Warning, Subject: topology.Subject{Node: n.Name}, Reason: ReasonTwoWorkerPods,
				Message: fmt.Sprintf("its worker pods have the Slurm names %s: each is published in the node's place, and slurmd detects which GPUs its pod has", strings.Join(names, " and "))})
		}
		for _, name := range names {
			f.SlurmName = name
			in.Facts = append(in.Facts, f)
			in.Nodes[name] = n
			if state := n.slurmState(r.names, name); state != "" {
				in.States[name] = state
			}
		}
	}
	switch {
	case r.BySlinky():
		in.checkClusters(r, snap)
		in.Pools, in.AllPools = r.pools(snap)
		in.NodeSets = slices.ContainsFunc(snap.NodeSets, func(set NodeSet) bool { return r.names.hasSet(&set) })
		in.expect(r, snap)
	case r.ByPods():
		in.checkPods(r, snap)
	}
	in.checkTaken(r)
	in.TakeFabrics(r.FabricsOf(snap))
	if r.ByPods() {
		for i := range snap.Unplaced {
			if w := &snap.Unplaced[i]; r.names.has(w) && !w.Ending && w.Hostname != "" {
				in.Pending[w.Hostname] = true
			}
		}
	}
	return in
}

// UnnamedProblems are the problems of nodes that should have a Slurm name. A node on which
// no worker pod runs is no problem.
func (in *Inputs) UnnamedProblems() []topology.Finding {
	return slices.DeleteFunc(slices.Clone(in.Unnamed), func(p topology.Finding) bool { return p.Reason == ReasonNoWorkerPod })
}

// checkClusters takes the names from all nodes if it is not clear which Slurm cluster is
// meant.
func (in *Inputs) checkClusters(r *Rules, snap *Snapshot) {
	found := r.clusters(snap)
	if len(found) < 2 {
		return
	}
	message := fmt.Sprintf("there are worker pods of Slurm clusters %s: say which one with slurmNames: slinky:NAMESPACE/CONTROLLER", strings.Join(found, " and "))
	for i := range in.Facts {
		in.unname(&in.Facts[i], ReasonTwoSlurmClusters, message)
	}
	in.Facts = in.Facts[:0]
}

// expect says which Nodes without a worker pod may still get one of a NodeSet with a pod on each Node.
func (in *Inputs) expect(r *Rules, snap *Snapshot) {
	if !slices.ContainsFunc(snap.NodeSets, func(set NodeSet) bool { return set.PerNode && r.names.hasSet(&set) }) {
		return
	}
	for i := range in.Unnamed {
		if n := in.All[in.Unnamed[i].Node]; in.Unnamed[i].Reason == ReasonNoWorkerPod {
			f := in.UnnamedFacts[i]
			f.SlurmName = (&Worker{}).nameOn(n)
			in.Expected = append(in.Expected, f)
		}
	}
}

// checkPods says of nodes without a pod that the selector of slurmNames selects none at all.
func (in *Inputs) checkPods(r *Rules, snap *Snapshot) {
	for w := range snap.allWorkers() {
		if r.names.has(w) {
			return
		}
	}
	for i := range in.Unnamed {
		if p := &in.Unnamed[i]; p.Reason == ReasonNoWorkerPod {
			p.Message += ", nor on any other node; " + r.names.whereNone(snap.Whole)
		}
	}
}

// unname takes a node's Slurm name. A published node keeps the name.
func (in *Inputs) unname(f *topology.Facts, reason, message string) {
	in.Unnamed = append(in.Unnamed, topology.Finding{Subject: topology.Subject{Node: f.Name}, Reason: reason, Message: message})
	in.UnnamedFacts = append(in.UnnamedFacts, *f)
	in.Claimed[f.SlurmName] = message
	delete(in.Nodes, f.SlurmName)
}

// checkTaken takes the name from nodes that share it. If pods say the names, a node keeps
// the name if its pod is the only one of that name that is not ending.
func (in *Inputs) checkTaken(r *Rules) {
	if len(in.Nodes) == len(in.Facts) {
		return
	}
	named := make(map[string][]string, len(in.Facts))
	for i := range in.Facts {
		named[in.Facts[i].SlurmName] = append(named[in.Facts[i].SlurmName], in.Facts[i].Name)
	}
	owners := map[string]string{}
	for name, nodes := range named {
		live := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
			return r.ByPods() && r.onlyEnding(in.All[node])
		})
		if len(nodes) == 1 {
			live = nodes
		}
		if len(live) == 1 {
			owners[name] = live[0]
		}
	}
	in.Facts = slices.DeleteFunc(in.Facts, func(f topology.Facts) bool {
		if owners[f.SlurmName] == f.Name {
			return false
		}
		in.unname(&f, ReasonSlurmNameTaken, fmt.Sprintf("nodes %s have the Slurm name %s, by %s: %s", hostlist.Shorten(strings.Join(named[f.SlurmName], ", ")), f.SlurmName, r.namedBy(), r.otherName()))
		return true
	})
	for name, node := range owners {
		in.Nodes[name] = in.All[node]
		delete(in.Claimed, name)
	}
}
