package publication

import (
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// Lint returns what slurmctld would say of the publication's files. Without the topologies the first
// line of a topology.conf says of which kind it is.
func (c *Cluster) Lint(files map[string]string, topologies []topology.Topology) []topology.Finding {
	var all []lint.File
	for _, name := range plandoc.OwnFiles {
		if text, ok := files[name]; ok {
			all = append(all, lint.File{Name: name, Data: []byte(text)})
		}
	}
	o := lint.Options{Release: c.Release, DropsBlockSizes: slurmconf.DropsBlockSizes(c.SlurmVersion)}
	if len(topologies) > 0 {
		o.Plugin = lint.Plugin("topology/" + topologies[0].Kind)
	}
	return lint.Lint(all, o)
}
