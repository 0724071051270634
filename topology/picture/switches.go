package picture

import "github.com/quoin-hpc/quoin/topology"

// branch is a switch in the list of the page.
type branch struct {
	Name  string
	Depth int
	Nodes int // below it
}

// parents are the switches above switches.
type parents map[string]string

// path is a switch and all above it.
func (p parents) path(name string) (out []string) {
	for name != "" && len(out) < topology.MaxTiers {
		out = append(out, name)
		name = p[name]
	}
	return out
}

// branchesOf lists the switches, each before the ones below it.
func branchesOf(plan *topology.Plan) []branch {
	switches := plan.Switches()
	above := parents(topology.ParentsOf(switches))
	children, below := map[string][]string{}, map[string]int{}
	for i := range switches {
		s := &switches[i]
		children[above[s.Name]] = append(children[above[s.Name]], s.Name)
		for _, name := range above.path(s.Name) {
			below[name] += len(s.Nodes)
		}
	}
	var out []branch
	var list func(name string, depth int)
	list = func(name string, depth int) {
		out = append(out, branch{name, depth, below[name]})
		for _, child := range children[name] {
			if depth < topology.MaxTiers {
				list(child, depth+1)
			}
		}
	}
	for _, root := range children[""] {
		list(root, 0)
	}
	return out
}
