package publication

import (
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// Loader says whether one of Slinky's Controllers loads the files of a publication.
type Loader int

const (
	// LoaderUnknown: several Controllers could load the files, and nothing names one of them.
	LoaderUnknown Loader = iota
	// LoaderKnown: it is this Controller.
	LoaderKnown
	// LoaderAbsent: the Controller that is named does not exist, or the namespace has none.
	LoaderAbsent
	// LoaderNone: the configuration says that no Slurm loads the files.
	LoaderNone
)

// Loader returns which of all Controllers loads the files: the one that nodes.slinky or slurmNames
// names, else the only one of the namespace. With LoaderAbsent it is the one that is named, or zero.
func (c *Cluster) Loader(all []plandoc.Location) (Loader, plandoc.Location) {
	if c.withoutSlurm() {
		return LoaderNone, plandoc.Location{}
	}
	if namespace, name := c.Rules.Controller(); name != "" {
		named := plandoc.Location{Namespace: namespace, Name: name}
		if slices.Contains(all, named) {
			return LoaderKnown, named
		}
		return LoaderAbsent, named
	}
	in := slices.DeleteFunc(slices.Clone(all), func(at plandoc.Location) bool { return at.Namespace != c.Namespace })
	switch len(in) {
	case 0:
		return LoaderAbsent, plandoc.Location{}
	case 1:
		return LoaderKnown, in[0]
	}
	return LoaderUnknown, plandoc.Location{}
}

// LoadingController returns the Controller of all that loads the files. It is nil if none does, or if it is
// not known which.
func (c *Cluster) LoadingController(all []inputs.Controller) *inputs.Controller {
	places := make([]plandoc.Location, len(all))
	for i := range all {
		places[i] = plandoc.Location{Namespace: all[i].Namespace, Name: all[i].Name}
	}
	if loader, at := c.Loader(places); loader == LoaderKnown {
		return &all[slices.Index(places, at)]
	}
	return nil
}

// withoutSlurm reports whether nothing leads from the publication to a Slurm: no pods of Slurm name
// or choose its nodes, no Slurm is asked, and the nodes get no annotation for Slurm.
func (c *Cluster) withoutSlurm() bool {
	return !c.Rules.ByPods() && c.Nodes.Slinky == "" && c.Slurm.URL == "" && c.Slurm.Scontrol == "" && !*c.Annotate
}
