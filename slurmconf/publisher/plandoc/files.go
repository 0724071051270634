package plandoc

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// Header begins every file.
const Header = "Written by quoin from the NVLink domains and network tiers of the nodes.\nChanges made here are overwritten."

// Render writes the files of topologies and lines. Without topologies there is no topology
// file, and without lines no gres.conf.
func Render(format string, topologies []topology.Topology, lines []gres.Line) (map[string]string, error) {
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

// Files renders the plan.
func Files(p *topology.Plan) (map[string]string, error) {
	lines, err := Lines(p)
	if err != nil {
		return nil, err
	}
	switch {
	case len(p.Gres) > 0:
		if lines, err = parseLines(p.Gres); err != nil {
			return nil, err
		}
	case p.AllNodes:
		lines = gres.Nameless(lines)
	case p.Detect != "":
		lines = []gres.Line{{AutoDetect: p.Detect}}
	}
	topologies := p.Topologies
	if p.ByAnnotation {
		topologies = Skeletons(topologies)
	}
	return Render(p.Format, topologies, lines)
}

// Whole renders the plan with all nodes in the files.
func Whole(p *topology.Plan) (map[string]string, error) {
	if !p.ByAnnotation {
		return Files(p)
	}
	lines, err := Lines(p)
	if err != nil {
		return nil, err
	}
	return Render(p.Format, p.Topologies, lines)
}

// Skeletons returns the topologies without nodes, for nodes that annotations place.
func Skeletons(topologies []topology.Topology) []topology.Topology {
	out := make([]topology.Topology, len(topologies))
	for i := range topologies {
		out[i] = slurmconf.Skeleton(topologies[i])
	}
	return out
}

// Lines returns the lines of gres.conf of a plan, with the names of their nodes.
func Lines(p *topology.Plan) ([]gres.Line, error) { return parseLines(p.Devices) }

func parseLines(text []string) ([]gres.Line, error) {
	lines, err := gres.Parse("plan", []byte(strings.Join(text, "\n")))
	if err == nil {
		_, err = gres.ByNode(lines, nil)
	}
	return lines, err
}

// SetLines puts lines of gres.conf into the plan.
func SetLines(p *topology.Plan, lines []gres.Line) (err error) {
	p.Devices, err = LineTexts(lines)
	return err
}

// LineTexts are lines of gres.conf as a plan has them.
func LineTexts(lines []gres.Line) ([]string, error) {
	var texts []string
	for i := range lines {
		line, err := gres.Render(lines[i:i+1], "")
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.TrimSpace(string(line)))
	}
	return texts, nil
}

// Named returns the lines of the file by node, if the file names nodes in another way than Devices. They are
// without AutoDetect=off, which the file has beside Detect.
func Named(p *topology.Plan) map[string][]gres.Line {
	lines, _ := parseLines(p.Gres) // lines that were made can be read
	for i := range lines {
		if lines[i].AutoDetect == gres.AutoDetectOff {
			lines[i].AutoDetect = ""
		}
	}
	byNode, _ := gres.ByNode(lines, nil)
	return byNode
}

// errNoFile is returned for a plan of no file.
var errNoFile = errors.New("no topology file and no gres.conf")

// FromFiles makes a plan of files that were published before there was a document. Lines of
// gres.conf without nodes are of all nodes. A gres.conf alone gives a plan without topologies.
func FromFiles(files map[string]string) (*topology.Plan, error) {
	lines, err := gres.Parse(gresFile, []byte(files[gresFile]))
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
		p := &topology.Plan{Format: format}
		if lines, err = detectedBeside(p, lines); err != nil {
			return nil, err
		}
		if p.Topologies, err = slurmconf.ParseTopologies(name, []byte(files[name])); err != nil {
			return nil, err
		}
		for i := range lines {
			if lines[i].Nodes == "" {
				lines[i].Nodes, p.AllNodes = hostlist.Compress(slices.Collect(maps.Keys(p.Places()))), true
			}
		}
		for i := range p.Topologies {
			for k := range p.Topologies[i].Blocks {
				b := &p.Topologies[i].Blocks[k]
				b.Size = len(b.Nodes)
			}
		}
		return p, SetLines(p, lines)
	}
	if len(lines) == 0 {
		return nil, errNoFile
	}
	p := &topology.Plan{Format: "yaml"} // it has no topology file
	if lines, err = detectedBeside(p, lines); err != nil {
		return nil, err
	}
	p.AllNodes = slices.ContainsFunc(lines, func(l gres.Line) bool { return l.Nodes == "" })
	return p, SetLines(p, lines)
}

// detectedBeside returns the lines that name nodes, if the others only say how all other nodes detect their
// GPUs. The plan then has the lines as the file has them. Else it returns all lines.
func detectedBeside(p *topology.Plan, lines []gres.Line) (named []gres.Line, err error) {
	detect := ""
	for _, l := range lines {
		switch {
		case l.Nodes != "":
			if l.AutoDetect == gres.AutoDetectOff {
				l.AutoDetect = ""
			}
			named = append(named, l)
		case l.Name != "":
			return lines, nil
		default:
			detect = l.AutoDetect
		}
	}
	if detect == "" || len(named) == 0 {
		return lines, nil
	}
	p.Detect = detect
	p.Gres, err = LineTexts(lines)
	return named, err
}

// Place puts nodes into the units that their Topology= strings name.
func Place(p *topology.Plan, specs map[string]string) {
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
			b.Nodes = slices.Sorted(slices.Values(nodes[t.Name+":"+b.Name]))
		}
		for k := range t.Switches {
			if s := &t.Switches[k]; len(s.Children) == 0 {
				s.Nodes = slices.Sorted(slices.Values(nodes[t.Name+":"+s.Name]))
			}
		}
	}
}
