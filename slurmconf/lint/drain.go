package lint

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// lintConf compares the lines of a group of nodes with what slurm.conf says of them.
// What has slurmctld drain a node is fatal, because the node stays drained when the
// file is put right. GPUs that a node detects are not known here.
func (g *gresFile) lintConf(a *nodeGroup, gpus []gres.Line) {
	counted := a.conf.Gres.GPUs
	untyped := slices.ContainsFunc(counted, func(c gres.GPUCount) bool { return c.Type == "" })
	if untyped && len(counted) > 1 {
		g.Fatal(1, reasonGresLine, "give all gpus of Gres= a Type, or none", "%s: Gres=%s has gpus with a Type and others without: slurmd does not start", a, gresText(counted))
		return
	}
	here, _ := gres.Count(gpus)
	short := gres.Fewer(counted, here)
	bad := len(short) > 0
	for _, want := range counted {
		bad = g.lintTaken(a, want, gpus) || bad
	}
	for _, s := range short {
		g.lintFewer(a, s, gpus)
	}
	if wanted := gres.Total(counted); !bad && (wanted > 0 || a.own && !g.uncounted) {
		g.lintMore(a, firstLine(gpus), gres.Total(here), "here", wanted)
	}
}

// lintMore warns of GPUs that slurm.conf does not count.
func (g *gresFile) lintMore(a *nodeGroup, line int, has uint64, where string, wanted uint64) {
	if has > wanted {
		g.note(a.names, topology.Fatal, "") // slurmd starts, and the counts differ
		g.Warn(line, reasonMoreGPUs, "count them in Gres= of slurm.conf", "%s: %d gpus %s, %d in slurm.conf: Slurm uses no more than these", a, has, where, wanted)
	}
}

func firstLine(gpus []gres.Line) int {
	if len(gpus) == 0 {
		return 1
	}
	return gpus[0].Number
}

// lintTaken judges Cores of the lines for gpus of one type that slurmd takes, and reports whether they are
// wrong. slurmd takes as many gpus as slurm.conf has. A line does not count if the node has not its cores.
func (g *gresFile) lintTaken(a *nodeGroup, want gres.GPUCount, lines []gres.Line) (bad bool) {
	var have uint64
	var outside, apart []gres.Line
	for i := range lines {
		l := &lines[i]
		if !l.HasFile() || want.Type != "" && l.Type != want.Type {
			continue
		}
		if have >= want.Count {
			break
		}
		switch fitCores(g.Release, l, a.conf) {
		case coresOutside:
			outside = append(outside, *l)
			continue
		case coresApart:
			apart = append(apart, *l)
		}
		have += l.Devices()
	}
	const threads = "Cores are cores, not hardware threads: "
	if len(outside) > 0 {
		g.drains(a, outside[0].Number, reasonCores, threads+"want cores of 0 to "+fmt.Sprint(a.conf.Cores()-1)+", or the node's sockets in slurm.conf",
			fmt.Sprintf("%s are more than slurm.conf's %s has", coresText(outside), socketsText(a.conf)))
	}
	if len(apart) > 0 {
		g.drains(a, apart[0].Number, reasonCores, threads+"write the cores of one socket, or leave Cores out; slurm.conf must have the sockets that the node has",
			fmt.Sprintf("%s are not %s of slurm.conf's %s", coresText(apart), socketsWanted(g.Release), socketsText(a.conf)))
	}
	return have < want.Count || len(apart) > 0
}

// coresText names the Cores of lines.
func coresText(lines []gres.Line) string {
	text := "Cores=" + hostlist.Shorten(lines[0].Cores)
	switch n := len(lines) - 1; n {
	case 0:
	case 1:
		text += " (and 1 more line)"
	default:
		text += fmt.Sprintf(" (and %d more lines)", n)
	}
	return text
}

// lintFewer says why a node has fewer gpus than slurm.conf counts.
func (g *gresFile) lintFewer(a *nodeGroup, short gres.Shortage, lines []gres.Line) {
	var untyped, withoutFile uint64
	var swallows, last, odd *gres.Line // last is of those that count
	for i := range lines {
		l := &lines[i]
		if l.HasFile() && (short.Type == "" || l.Type == short.Type) {
			last = l
		}
		switch {
		case strings.Contains(l.Type, "="):
			swallows = l
		case !l.HasFile():
			withoutFile += max(1, l.Count)
		case l.Type == "":
			untyped += l.Devices()
		default:
			continue
		}
		odd = cmp.Or(odd, l)
	}
	message := fmt.Sprintf("%d %s here, %d in slurm.conf", short.Has, short.Kind(), short.Count)
	remedy := "add the devices, or lower Gres= in slurm.conf; Type must be the same, also in upper and lower case"
	switch {
	case swallows != nil:
		message += "; a Type= is empty and takes the next word for its value: " + hostlist.Shorten(swallows.Type)
		remedy = "write a Type behind Type=, or leave the key out"
	case withoutFile > 0:
		message += fmt.Sprintf("; the %d have no File, and slurmd ignores them", withoutFile)
		remedy = "write File="
	case untyped > 0 && short.Type != "":
		message += fmt.Sprintf("; the %d have no Type", untyped)
		remedy = "write Type=" + short.Type
	}
	line := 1
	if at := cmp.Or(last, odd); at != nil {
		line = at.Number
	}
	g.drains(a, line, reasonFewerGPUs, remedy, message)
}

