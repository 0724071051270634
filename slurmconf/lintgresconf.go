package slurmconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// alikeNodes are nodes that the same lines of gres.conf are for and that one line
// of slurm.conf has.
type alikeNodes struct {
	class int32
	conf  *ConfNode
	names []string
}

// String returns their names as a host list.
func (a *alikeNodes) String() string { return hostlist.Shorten(hostlist.Compress(a.names)) }

// lintConfNodes compares what the lines give each node with what slurm.conf says
// of it. What slurmctld drains a node for is fatal, for it stays drained when the
// file is put right.
func (g *gresLinter) lintConfNodes() {
	if g.Nodes == nil || !g.knownGres("gpu") {
		return
	}
	type both struct {
		class int32
		conf  *ConfNode
	}
	groups := map[both]*alikeNodes{}
	for name, conf := range g.Nodes {
		key := both{0, conf}
		if n, ok := g.known[name]; ok && int(n) < len(g.classes.of) {
			key.class = g.classes.of[n]
		}
		if groups[key] == nil {
			groups[key] = &alikeNodes{class: key.class, conf: conf}
		}
		groups[key].names = append(groups[key].names, name)
	}
	ordered := make([]*alikeNodes, 0, len(groups))
	for _, a := range groups {
		slices.Sort(a.names)
		ordered = append(ordered, a)
	}
	slices.SortFunc(ordered, func(a, b *alikeNodes) int { return cmp.Compare(a.names[0], b.names[0]) })
	for _, a := range ordered {
		g.lintAlike(a)
	}
}

// lintAlike judges the gpus of alike nodes. What they detect is not known here.
func (g *gresLinter) lintAlike(a *alikeNodes) {
	class := &g.classes.list[a.class]
	if d := g.detection(class); d != "" && d != "off" || len(a.conf.GPUs) == 0 {
		return
	}
	lines := slices.DeleteFunc(g.linesOf(nil, class), func(r *gresRecord) bool { return !strings.EqualFold(r.get(keyName), "gpu") })
	slices.SortStableFunc(lines, func(x, y *gresRecord) int { return allFirst(x) - allFirst(y) })
	untyped := slices.ContainsFunc(a.conf.GPUs, func(c GPUCount) bool { return c.Type == "" })
	if untyped && len(a.conf.GPUs) > 1 {
		g.fatal(1, "GresTypes", "give all gpus of Gres= a Type, or none", fmt.Sprintf("%s: Gres=%s has gpus with a Type and others without: slurmd does not start", a, gresWords(a.conf.GPUs)))
		return
	}
	for _, want := range a.conf.GPUs {
		g.lintGPUs(a, want, lines)
	}
}

// lintGPUs judges the lines for gpus of a type, of which slurmd takes as many as
// slurm.conf has. Lines whose cores the node has not are none for it.
func (g *gresLinter) lintGPUs(a *alikeNodes, want GPUCount, lines []*gresRecord) {
	var have uint64
	var last *gresRecord
	for _, r := range lines {
		if !r.hasFile() || want.Type != "" && r.get(keyType) != want.Type {
			continue
		}
		if have >= want.Count {
			break
		}
		last = r
		switch fit := g.coresFit(r, a.conf); fit {
		case coresOutside:
			g.drains(a, r, "CoresOutside", "want cores of 0 to "+fmt.Sprint(a.conf.Cores()-1)+", or the node's sockets in slurm.conf",
				fmt.Sprintf("Cores=%s are more than slurm.conf's %s has", coresText(r), socketsText(a.conf)))
			continue
		case coresApart:
			g.drains(a, r, "CoresNotSocket", "write the cores of one socket, or leave Cores out; slurm.conf must have the sockets that the node has",
				fmt.Sprintf("Cores=%s are not %s of slurm.conf's %s", coresText(r), g.socketsWanted(), socketsText(a.conf)))
		}
		have += r.count
	}
	if have < want.Count {
		typ := "gpus"
		if want.Type != "" {
			typ = "gpus of type " + want.Type
		}
		g.drains(a, last, "FewerGPUs", "add the devices, or lower Gres= in slurm.conf; the types must be the same, in lower and upper case too",
			fmt.Sprintf("%d %s here, %d in slurm.conf", have, typ, want.Count))
	}
}

// drains adds a finding about all of the nodes, at a line or at the first.
func (g *gresLinter) drains(a *alikeNodes, r *gresRecord, rule, advice, message string) {
	line := 1
	if r != nil {
		line = r.line
	}
	what := "them"
	if len(a.names) == 1 {
		what = "it"
	}
	g.fatal(line, rule, advice, fmt.Sprintf("%s: %s: slurmctld drains %s", a, message, what))
}

// coresFitting is whether a line's Cores go with a node's sockets.
type coresFitting int

const (
	coresFit     coresFitting = iota
	coresOutside              // cores that the node has not
	coresApart                // not the cores of whole sockets, or of too many of them
)

// coresFit compares a line's Cores with the node's sockets. Of a list that is not
// one of numbers lintCores has said so.
func (g *gresLinter) coresFit(r *gresRecord, conf *ConfNode) coresFitting {
	value, ok := r.either(keyCores, keyCPUs)
	cores, read := parseCPUs(value)
	if !ok || !read {
		return coresFit
	}
	slices.Sort(cores)
	cores = slices.Compact(cores)
	if cores[len(cores)-1] >= conf.Cores() {
		return coresOutside
	}
	sockets := 0
	for len(cores) > 0 {
		last := (cores[0]/conf.CoresPerSocket+1)*conf.CoresPerSocket - 1
		if n := conf.CoresPerSocket; len(cores) < n || cores[0] != last-n+1 || cores[n-1] != last {
			return coresApart
		}
		sockets, cores = sockets+1, cores[conf.CoresPerSocket:]
	}
	if g.Release.CoresOfOneSocket() && sockets > 1 && sockets < conf.Sockets {
		return coresApart
	}
	return coresFit
}

// socketsWanted is what Cores must be.
func (g *gresLinter) socketsWanted() string {
	if g.Release.CoresOfOneSocket() {
		return "one socket or all"
	}
	return "whole sockets"
}

func coresText(r *gresRecord) string {
	value, _ := r.either(keyCores, keyCPUs)
	return hostlist.Shorten(value)
}

func socketsText(n *ConfNode) string {
	return fmt.Sprintf("Sockets=%d CoresPerSocket=%d", n.Sockets, n.CoresPerSocket)
}
