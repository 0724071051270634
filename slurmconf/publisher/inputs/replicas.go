package inputs

import (
	"maps"
	"slices"
)

// NodeSet is what is read of one of Slinky's NodeSets.
type NodeSet struct {
	Namespace, Name string
	// Replicas is how many worker pods it wants, if PerNode is false.
	Replicas int
	// PerNode says that the NodeSet wants one pod on each Node that it selects. Then Replicas
	// means nothing.
	PerNode bool
}

// Owner names the NodeSet that controls a worker pod.
type Owner struct{ Namespace, NodeSet string }

func (w *Worker) owner() Owner { return Owner{w.Namespace, w.NodeSet} }

// OwnerOf returns the NodeSet of the worker pod that gives the Slurm name to the node.
func (r *Rules) OwnerOf(n *Node, name string) Owner {
	for i := range n.Workers {
		if w := &n.Workers[i]; r.names.has(w) && w.nameOn(n) == name {
			return w.owner()
		}
	}
	return Owner{}
}

// PodOwners has the NodeSet of the worker pod of each Slurm name, or of the last pod that had
// the name.
type PodOwners map[string]Owner

// Missing notes whose worker pods there are. It returns what the NodeSets want of the
// published names that no Node has.
func (o PodOwners) Missing(r *Rules, nodes map[string]*Node, snap *Snapshot, names []string) *Missing {
	if !r.BySlinky() {
		return &Missing{}
	}
	for name, n := range nodes {
		if owner := r.OwnerOf(n, name); o[name] != owner {
			o[name] = owner
		}
	}
	owners := make(map[string]Owner, len(names))
	for _, name := range names {
		if owner, known := o[name]; known {
			owners[name] = owner
		}
	}
	if len(o) > len(nodes)+len(owners) {
		maps.DeleteFunc(o, func(name string, _ Owner) bool {
			_, missing := owners[name]
			return nodes[name] == nil && !missing
		})
	}
	return r.Missing(snap, owners)
}

// Missing are the Slurm names that no worker pod has any more, and whose NodeSet says how
// many pods it wants. A NodeSet that has fewer pods makes some again. A NodeSet that has
// enough has been scaled in.
type Missing struct {
	owners map[string]Owner
	// short is how many pods each NodeSet has still to make. It is negative if there are
	// more pods than are wanted.
	short map[Owner]int
}

// Missing looks for the pods of Slurm names. owners has the NodeSet of each name's last pod.
func (r *Rules) Missing(snap *Snapshot, owners map[string]Owner) *Missing {
	m := &Missing{owners: map[string]Owner{}, short: make(map[Owner]int, len(snap.NodeSets))}
	if len(owners) == 0 || len(snap.NodeSets) == 0 || !r.BySlinky() {
		return m
	}
	for _, set := range snap.NodeSets {
		if !set.PerNode {
			m.short[Owner{set.Namespace, set.Name}] = set.Replicas
		}
	}
	snap.eachWorker(func(w *Worker) {
		if n, known := m.short[w.owner()]; known { // also a pod that ends, as Slinky counts
			m.short[w.owner()] = n - 1
		}
	})
	pods := r.podNames(snap)
	for name, owner := range owners {
		if _, known := m.short[owner]; known && !pods[name] {
			m.owners[name] = owner
		}
	}
	return m
}

// ScaledIn reports whether the pod of the name is not made again, because its NodeSet has
// all the pods that it wants.
func (m *Missing) ScaledIn(name string) bool {
	owner, known := m.owners[name]
	return known && m.short[owner] <= 0
}

// remade says which pods of the names that leave are made again. A name is absent if nobody
// can tell. A NodeSet says how many pods it makes, and not which: first the pods
// of names that do not leave count as made again.
func (m *Missing) remade(leave map[string]string) map[string]bool {
	short := maps.Clone(m.short)
	var names []string
	for name, owner := range m.owners {
		if _, leaves := leave[name]; leaves {
			names = append(names, name)
		} else {
			short[owner]--
		}
	}
	slices.Sort(names)
	remade := make(map[string]bool, len(names))
	for _, name := range names {
		remade[name] = short[m.owners[name]] > 0
		short[m.owners[name]]--
	}
	return remade
}

// eachWorker calls f for each worker pod.
func (s *Snapshot) eachWorker(f func(*Worker)) {
	for i := range s.Nodes {
		for k := range s.Nodes[i].Workers {
			f(&s.Nodes[i].Workers[k])
		}
	}
	for i := range s.Unplaced {
		f(&s.Unplaced[i])
	}
}
