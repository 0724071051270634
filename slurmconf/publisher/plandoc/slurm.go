package plandoc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// SetFiles puts what the files hold into the plan: topologies and lines of gres.conf.
func (p *Plan) SetFiles(topologies []slurmconf.Topology, lines []gres.Line) error {
	p.Topologies, p.Devices = make([]Topology, len(topologies)), nil
	for i := range topologies {
		p.Topologies[i] = topologyOf(&topologies[i])
	}
	for i := range lines {
		line, err := gres.Render(lines[i:i+1], "")
		if err != nil {
			return err
		}
		p.Devices = append(p.Devices, strings.TrimSpace(string(line)))
	}
	return nil
}

func topologyOf(t *slurmconf.Topology) Topology {
	out := Topology{Name: t.Name, Default: t.Default, Kind: "flat"}
	if t.Block != nil {
		out.Kind, out.Sizes, out.Blocks = "block", t.Block.Sizes, make([]Block, len(t.Block.Blocks))
		for i, b := range t.Block.Blocks {
			out.Blocks[i] = Block{Name: b.Name, Nodes: b.Nodes}
		}
	}
	if t.Tree != nil {
		out.Kind, out.Switches = "tree", make([]Switch, len(t.Tree.Switches))
		for i, s := range t.Tree.Switches {
			out.Switches[i] = Switch(s)
		}
	}
	return out
}

// Slurm returns the topologies as the file has them.
func (p *Plan) Slurm() ([]slurmconf.Topology, error) {
	out := make([]slurmconf.Topology, len(p.Topologies))
	for i := range p.Topologies {
		from, to := &p.Topologies[i], &out[i]
		to.Name, to.Default = from.Name, from.Default
		switch from.Kind {
		case "block":
			to.Block = &slurmconf.BlockTopology{Sizes: from.Sizes, Blocks: make([]slurmconf.Block, len(from.Blocks))}
			for k, b := range from.Blocks {
				to.Block.Blocks[k] = slurmconf.Block{Name: b.Name, Nodes: b.Nodes}
			}
		case "tree":
			to.Tree = &slurmconf.TreeTopology{Switches: make([]slurmconf.Switch, len(from.Switches))}
			for k, s := range from.Switches {
				to.Tree.Switches[k] = slurmconf.Switch(s)
			}
		case "flat":
			to.Flat = true
		default:
			return nil, fmt.Errorf("topology %q: kind %q: want block, tree or flat", from.Name, from.Kind)
		}
	}
	return out, nil
}

// Published returns what the next plan continues from. It is nil if the plan has no
// topology.
func (p *Plan) Published() (*placement.Previous, error) {
	topologies, err := p.Slurm()
	if err != nil || len(topologies) == 0 {
		return nil, err
	}
	previous, err := slurmconf.PreviousOf("plan", topologies)
	if err != nil {
		return nil, err
	}
	p.Recall(previous)
	return previous, nil
}

// Recall puts into previous what no file says: the most nodes that each block has had, and
// the fabric of each topology.
func (p *Plan) Recall(previous *placement.Previous) {
	sizes, fabrics := p.sizes(), p.fabrics()
	for i := range previous.Blocks {
		previous.Blocks[i].Size = sizes[previous.Blocks[i].Name]
	}
	for i := range previous.Topologies {
		previous.Topologies[i].Fabric = fabrics[previous.Topologies[i].Name]
	}
}

// fabrics returns the fabric of each topology that has one.
func (p *Plan) fabrics() map[string]string {
	fabrics := make(map[string]string)
	for i := range p.Topologies {
		if t := &p.Topologies[i]; t.Fabric != "" {
			fabrics[t.Name] = t.Fabric
		}
	}
	return fabrics
}

// sizes returns the most nodes that each block has had.
func (p *Plan) sizes() map[string]int {
	sizes := make(map[string]int)
	for i := range p.Topologies {
		for _, b := range p.Topologies[i].Blocks {
			sizes[b.Name] = max(sizes[b.Name], b.Size)
		}
	}
	return sizes
}

