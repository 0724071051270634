package slurmconf

import (
	"fmt"
	"slices"
)

// gresUse is what lines of one GRES name say about nodes.
type gresUse struct {
	all   nodeGres // lines for every node
	nodes map[string]nodeGres
}

// nodeGres sums the lines of one node.
type nodeGres struct {
	count                            uint64
	file, noFile, typed, plain, auto bool
	line                             int
}

func (n *nodeGres) add(m nodeGres) {
	n.count += m.count
	n.file, n.noFile = n.file || m.file, n.noFile || m.noFile
	n.typed, n.plain = n.typed || m.typed, n.plain || m.plain
	n.auto = n.auto || m.auto
	n.line = max(n.line, m.line)
}

// note adds the line to what its nodes have.
func (g *gresLinter) note(r *gresRecord, n nodeGres) {
	u := g.names[r.name]
	if u == nil {
		u = &gresUse{nodes: make(map[string]nodeGres)}
		g.names[r.name] = u
		g.order = append(g.order, r.name)
	}
	if !r.hasNodes {
		u.all.add(n)
		return
	}
	var unknown []string
	err := walkHosts(r.nodes, func(name []byte) {
		if g.known != nil {
			if _, ok := g.known[string(name)]; !ok {
				unknown = append(unknown, string(name))
			}
		}
		sum := u.nodes[string(name)]
		sum.add(n)
		u.nodes[string(name)] = sum
	})
	if err != nil {
		g.warn(r.line, "BrokenHostlist", "want such as n[001-018]", fmt.Sprintf("NodeName: %v: slurmd ignores the line", err))
	}
	if len(unknown) > 0 {
		g.warn(r.line, "UnknownNode", "add the nodes to slurm.conf, or take them out", "not in slurm.conf: "+shorten(CompressHostlist(unknown)))
	}
}

// counts judges what all lines together give each node.
func (g *gresLinter) counts() {
	for _, name := range g.order {
		u := g.names[name]
		g.mixed(name, "", u.all)
		reported := make(map[int]bool)
		nodes := make([]string, 0, len(u.nodes))
		for node := range u.nodes {
			nodes = append(nodes, node)
		}
		slices.Sort(nodes)
		for _, node := range nodes {
			sum := u.nodes[node]
			sum.add(u.all)
			if !reported[sum.line] {
				reported[sum.line] = g.mixed(name, " of node "+node, sum)
			}
		}
	}
	g.gpuCounts()
}

// mixed reports lines that say File or Type beside lines that do not.
func (g *gresLinter) mixed(name, of string, n nodeGres) bool {
	if n.file && n.noFile {
		g.fatal(n.line, "MixedFile", "give every line a File, or none", fmt.Sprintf("some lines for %s%s have File and others do not", name, of))
	}
	if n.typed && n.plain {
		g.fatal(n.line, "MixedType", "give every line a Type, or none", fmt.Sprintf("some lines for %s%s have Type and others do not", name, of))
	}
	if n.auto && n.file {
		g.warn(n.line, "AutoDetectAndFile", "use either for a node", fmt.Sprintf("lines for %s%s have File beside AutoDetect: a difference drains the node", name, of))
	}
	return n.file && n.noFile || n.typed && n.plain || n.auto && n.file
}

// gpuCounts compares with slurm.conf's Gres=.
func (g *gresLinter) gpuCounts() {
	if g.auto {
		return
	}
	var fewer []string
	line := 1
	for node, want := range g.NodeGPUs {
		var have nodeGres
		if u := g.names["gpu"]; u != nil {
			have = u.nodes[node]
			have.add(u.all)
		}
		if want > 0 && have.count < uint64(want) {
			fewer, line = append(fewer, node), max(line, have.line)
		}
	}
	if len(fewer) > 0 {
		g.warn(line, "FewerGPUs", "add the devices, or lower Gres= in slurm.conf", fmt.Sprintf("%s have fewer gpus here than in slurm.conf: slurmctld drains them", shorten(CompressHostlist(fewer))))
	}
}
