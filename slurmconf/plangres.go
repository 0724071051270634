package slurmconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// nvidiaGPUFlag makes Slurm set the variables of NVIDIA GPUs only.
const nvidiaGPUFlag = "nvidia_gpu_env"

// ReasonGPUMissing names a node that reports fewer GPUs than gres.conf has for
// it: its line stays, for a shorter one would have Slurm drain the node.
const ReasonGPUMissing = "GPUMissing"

// GresFromFacts returns the gres.conf lines of every node that has GPUs. A node
// that says nothing now, or that has lost a GPU, keeps the lines that previous
// has for it. A node known by its labels only detects its own GPUs. Nodes that
// are not in facts have no line.
func GresFromFacts(facts []topology.Facts, previous []GresLine) ([]GresLine, []topology.Problem, error) {
	was, err := linesByNode(previous)
	if err != nil {
		return nil, nil, err
	}
	var problems []topology.Problem
	nodes := make([]NodeGres, 0, len(facts))
	for i := range facts {
		f := &facts[i]
		old := was[f.SlurmName]
		lines := gresOf(f)
		if devices(lines) < devices(old) || len(lines) == 0 {
			if f.Report != nil && len(f.Report.GPUs) > 0 && len(old) > 0 {
				problems = append(problems, topology.Problem{Node: f.Name, Reason: ReasonGPUMissing,
					Message: fmt.Sprintf("reports %d GPU devices, gres.conf has %d; its line stays, or Slurm would drain the node", devices(lines), devices(old))})
			}
			lines = old
		}
		if len(lines) > 0 {
			nodes = append(nodes, NodeGres{Node: f.SlurmName, Lines: lines})
		}
	}
	return GroupGres(nodes), problems, nil
}

// linesByNode returns what a gres.conf holds for each node, without the lines
// that detect devices by themselves.
func linesByNode(lines []GresLine) (map[string][]GresLine, error) {
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
