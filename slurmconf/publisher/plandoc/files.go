package plandoc

import (
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
)

// Header begins every file.
const Header = "Written by quoin from the NVLink domains and network tiers of the nodes.\nChanges made here are overwritten."

// Render writes the files of topologies and lines.
func Render(format string, topologies []slurmconf.Topology, lines []gres.Line) (map[string]string, error) {
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
	files := map[string]string{"topology." + format: string(text)}
	if len(lines) == 0 {
		return files, nil
	}
	if text, err = gres.Render(lines, Header); err != nil {
		return nil, err
	}
	files["gres.conf"] = string(text)
	return files, nil
}

// Files renders the plan.
func (p *Plan) Files() (map[string]string, error) {
	topologies, err := p.Slurm()
	if err != nil {
		return nil, err
	}
	lines, err := p.FileLines()
	if err != nil {
		return nil, err
	}
	if p.ByAnnotation {
		topologies = Skeletons(topologies)
	}
	return Render(p.Format, topologies, lines)
}

// Whole renders the plan with all nodes in the files.
func (p *Plan) Whole() (map[string]string, error) {
	if !p.ByAnnotation {
		return p.Files()
	}
	topologies, err := p.Slurm()
	if err != nil {
		return nil, err
	}
	lines, err := p.Lines()
	if err != nil {
		return nil, err
	}
	return Render(p.Format, topologies, lines)
}

// Skeletons returns the topologies without nodes, for nodes that annotations place.
func Skeletons(topologies []slurmconf.Topology) []slurmconf.Topology {
	out := make([]slurmconf.Topology, len(topologies))
	for i := range topologies {
		out[i] = slurmconf.Skeleton(topologies[i])
	}
	return out
}