// Lines returns the lines of gres.conf.
func (p *Plan) Lines() ([]gres.Line, error) {
	lines, err := gres.Parse("plan", []byte(strings.Join(p.Devices, "\n")))
	if err == nil {
		_, err = gres.ByNode(lines, nil)
	}
	return lines, err
}

// Places returns the place of every node.
func (p *Plan) Places() map[string]placement.Place {
	previous, err := p.Published()
	if err != nil || previous == nil {
		return nil // a plan that was read or made has readable lists
	}
	return previous.Places()
}

// FileLines returns the lines as gres.conf has them: without nodes, if AllNodes is set.
func (p *Plan) FileLines() ([]gres.Line, error) {
	lines, err := p.Lines()
	if p.AllNodes {
		lines = gres.Nameless(lines)
	}
	return lines, err
}

// nameAll gives lines without nodes all nodes of the topologies.
func (p *Plan) nameAll(lines []gres.Line, topologies []slurmconf.Topology) error {
	previous, err := slurmconf.PreviousOf("topology."+p.Format, topologies)
	if err != nil {
		return err
	}
	for i := range lines {
		if lines[i].Nodes == "" {
			lines[i].Nodes, p.AllNodes = hostlist.Compress(slices.Collect(maps.Keys(previous.Places()))), true
		}
	}
	return nil
}

// errNoTopology is returned for files that hold no topology.
var errNoTopology = errors.New("no topology file")

// FromFiles makes a plan of files that were published before there was a document.
func FromFiles(files map[string]string) (*Plan, error) {
	lines, err := gres.Parse("gres.conf", []byte(files["gres.conf"]))
	if err != nil {
		return nil, err
	}
	if _, err := gres.ByNode(lines, nil); err != nil {
		return nil, err
	}
	for _, format := range []string{"yaml", "conf"} {
		name := "topology." + format
		if files[name] == "" {
			continue
		}
		topologies, err := slurmconf.ParseTopologies(name, []byte(files[name]))
		if err != nil {
			return nil, err
		}
		p := &Plan{Format: format}
		if err := p.nameAll(lines, topologies); err != nil {
			return nil, err
		}
		if err := p.SetFiles(topologies, lines); err != nil {
			return nil, err
		}
		p.KeepSizes(&Plan{})
		return p, nil
	}
	return nil, errNoTopology
}

// Place puts nodes into the units that their Topology= strings name.
func (p *Plan) Place(specs map[string]string) {
	nodes := make(map[string][]string) // by TOPOLOGY:UNIT
	for node, spec := range specs {
		for unit := range strings.SplitSeq(spec, ",") {
			nodes[unit] = append(nodes[unit], node)
		}
	}
	for i := range p.Topologies {
		t := &p.Topologies[i]
		for k := range t.Blocks {
			b := &t.Blocks[k]
			b.Nodes = hostlist.Compress(nodes[t.Name+":"+b.Name])
		}
		for k := range t.Switches {
			if s := &t.Switches[k]; s.Children == "" {
				s.Nodes = hostlist.Compress(nodes[t.Name+":"+s.Name])
			}
		}
	}
}

// KeepSizes gives every block the most nodes that it has had: those it has, or more in
// the plan before.
func (p *Plan) KeepSizes(old *Plan) {
	had := old.sizes()
	for i := range p.Topologies {
		for k := range p.Topologies[i].Blocks {
			b := &p.Topologies[i].Blocks[k]
			b.Size = max(had[b.Name], count(b.Nodes))
		}
	}
}

// KeepFabrics gives every block topology its fabric: the one that is known now, or the one
// in the plan before.
func (p *Plan) KeepFabrics(now []placement.Topology, old *Plan) {
	fabrics := old.fabrics()
	for i := range now {
		if now[i].Fabric != "" {
			fabrics[now[i].Name] = now[i].Fabric
		}
	}
	for i := range p.Topologies {
		if t := &p.Topologies[i]; t.Kind == "block" {
			t.Fabric = fabrics[t.Name]
		}
	}
}
