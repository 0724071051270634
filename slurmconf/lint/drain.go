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
)

// lintConf compares the lines of a group of nodes with what slurm.conf says of them.
// What has slurmctld drain a node is fatal, because the node stays drained when the
// file is put right. GPUs that a node detects are not known here.
func (j *gresJudge) lintConf(a *nodeGroup, gpus []*gresRecord) {
	if a.conf == nil {
		return
	}
	untyped := slices.ContainsFunc(a.conf.GPUs, func(c gres.GPUCount) bool { return c.Type == "" })
	if untyped && len(a.conf.GPUs) > 1 {
		j.Fatal(1, "GresTypes", "give all gpus of Gres= a Type, or none", "%s: Gres=%s has gpus with a Type and others without: slurmd does not start", a, gresText(a.conf.GPUs))
		return
	}
	var here, wanted uint64
	for _, r := range gpus {
		if r.hasFile() {
			here += r.count
		}
	}
	fewer := false
	for _, want := range a.conf.GPUs {
		wanted += want.Count
		fewer = j.lintGPUs(a, want, gpus) || fewer
	}
	if !fewer && here > wanted && (wanted > 0 || a.own) {
		j.Warn(firstLine(gpus), "MoreGPUs", "count them in Gres= of slurm.conf", "%s: %d gpus here, %d in slurm.conf: Slurm uses no more than these", a, here, wanted)
	}
}

func firstLine(gpus []*gresRecord) int {
	if len(gpus) == 0 {
		return 1
	}
	return gpus[0].Number
}

// gresText writes the value of Gres=.
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

// lintGPUs judges the lines for gpus of one type, and reports whether they are too few or
// have wrong Cores. slurmd takes as many gpus as slurm.conf has. A line does not count if
// the node has not its cores.
func (j *gresJudge) lintGPUs(a *nodeGroup, want gres.GPUCount, lines []*gresRecord) (bad bool) {
	var have, lost uint64
	var last *gresRecord
	var outside, apart []*gresRecord
	for _, r := range lines {
		if !r.hasFile() || want.Type != "" && r.values["type"] != want.Type {
			continue
		}
		if have >= want.Count {
			break
		}
		last = r
		switch fitCores(j.Release, r, a.conf) {
		case coresOutside:
			outside, lost = append(outside, r), lost+r.count
			continue
		case coresApart:
			apart = append(apart, r)
		}
		have += r.count
	}
	const threads = "Cores are cores, not hardware threads: "
	if len(outside) > 0 {
		j.drains(a, outside[0].Number, "CoresOutside", threads+"want cores of 0 to "+fmt.Sprint(a.conf.Cores()-1)+", or the node's sockets in slurm.conf",
			fmt.Sprintf("%s are more than slurm.conf's %s has", coresText(outside), socketsText(a.conf)))
	}
	if len(apart) > 0 {
		j.drains(a, apart[0].Number, reasonNotSocket, threads+"write the cores of one socket, or leave Cores out; slurm.conf must have the sockets that the node has",
			fmt.Sprintf("%s are not %s of slurm.conf's %s", coresText(apart), socketsWanted(j.Release), socketsText(a.conf)))
	}
	if have+lost < want.Count {
		j.lintFewer(a, want, lines, last, have)
	}
	return have < want.Count || len(apart) > 0
}

