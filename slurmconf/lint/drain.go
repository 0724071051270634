package lint

import (
	"fmt"
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
	untyped := slices.ContainsFunc(a.conf.GPUs, func(c GPUCount) bool { return c.Type == "" })
	if untyped && len(a.conf.GPUs) > 1 {
		j.Fatal(1, "GresTypes", "give all gpus of Gres= a Type, or none", "%s: Gres=%s has gpus with a Type and others without: slurmd does not start", a, gresText(a.conf.GPUs))
		return
	}
	for _, want := range a.conf.GPUs {
		j.lintGPUs(a, want, gpus)
	}
}

// gresText writes the value of Gres=.
func gresText(gpus []GPUCount) string {
	words := make([]string, len(gpus))
	for i, g := range gpus {
		words[i] = fmt.Sprintf("gpu:%d", g.Count)
		if g.Type != "" {
			words[i] = fmt.Sprintf("gpu:%s:%d", g.Type, g.Count)
		}
	}
	return strings.Join(words, ",")
}

// lintGPUs judges the lines for gpus of one type. slurmd takes as many gpus as
// slurm.conf has. A line does not count if the node has not its cores.
func (j *gresJudge) lintGPUs(a *nodeGroup, want GPUCount, lines []*gresRecord) {
	var have uint64
	var last *gresRecord
	for _, r := range lines {
		if !r.hasFile() || want.Type != "" && r.values["type"] != want.Type {
			continue
		}
		if have >= want.Count {
			break
		}
		last = r
		switch fit := fitCores(j.Release, r, a.conf); fit {
		case coresOutside:
			j.drains(a, r, "CoresOutside", "want cores of 0 to "+fmt.Sprint(a.conf.Cores()-1)+", or the node's sockets in slurm.conf",
				fmt.Sprintf("Cores=%s are more than slurm.conf's %s has", hostlist.Shorten(r.values["cores"]), socketsText(a.conf)))
			continue
		case coresApart:
			j.drains(a, r, "CoresNotSocket", "write the cores of one socket, or leave Cores out; slurm.conf must have the sockets that the node has",
				fmt.Sprintf("Cores=%s are not %s of slurm.conf's %s", hostlist.Shorten(r.values["cores"]), socketsWanted(j.Release), socketsText(a.conf)))
		}
		have += r.count
	}
	if have < want.Count {
		typ := "gpus"
		if want.Type != "" {
			typ = "gpus of type " + want.Type
		}
		j.drains(a, last, "FewerGPUs", "add the devices, or lower Gres= in slurm.conf; Type must be the same, also in upper and lower case",
			fmt.Sprintf("%d %s here, %d in slurm.conf", have, typ, want.Count))
	}
}

// drains adds a finding about all of the nodes, at a line or at the first.
func (j *gresJudge) drains(a *nodeGroup, r *gresRecord, reason, remedy, message string) {
	line := 1
	if r != nil {
		line = r.Number
	}
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
	if release.CoresOfOneSocket() && sockets > 1 && sockets < conf.Sockets {
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
