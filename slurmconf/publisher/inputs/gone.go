package inputs

// Gone returns which of the Slurm names are of nodes that are really gone: their Node
// object is gone, or the worker pod that had the name. nodes has the Node of each name, or
// "" if nobody knows the Node. Gone returns nil if the snapshot cannot tell.
//
// A name that another Node has is not gone, nor is a pod that its NodeSet makes again, as
// far as missing can tell. If missing cannot tell and no worker pod is known at all, no pod
// counts as gone.
func (r *Rules) Gone(snap *Snapshot, nodes map[string]string, missing *Missing) map[string]bool {
	if !snap.Whole {
		return nil
	}
	gone := make(map[string]bool, len(nodes))
	if len(nodes) == 0 {
		return gone
	}
	there, named := make(map[string]bool, len(snap.Nodes)), make(map[string]bool, len(snap.Nodes))
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		there[n.Name] = true
		if name, problem := r.NameOf(n); problem.Reason == "" {
			named[name] = true
		}
	}
	pods, remade := r.podNames(snap), missing.remade(nodes)
	for name, node := range nodes {
		nodeGone := node != "" && !there[node]
		podGone := len(pods) > 0 && !pods[name]
		if again, known := remade[name]; known {
			podGone = !again
		}
		if !named[name] && (nodeGone || podGone) {
			gone[name] = true
		}
	}
	return gone
}

// podNames are the Slurm names of all worker pods that the rules look at for names, also of
// pods that end or are not scheduled.
func (r *Rules) podNames(snap *Snapshot) map[string]bool {
	if !r.BySlinky() {
		return nil
	}
	names := map[string]bool{}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		for k := range n.Workers {
			if w := &n.Workers[k]; r.names.has(w) {
				names[w.nameOn(n)] = true
			}
		}
	}
	for i := range snap.Unplaced {
		if w := &snap.Unplaced[i]; r.names.has(w) && w.Hostname != "" {
			names[w.Hostname] = true
		}
	}
	return names
}
