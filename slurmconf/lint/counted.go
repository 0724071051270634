package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// lintCounted judges Gres= of slurm.conf by itself: words that Slurm ignores, and GPUs of which nobody says
// here where they are. given says that there is a gres.conf.
func (l *linter) lintCounted(given bool) []topology.Finding {
	if !given && !l.GRES {
		return nil
	}
	names := map[*Node][]string{}
	for name, n := range l.Nodes {
		names[n] = append(names[n], name)
	}
	lines := slices.SortedFunc(maps.Keys(names), func(a, b *Node) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(slices.Min(names[a]), slices.Min(names[b])))
	})
	l.Findings, l.noted = syntax.Findings{}, map[int]bool{}
	for _, n := range lines {
		l.File = cmp.Or(n.File, l.SlurmConf, "slurm.conf")
		l.about(names[n], func() { l.lintGresOf(n, names[n], given) })
	}
	return l.All
}

// lintGresOf judges Gres= of one line. names are those of its nodes.
func (l *linter) lintGresOf(n *Node, names []string, given bool) {
	nodes := hostlist.Shorten(hostlist.Compress(names))
	for _, word := range n.Gres.Unread {
		l.note(names, topology.Unknown, "a word of Gres= is not known")
		l.NotJudged(n.Line, "%s: it is not known what %s in Gres= counts: want such as gpu:h100:8", nodes, hostlist.Shorten(word))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Gres.Others)) {
		if !l.isType(name) {
			l.Warn(n.Line, reasonUnknownGres, "write such as gpu:h100:8, in small letters, or add the name to GresTypes", "%s: %s in Gres= is not in GresTypes: Slurm ignores it", nodes, hostlist.Shorten(name))
		}
	}
	switch {
	case len(n.Gres.GPUs) == 0:
	case l.unread:
		l.note(names, topology.Fatal, "")
	case !l.isType(gpuName):
		l.Fatal(n.Line, reasonUnknownGres, "add gpu to GresTypes in slurm.conf", "%s: gpu is not in GresTypes: Slurm ignores Gres= of these nodes, and they have no GPUs", nodes)
	case !given && l.Files == AllHosts:
		l.Fatal(n.Line, reasonFewerGPUs, "write gres.conf beside slurm.conf", "%s: there is no gres.conf, and with enable_configless the nodes have none of their own, so they lack %s: slurmctld drains them", nodes, gresText(n.Gres.GPUs))
	case !given:
		l.note(names, topology.Unknown, "there is no gres.conf here")
		l.NotJudged(n.Line, "%s: there is no gres.conf here, so it is not known whether the nodes have %s: they do if each has a gres.conf of its own", nodes, gresText(n.Gres.GPUs))
	}
}

// grows reports whether Slurm takes nodes that slurm.conf does not have.
func (o *Options) grows() bool {
	_, ok := o.Settings["maxnodecount"]
	return ok
}

// isType reports whether slurm.conf's GresTypes has a name.
func (o *Options) isType(name string) bool {
	return o.GresTypes == nil || slices.Contains(o.GresTypes, name)
}

// OtherGRES returns the GRES of which Lint judges nothing but the names: all in GresTypes but gpu.
func (o *Options) OtherGRES(files []File) (names []string) {
	for _, n := range o.Nodes {
		names = slices.AppendSeq(names, maps.Keys(n.Gres.Others))
	}
	for _, f := range slices.DeleteFunc(slices.Clone(files), func(f File) bool { return !isGres(f) }) {
		lines, _ := gres.Scan(f.Name, f.Data)
		for i := range lines {
			names = append(names, lines[i].Name)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" || strings.EqualFold(name, gpuName) || !o.isType(name) })
}

// gresText writes the gpus of Gres=.
func gresText(gpus []gres.GPUCount) string {
	words := make([]string, len(gpus))
	for i, g := range gpus {
		words[i] = fmt.Sprintf("gpu:%d", g.Count)
		if g.Type != "" {
			words[i] = fmt.Sprintf("gpu:%s:%d", g.Type, g.Count)
		}
	}
	return strings.Join(words, ",")
}
