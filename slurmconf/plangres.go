package slurmconf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// nvidiaGPUFlag makes Slurm set the variables of NVIDIA GPUs only.
const nvidiaGPUFlag = "nvidia_gpu_env"

// ReasonGPUMissing names a node that reports fewer GPUs than gres.conf has for
// it: its line stays, for a shorter one would have Slurm drain the node.
const ReasonGPUMissing = "GPUMissing"

// GresFromFacts returns the gres.conf lines of every node that has GPUs. A node
// that says nothing now, or that has lost a GPU, keeps the lines that was has for
// it, as GresByNode gives them. A node known by its labels only detects its own GPUs. Nodes that
// are not in facts have no line.
func GresFromFacts(facts []topology.Facts, was map[string][]GresLine) ([]GresLine, []topology.Problem) {
	var problems []topology.Problem
	groups := gresGroups{at: map[string]int{}}
	for i := range facts {
		f := &facts[i]
		old := was[f.SlurmName]
		signature, lines := groups.of(f)
		if devices(lines) < devices(old) || len(lines) == 0 {
			if f.Report != nil && len(f.Report.GPUs) > 0 && len(old) > 0 {
				problems = append(problems, topology.Problem{Node: f.Name, Reason: ReasonGPUMissing,
					Message: fmt.Sprintf("reports %d GPU devices, gres.conf has %d; its line stays, or Slurm would drain the node", devices(lines), devices(old))})
			}
			if len(old) == 0 {
				continue
			}
			signature, lines = textOf(old), old
		}
		groups.add(signature, lines, f.SlurmName)
	}
	return groups.lines(), problems
}

// gresGroups gathers nodes whose lines are alike.
type gresGroups struct {
	at     map[string]int // signature -> index into groups
	groups []NodeGres     // by one node of each
	names  [][]string
	buf    []byte
}

// of returns a node's lines, and a text that is the same for alike nodes only.
// The lines of alike nodes are made once.
func (g *gresGroups) of(f *topology.Facts) (signature string, lines []GresLine) {
	g.buf = append(g.buf[:0], "labels"...)
	if f.Report != nil {
		g.buf = g.buf[:0]
		for i := range f.Report.GPUs {
			gpu := &f.Report.GPUs[i]
			if gpu.Minor == nil || len(gpu.MIG) > 0 {
				lines := gresOf(f)
				return textOf(lines), lines
			}
			g.buf = strconv.AppendInt(append(append(g.buf, gpu.Product...), '/'), int64(*gpu.Minor), 10)
			g.buf = append(g.buf, '\n')
		}
	} else if f.Labels.GPUs == 0 {
		return "", nil
	}
	if i, ok := g.at[string(g.buf)]; ok {
		return g.groups[i].Node, g.groups[i].Lines
	}
	return string(g.buf), gresOf(f)
}

func (g *gresGroups) add(signature string, lines []GresLine, node string) {
	i, ok := g.at[signature]
	if !ok {
		i = len(g.groups)
		g.at[signature] = i
		g.groups, g.names = append(g.groups, NodeGres{Node: signature, Lines: lines}), append(g.names, nil)
	}
	g.names[i] = append(g.names[i], node)
}

// lines writes the groups, each under the first of its nodes in Slurm's order.
func (g *gresGroups) lines() []GresLine {
	byText := map[string]int{} // two signatures may have the same lines
	var lists [][]string
	var order []NodeGres
	for i := range g.groups {
		text := textOf(g.groups[i].Lines)
		k, ok := byText[text]
		if !ok {
			k = len(order)
			byText[text] = k
			order, lists = append(order, g.groups[i]), append(lists, nil)
		}
		lists[k] = append(lists[k], g.names[i]...)
	}
	compressed := map[string]string{}
	for k := range order {
		list, first := compressHosts(lists[k])
		order[k].Node, compressed[first] = first, list
	}
	grouped := GroupGres(order)
	for i := range grouped {
		grouped[i].Nodes = compressed[grouped[i].Nodes]
	}
	return grouped
}

// textOf is the lines without their nodes.
func textOf(lines []GresLine) string {
	var b strings.Builder
	for _, l := range lines {
		l.Nodes = ""
		l.write(&b)
	}
	return b.String()
}

// GresByNode returns the lines that a gres.conf holds for each node.
func GresByNode(lines []GresLine) (map[string][]GresLine, error) {
	out := map[string][]GresLine{}
	for _, l := range lines {
		nodes, err := ExpandHostlist(l.Nodes)
		if err != nil {
			return nil, fmt.Errorf("gres.conf: NodeName=%s: %w", l.Nodes, err)
		}
		l.Nodes = ""
		for _, n := range nodes {
			out[n] = append(out[n], l)
		}
	}
	return out, nil
}

// devices counts the devices that lines give.
func devices(lines []GresLine) int {
	n := 0
	for _, l := range lines {
		switch {
		case len(l.Files) > 0:
			n += len(l.Files)
		case len(l.MultipleFiles) > 0:
			n++
		default:
			n += int(min(l.Count, 1<<20))
		}
	}
	return n
}

// gresOf returns the node's own lines, none when too little is known: a line
// with a missing file keeps slurmd from starting.
func gresOf(f *topology.Facts) []GresLine {
	if f.Report == nil {
		if f.Labels.GPUs == 0 {
			return nil
		}
		return []GresLine{{AutoDetect: "nvidia"}}
	}
	var lines []GresLine
	for _, g := range f.Report.GRESOrder() {
		if g.Minor == nil {
			return nil
		}
		file := fmt.Sprintf("/dev/nvidia%d", *g.Minor)
		if len(g.MIG) > 0 {
			for _, m := range g.MIG {
				if len(m.Capabilities) == 0 {
					return nil
				}
				lines = append(lines, GresLine{Name: "gpu", Type: gresType(g.Product) + "_" + m.Profile,
					MultipleFiles: append([]string{file}, m.Capabilities...), Flags: []string{nvidiaGPUFlag}})
			}
			continue
		}
		typ := gresType(g.Product)
		if n := len(lines); n > 0 && lines[n-1].Type == typ && len(lines[n-1].Files) > 0 {
			lines[n-1].Files = append(lines[n-1].Files, file)
			continue
		}
		lines = append(lines, GresLine{Name: "gpu", Type: typ, Files: []string{file}, Flags: []string{nvidiaGPUFlag}})
	}
	return lines
}

// gresType makes a product's name Slurm's GRES type, as its gpu/nvml plugin
// does, without the maker: "NVIDIA GB200" is gb200, "NVIDIA H100 80GB HBM3" is
// h100_80gb_hbm3.
func gresType(product string) string {
	words := strings.Fields(strings.ToLower(product))
	if len(words) > 1 && words[0] == "nvidia" {
		words = slices.Delete(words, 0, 1)
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, strings.Join(words, "_"))
}
