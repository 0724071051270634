package plandoc

import (
	"errors"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// Header begins every file.
const Header = "Written by quoin from the NVLink domains and network tiers of the nodes.\nChanges made here are overwritten."

// Plan is a plan as it is published: what the files have of it, and how.
type Plan struct {
	topology.Plan
	// Format is that of the topology file: yaml or conf.
	Format string `json:"format,omitempty"`
	// Policy has the keys of the configuration that the plan was made by, and their values.
	Policy map[string]string `json:"policy,omitempty"`
	// ByAnnotation says that Node annotations alone place nodes: the topology file names none.
	ByAnnotation bool `json:"byAnnotation,omitempty"`
	// Devices are the lines of gres.conf. With AllNodes the file has them without NodeName. With
	// Detect it has that AutoDetect for all nodes in their place: Devices then say what slurmd finds.
	Devices  []gres.Line `json:"devices,omitempty"`
	AllNodes bool        `json:"allNodes,omitempty"`
	Detect   string      `json:"detect,omitempty"`
	// Gres are the lines of the file if they are others than all these: nodes that differ are listed beside
	// Detect, and names that are still to come are listed ahead.
	Gres []gres.Line `json:"gres,omitempty"`
}

// Files renders the plan.
func (p *Plan) Files() (map[string]string, error) {
	topologies, lines := p.Topologies, p.Devices
	if p.ByAnnotation {
		topologies = make([]topology.Topology, len(p.Topologies))
		for i := range topologies {
			topologies[i] = slurmconf.Skeleton(p.Topologies[i])
		}
	}
	switch {
	case len(p.Gres) > 0:
		lines = p.Gres
	case p.AllNodes:
		lines = gres.Nameless(lines)
	case p.Detect != "":
		lines = []gres.Line{{AutoDetect: p.Detect}}
	}
	return render(p.Format, topologies, lines)
}

// Whole renders the plan with all nodes in the files.
func (p *Plan) Whole() (map[string]string, error) { return render(p.Format, p.Topologies, p.Devices) }

// render writes the files of topologies and lines. Without topologies there is no topology
// file, and without lines no gres.conf.
func render(format string, topologies []topology.Topology, lines []gres.Line) (map[string]string, error) {
	files := map[string]string{}
	if len(topologies) > 0 {
		var text []byte
		var err error
		if format == "yaml" {
			text, err = slurmconf.RenderYAML(topologies, Header)
		} else {
			text, err = slurmconf.RenderConf(topologies[0], Header)
		}
		if err != nil {
			return nil, err
		}
		files["topology."+format] = string(text)
	}
	if len(lines) > 0 {
		text, err := gres.Render(lines, Header)
		if err != nil {
			return nil, err
		}
		files[gresFile] = string(text)
	}
	return files, nil
}

// Named returns the lines of the file by node, if the file names nodes in another way than Devices. They are
// without AutoDetect=off, which the file has beside Detect.
func (p *Plan) Named() map[string][]gres.Line {
	lines := slices.Clone(p.Gres)
	for i := range lines {
		if lines[i].AutoDetect == gres.AutoDetectOff {
			lines[i].AutoDetect = ""
		}
	}
	byNode := gres.ByNode(lines, nil)
	return byNode
}

// errNoFile is returned for a plan of no file.
var errNoFile = errors.New("no topology file and no gres.conf")

// FromFiles makes a plan of files that were published before there was a document. Lines of
// gres.conf without nodes are of all nodes. A gres.conf alone gives a plan without topologies.
func FromFiles(files map[string]string) (*Plan, error) {
	lines, err := gres.Parse(gresFile, []byte(files[gresFile]))
	if err != nil {
		return nil, err
	}
	for _, format := range []string{"yaml", "conf"} {
		name := "topology." + format
		if files[name] == "" {
			continue
		}
		p := &Plan{Format: format}
		p.Devices = detectedBeside(p, lines)
		if p.Topologies, err = slurmconf.ParseTopologies(name, []byte(files[name])); err != nil {
			return nil, err
		}
		for i := range p.Devices {
			if p.Devices[i].Nodes == "" {
				p.Devices[i].Nodes, p.AllNodes = hostlist.Compress(slices.Collect(maps.Keys(p.Places()))), true
			}
		}
		for i := range p.Topologies {
			for k := range p.Topologies[i].Blocks {
				b := &p.Topologies[i].Blocks[k]
				b.Size = len(b.Nodes)
			}
		}
		return p, nil
	}
	if len(lines) == 0 {
		return nil, errNoFile
	}
	p := &Plan{Format: "yaml"} // it has no topology file
	p.Devices = detectedBeside(p, lines)
	p.AllNodes = slices.ContainsFunc(p.Devices, func(l gres.Line) bool { return l.Nodes == "" })
	return p, nil
}

// detectedBeside returns the lines that name nodes, if the others only say how all other nodes detect their
// GPUs. The plan then has the lines as the file has them. Else it returns all lines.
func detectedBeside(p *Plan, lines []gres.Line) (named []gres.Line) {
	detect := ""
	for _, l := range lines {
		switch {
		case l.Nodes != "":
			if l.AutoDetect == gres.AutoDetectOff {
				l.AutoDetect = ""
			}
			named = append(named, l)
		case l.Name != "":
			return lines
		default:
			detect = l.AutoDetect
		}
	}
	if detect == "" || len(named) == 0 {
		return lines
	}
	p.Detect, p.Gres = detect, lines
	return named
}

// Place puts nodes into the units that their Topology= strings name.
func (p *Plan) Place(specs map[string]string) {
	nodes := make(map[string][]string) // by TOPOLOGY:UNIT
	for node, spec := range specs {
		for unit := range topology.SpecUnits(spec) {
			nodes[unit] = append(nodes[unit], node)
		}
	}
	for i := range p.Topologies {
		t := &p.Topologies[i]
		for k := range t.Blocks {
			b := &t.Blocks[k]
			b.Nodes = slices.Sorted(slices.Values(nodes[t.Name+":"+b.Name]))
		}
		for k := range t.Switches {
			if s := &t.Switches[k]; len(s.Children) == 0 {
				s.Nodes = slices.Sorted(slices.Values(nodes[t.Name+":"+s.Name]))
			}
		}
	}
}
