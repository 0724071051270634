package publisher

import (
	"github.com/quoin-hpc/quoin/slurmconf"
)

// addFragment adds the fragment of slurm.conf that goes with the other files.
// What the nodes do not say now stays as it was published.
func (m *Made) addFragment(p *Publication, g *Gathered, prev Previous, topologies []slurmconf.Topology) error {
	f := slurmconf.Fragment{Facts: g.Facts, Gres: m.gres, GresOptions: p.gres(), MultiNodeNVLink: len(m.Plan.Blocks) > 0 && !m.Plan.ByLeaf, Was: prev.Nodes}
	switch {
	case p.Format == "yaml":
		f.Topologies = topologies
	case topologies[0].Tree != nil:
		f.Plugin = slurmconf.PluginTree
	default:
		f.Plugin = slurmconf.PluginBlock
	}
	text, err := f.Render(header)
	if err != nil {
		return err
	}
	m.Files[slurmconf.SlurmNodesFile] = string(text)
	m.nodes, err = slurmconf.ParseFragment(slurmconf.SlurmNodesFile, text)
	return err
}

// confNodes reads the fragment as slurmctld does, nil where there is none.
func (m *Made) confNodes() (map[string]*slurmconf.ConfNode, error) {
	text, ok := m.Files[slurmconf.SlurmNodesFile]
	if !ok {
		return nil, nil
	}
	conf, err := slurmconf.ParseSlurmConf(slurmconf.SlurmNodesFile, []byte(text), nil)
	if err != nil {
		return nil, err
	}
	return conf.Nodes, nil
}

// fragmentChanges counts the nodes whose line in the fragment changes or goes. A
// node of which more is known than before does not count.
func fragmentChanges(was, is map[string]slurmconf.FragmentNode) (changed, of int) {
	for node, before := range was {
		if now, ok := is[node]; !ok || !before.KeptBy(now) {
			changed++
		}
	}
	return changed, len(was)
}
