package gres

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// keeps reports whether a node keeps its published lines. lines are what its facts
// give now; unknown reports that a fact for them is missing.
func (o *Options) keeps(f *topology.Facts, lines, old []Line, unknown bool) bool {
	switch {
	case len(lines) > 0 && lines[0].AutoDetect != "" && lines[0].AutoDetect == o.AutoDetect:
		return false
	case len(lines) == 0 || devices(lines) < devices(old):
		return f.Report == nil || devices(old) == 0 || o.keepsLines(f.Report, old, unknown)
	}
	return f.Report != nil && o.losesUnread(f.Report, lines, old)
}

// keepsLines decides whether a node's published lines stay although its report gives
// fewer devices, or none because a fact is unknown.
//
// Both answers can hurt. Slurm drains a node whose lines are shorter than
// slurm.conf's Gres=, until somebody resumes it. slurmd ends if a line names a file
// that is not there, which is worse. gres.conf has no UUIDs that identify the
// machine. So the lines stay only if the files should still be there and something
// shows that GPUs were lost.
//
//   - A GPU with another product or MIG layout than published, or with a file that
//     was not published, is other hardware.
//   - A GPU that is lost without a reboot leaves its file behind, and the report has a
//     problem of the GPU: the driver has it on PCI, and NVML does not show or read it.
//   - If no problem says why a GPU is missing, the machine has booted since, and the
//     file does not exist.
//   - A report without any GPU is treated as a fault, as in the plan.
//   - MIG instances do not outlive a boot. A GPU with MIG on and no instance waits
//     until somebody makes the instances again.
func (o *Options) keepsLines(n *topology.Node, old []Line, unknown bool) bool {
	if len(n.GPUs) == 0 {
		return true
	}
	rest := map[string][]RegisteredGPU{} // published devices that the report does not have, by the GPU's own file
	for _, g := range Listed(old).GPUs {
		file, _, _ := strings.Cut(string(g.Device), ",")
		rest[file] = append(rest[file], g)
	}
	unread := len(n.Problems) > 0 || slices.ContainsFunc(n.GPUs, func(g topology.GPU) bool { return g.MIGEmpty })
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Minor == nil || g.Product == "" {
			continue
		}
		file := deviceFile(*g.Minor)
		if !o.sameLayout(g, rest[file], unread) {
			return false
		}
		delete(rest, file)
	}
	return unknown || len(rest) == 0 || slices.ContainsFunc(n.Problems, topology.Finding.LosesGPU)
}

// sameLayout reports whether the GPU is cut into the devices that were published for
// it. If something could not be read, or instances are still being made, the
// published instances may be more.
func (o *Options) sameLayout(g *topology.GPU, published []RegisteredGPU, unread bool) bool {
	typ, rest := o.TypeOf(g.Product), slices.Clone(published)
	if len(rest) == 0 || rest[0].Type == typ { // a whole GPU, or none
		return len(g.MIG) == 0 && g.MIGEmpty == (len(rest) == 0)
	}
	for i := range g.MIG {
		m := &g.MIG[i]
		k := slices.IndexFunc(rest, func(p RegisteredGPU) bool {
			_, capabilities, _ := strings.Cut(string(p.Device), ",")
			return p.Type == o.migTypeOf(g.Product, m.Profile) && (len(m.Capabilities) == 0 || capabilities == strings.Join(m.Capabilities, ","))
		})
		if k < 0 {
			return false
		}
		rest = slices.Delete(rest, k, k+1)
	}
	return len(rest) == 0 || unread && strings.HasPrefix(rest[0].Type, typ+"_") && strings.Contains(string(rest[0].Device), ",")
}

// losesUnread reports whether the lines give the old devices, but not all of their Cores
// or Links, because these could not be read.
func (o *Options) losesUnread(n *topology.Node, lines, old []Line) bool {
	noCores := o.Cores && len(n.Problems) > 0
	noLinks := slices.ContainsFunc(n.GPUs, func(g topology.GPU) bool { return g.Links == nil })
	now, before := Listed(lines), Listed(old)
	if len(now.GPUs) != len(before.GPUs) || now.SuitsNode(before) {
		return false
	}
	for i := range now.GPUs {
		if g := &now.GPUs[i]; noCores {
			g.Cores = cmp.Or(g.Cores, before.GPUs[i].Cores)
		}
		if g := &now.GPUs[i]; noLinks && g.Links == nil {
			g.Links = before.GPUs[i].Links
		}
	}
	return now.SuitsNode(before)
}
