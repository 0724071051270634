package publication

import (
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
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
// names, else the only one of the namespace. With LoaderAbsent it has the name that is configured, or none.
// Only with LoaderKnown it has an image.
func (c *Cluster) Loader(all []inputs.Controller) (Loader, inputs.Controller) {
	if c.withoutSlurm() {
		return LoaderNone, inputs.Controller{}
	}
	if namespace, name := c.Rules.Controller(); name != "" {
		if i := slices.IndexFunc(all, func(o inputs.Controller) bool { return o.Namespace == namespace && o.Name == name }); i >= 0 {
			return LoaderKnown, all[i]
		}
		return LoaderAbsent, inputs.Controller{Namespace: namespace, Name: name}
	}
	in := slices.DeleteFunc(slices.Clone(all), func(o inputs.Controller) bool { return o.Namespace != c.Namespace })
	switch len(in) {
	case 0:
		return LoaderAbsent, inputs.Controller{}
	case 1:
		return LoaderKnown, in[0]
	}
	return LoaderUnknown, inputs.Controller{}
}

// withoutSlurm reports whether nothing leads from the publication to a Slurm: no pods of Slurm name
// or choose its nodes, no Slurm is asked, and the nodes get no annotation for Slurm.
func (c *Cluster) withoutSlurm() bool {
	return !c.Rules.ByPods() && c.Nodes.Slinky == "" && c.Slurm.URL == "" && c.Slurm.Scontrol == "" && !*c.Annotate
}
