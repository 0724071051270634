package imex

import "slices"

// ties are what joins nodes and cliques: a node is tied to its own clique, and to
// those that it has entries in. What is not tied to a node, not by way of others
// either, has no part in the verdict on it.
type ties struct {
	cliques map[string][]string // by the node
	nodes   map[string][]string // by the clique
}

// add adds those of a Seen. byStatus is as of judgeInto.
func (t *ties) add(s *Seen, byStatus bool) {
	if t.nodes == nil {
		t.cliques, t.nodes = make(map[string][]string, len(s.Nodes)), make(map[string][]string, len(s.Cliques))
	}
	for name, n := range s.Nodes {
		if id := n.CliqueID(); id != "" {
			t.tie(name, id)
		}
	}
	for i := range s.Cliques {
		for m := range s.Cliques[i].Daemons {
			t.tie(s.Cliques[i].Daemons[m].Node, s.Cliques[i].ID)
		}
	}
	if !byStatus {
		return
	}
	for name, m := range s.Members {
		if m.Clique != "" {
			t.tie(name, m.Clique)
		}
	}
}

func (t *ties) tie(node, clique string) {
	if slices.Contains(t.cliques[node], clique) {
		return
	}
	t.cliques[node] = append(t.cliques[node], clique)
	t.nodes[clique] = append(t.nodes[clique], node)
}

// drop drops those of what is reached, which has no others.
func (t *ties) drop(r *reached) {
	for name := range r.nodes {
		delete(t.cliques, name)
	}
	for id := range r.cliques {
		delete(t.nodes, id)
	}
}

// follow adds what is tied to what is reached, and reports whether these are no more
// than so many nodes.
func (r *reached) follow(t *ties, most int) bool {
	var names, ids []string // whose ties are to be followed
	reach := func(name string) {
		if !r.nodes[name] {
			r.nodes[name] = true
			names = append(names, name)
		}
	}
	for name := range r.nodes {
		names = append(names, name)
	}
	for id := range r.cliques {
		ids = append(ids, id)
	}
	for len(names)+len(ids) > 0 && len(r.nodes) <= most {
		for _, id := range ids {
			for _, name := range t.nodes[id] {
				reach(name)
			}
		}
		ids = nil
		for _, name := range names {
			for _, id := range t.cliques[name] {
				if !r.cliques[id] {
					r.cliques[id] = true
					ids = append(ids, id)
				}
			}
		}
		names = nil
	}
	return len(r.nodes) <= most
}