// coresText names the Cores of lines.
func coresText(lines []*gresRecord) string {
	text := "Cores=" + hostlist.Shorten(lines[0].values["cores"])
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
func (j *gresJudge) lintFewer(a *nodeGroup, want gres.GPUCount, lines []*gresRecord, last *gresRecord, have uint64) {
	var untyped, withoutFile uint64
	for _, r := range lines {
		switch {
		case !r.hasFile():
			withoutFile += r.count
		case !r.has("type"):
			untyped += r.count
		default:
			continue
		}
		if last == nil {
			last = r
		}
	}
	typ := "gpus"
	if want.Type != "" {
		typ = "gpus of type " + want.Type
	}
	message := fmt.Sprintf("%d %s here, %d in slurm.conf", have, typ, want.Count)
	remedy := "add the devices, or lower Gres= in slurm.conf; Type must be the same, also in upper and lower case"
	switch {
	case withoutFile > 0:
		message += fmt.Sprintf("; the %d have no File, and slurmd ignores them", withoutFile)
		remedy = "write File="
	case untyped > 0 && want.Type != "":
		message += fmt.Sprintf("; the %d have no Type", untyped)
		remedy = "write Type=" + want.Type
	}
	line := 1
	if last != nil {
		line = last.Number
	}
	j.drains(a, line, "FewerGPUs", remedy, message)
}

// migProfile is in the Type of MIG instances.
var migProfile = regexp.MustCompile(`\dg\.\d+gb`)

// lintFound compares what nodes register that detect their GPUs by AutoDetect=nvidia with slurm.conf. line
// is that of AutoDetect.
func (j *gresJudge) lintFound(a *nodeGroup, line int) {
	if a.conf == nil {
		return
	}
	var wanted uint64
	for _, g := range a.conf.GPUs {
		wanted += g.Count
		if migProfile.MatchString(g.Type) {
			j.drains(a, line, "FewerGPUs", "write AutoDetect=nvml, or a line with MultipleFiles for each instance",
				fmt.Sprintf("AutoDetect=nvidia finds no MIG instances, and Gres= in slurm.conf counts %d of type %s", g.Count, g.Type))
			return
		}
	}
	byCount, why := map[int][]string{}, map[string]string{}
	var drained, unknown []string
	for _, n := range slices.Sorted(slices.Values(a.names)) {
		found, known := j.Found[n]
		why[n] = cmp.Or(found.Unknown, found.Drains)
		if !known {
			why[n] = "it has no report"
		} else if found.Unknown == "" && found.Sockets != a.conf.Sockets {
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
	of := func(names []string) *nodeGroup { return &nodeGroup{names: names} }
	for _, count := range slices.Sorted(maps.Keys(byCount)) {
		same := of(byCount[count])
		if uint64(count) < wanted {
			j.drains(same, 1, "FewerGPUs", "look for the others, or lower Gres= in slurm.conf", fmt.Sprintf("%d gpus by labels or reports, %d in slurm.conf", count, wanted))
		} else {
			j.Warn(1, "MoreGPUs", "count them in Gres= of slurm.conf", "%s: %d gpus by labels or reports, %d in slurm.conf: Slurm uses no more than these", same, count, wanted)
		}
	}
	if len(drained) > 0 {
		j.drains(of(drained), line, reasonNotSocket, "write lines with File for these nodes", fmt.Sprintf("AutoDetect=nvidia finds the cores of each GPU, and of %s %s", drained[0], why[drained[0]]))
	}
	if len(unknown) > 0 {
		j.NotJudged(line, "%s: what AutoDetect=nvidia finds is not known (%s: %s); slurmctld drains a node with a GPU next to a part of a socket", of(unknown), unknown[0], why[unknown[0]])
	}
}

// drains adds a finding about all of the nodes.
func (j *gresJudge) drains(a *nodeGroup, line int, reason, remedy, message string) {
	what := "them"
	if len(a.names) == 1 {
		what = "it"
	}
	j.Fatal(line, reason, remedy, "%s: %s: slurmctld drains %s", a, message, what)
}

// coresFitting is whether a line's Cores go with a node's sockets.
type coresFitting int

const (
	coresFit     coresFitting = iota
	coresOutside              // cores that the node has not
	coresApart                // not the cores of whole sockets, or of too many of them
)

// fitCores compares a line's Cores with the node's sockets.
func fitCores(release slurmconf.Release, r *gresRecord, conf *Node) coresFitting {
	cores, ok := gres.ParseCPUs(r.values["cores"])
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
	if !gres.FitSockets(taken, conf.CoresPerSocket, !release.CoresOfOneSocket()) {
		return coresApart
	}
	return coresFit
}

// socketsWanted is what Cores must be.
func socketsWanted(release slurmconf.Release) string {
	if release.CoresOfOneSocket() {
		return "one socket or all"
	}
	return "whole sockets"
}

func socketsText(n *Node) string {
	return fmt.Sprintf("Sockets=%d CoresPerSocket=%d", n.Sockets, n.CoresPerSocket)
}