// migProfile is in the Type of MIG instances.
var migProfile = regexp.MustCompile(`\dg\.\d+gb`)

// lintFound compares what nodes register that detect their GPUs with slurm.conf. way is the value of AutoDetect,
// which stands in line.
func (g *gresFile) lintFound(a *nodeGroup, line int, way string) {
	wanted := gres.Total(a.conf.Gres.GPUs)
	mig := false
	for _, c := range a.conf.Gres.GPUs {
		if mig = mig || migProfile.MatchString(c.Type); mig && way == gres.AutoDetectNvidia {
			g.drains(a, line, reasonFewerGPUs, "write AutoDetect=nvml, or a line with MultipleFiles for each instance",
				fmt.Sprintf("AutoDetect=nvidia finds no MIG instances, and Gres= in slurm.conf counts %d of type %s", c.Count, c.Type))
			return
		}
	}
	byCount, why := map[int][]string{}, map[string]string{}
	var drained, unknown []string
	for _, n := range slices.Sorted(slices.Values(a.names)) {
		found, known := g.Found[n]
		why[n] = cmp.Or(found.Unknown, found.Drains)
		switch {
		case mig:
			why[n], found.Count = "its MIG instances are not known here", 0
		case !known:
			why[n] = "it has no report"
		case found.Unknown == "" && found.Sockets != a.conf.Sockets:
			why[n] = fmt.Sprintf("its report has %d sockets, and slurm.conf %d", found.Sockets, a.conf.Sockets)
		}
		switch {
		case found.Count > 0 && uint64(found.Count) != wanted:
			byCount[found.Count] = append(byCount[found.Count], n)
		case wanted == 0 || why[n] == "":
		case why[n] == found.Drains:
			drained = append(drained, n)
		default:
			unknown = append(unknown, n)
		}
	}
	of := func(names []string, f func(*nodeGroup)) {
		if len(names) > 0 {
			g.about(names, func() { f(&nodeGroup{names: names}) })
		}
	}
	for _, count := range slices.Sorted(maps.Keys(byCount)) {
		of(byCount[count], func(same *nodeGroup) {
			for _, s := range gres.Fewer([]gres.GPUCount{{Count: wanted}}, []gres.GPUCount{{Count: uint64(count)}}) {
				g.drains(same, 1, reasonFewerGPUs, "look for the others, or lower Gres= in slurm.conf", fmt.Sprintf("%d %s by labels or reports, %d in slurm.conf", s.Has, s.Kind(), s.Count))
			}
			g.lintMore(same, 1, uint64(count), "by labels or reports", wanted)
		})
	}
	of(drained, func(same *nodeGroup) {
		g.drains(same, line, reasonCores, "write lines with File for these nodes", fmt.Sprintf("AutoDetect=%s finds the cores of each GPU, and of %s %s", way, drained[0], why[drained[0]]))
	})
	of(unknown, func(same *nodeGroup) {
		g.note(unknown, topology.Unknown, why[unknown[0]])
		g.NotJudged(line, "%s: what AutoDetect=%s finds is not known (%s: %s); slurmctld drains a node with a GPU next to a part of a socket", same, way, unknown[0], why[unknown[0]])
	})
}

// drains adds a finding about all of the nodes.
func (g *gresFile) drains(a *nodeGroup, line int, reason, remedy, message string) {
	what := "them"
	if len(a.names) == 1 {
		what = "it"
	}
	g.Fatal(line, reason, remedy, "%s: %s: slurmctld drains %s", a, message, what)
}

// coresFitting is whether a line's Cores go with a node's sockets.
type coresFitting int

const (
	coresFit     coresFitting = iota
	coresOutside              // cores that the node has not
	coresApart                // not the cores of whole sockets, or of too many of them
)

// fitCores compares a line's Cores with the node's sockets.
func fitCores(release slurmconf.Release, l *gres.Line, conf *Node) coresFitting {
	cores, ok := gres.ParseCPUs(l.Cores)
	if !ok {
		return coresFit
	}
	slices.Sort(cores)
	taken := make([]int, conf.Sockets)
	for _, core := range slices.Compact(cores) {
		if core >= conf.Cores() {
			return coresOutside
		}
		taken[core/conf.CoresPerSocket]++
	}
	if !gres.FitSockets(taken, conf.CoresPerSocket, !release.Does(slurmconf.CoresOfOneSocket)) {
		return coresApart
	}
	return coresFit
}

// socketsWanted is what Cores must be.
func socketsWanted(release slurmconf.Release) string {
	if release.Does(slurmconf.CoresOfOneSocket) {
		return "one socket or all"
	}
	return "whole sockets"
}

func socketsText(n *Node) string {
	return fmt.Sprintf("Sockets=%d CoresPerSocket=%d", n.Sockets, n.CoresPerSocket)
}
