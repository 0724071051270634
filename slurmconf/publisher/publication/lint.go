package publication

import (
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// Lint returns what slurmctld of the release that the files are made for would say of them. Without the
// topologies the first line of a topology.conf says of which kind it is.
func (c *Cluster) Lint(files map[string]string, topologies []topology.Topology) []topology.Finding {
	o := lint.Options{Release: c.Release}
	if len(topologies) > 0 {
		o.Plugin = lint.Plugin("topology/" + topologies[0].Kind)
	}
	return lint.Lint(ownFiles(files), o)
}

// LintSeen returns what the Slurm that runs would say of the files. Its release must be known.
func (c *Cluster) LintSeen(files map[string]string) []topology.Finding {
	return lint.Lint(ownFiles(files), lint.Options{Release: c.Seen})
}

func ownFiles(files map[string]string) (own []lint.File) {
	for _, name := range plandoc.OwnFiles {
		if text, ok := files[name]; ok {
			own = append(own, lint.File{Name: name, Data: []byte(text)})
		}
	}
	return own
}
