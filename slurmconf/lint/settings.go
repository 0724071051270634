package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// Hook is what slurm.conf must allow the job hook.
type Hook struct {
	// PrologSeconds is the longest time of a Prolog that waits for IMEX. It is 0 if no
	// Prolog waits.
	PrologSeconds int
	// HostChannels says that jobs use the channel devices of the machine.
	HostChannels bool
	// OneDomain says that one ComputeDomain is kept for all nodes.
	OneDomain bool
}

// Setting is a key of slurm.conf as it is written, its value and its place.
type Setting struct {
	Key, Value, File string
	Line             int
}

func (s Setting) subject() topology.Subject { return topology.Subject{File: s.File, Line: s.Line} }

const (
	// imexPlugin gives each job an IMEX channel of its own.
	imexPlugin = "switch/nvidia_imex"
	// batchStartTimeout is slurm.conf's default, in seconds.
	batchStartTimeout = 10
	// driverChannels is how many IMEX channels NVIDIA's driver makes by default
	// (NVreg_ImexChannelCount).
	driverChannels = 2048
)

// LintSettings says which settings of a slurm.conf do not go with the job hook and
// the IMEX channels. settings are by key in lower case. Findings about a key that is
// left out stand at the first line of the file name. Slurm starts with all of the
// settings.
func LintSettings(name string, settings map[string]Setting, h Hook) []topology.Finding {
	l := hookLinter{Hook: h, settings: settings, name: name}
	if _, ok := settings["prolog"]; ok && h.PrologSeconds > 0 {
		l.lintProlog()
		l.lintBatchStart()
	}
	switch s, set := settings["switchtype"]; {
	case s.Value == imexPlugin:
		l.lintChannels(s)
	case h.OneDomain && !h.HostChannels:
		if !set {
			s = Setting{File: name, Line: 1}
		}
		l.at(s, reasonChannels, "set SwitchType="+imexPlugin, "SwitchType is not "+imexPlugin+", and one ComputeDomain is kept for all nodes: no job has an IMEX channel of its own, and jobs that share one can reach each other's memory")
	}
	return l.findings
}

type hookLinter struct {
	Hook
	settings map[string]Setting
	name     string
	findings []topology.Finding
}

// lintProlog judges the time that slurmd gives a Prolog. PrologTimeout, of newer
// releases, goes before PrologEpilogTimeout.
func (l *hookLinter) lintProlog() {
	for _, key := range []string{"PrologTimeout", "PrologEpilogTimeout"} {
		s, ok := l.settings[strings.ToLower(key)]
		if !ok {
			continue
		}
		if limit, ok := seconds(s.Value); ok && limit < l.PrologSeconds {
			l.at(s, reasonProlog, fmt.Sprintf("set it to %d or more, or leave it out", l.PrologSeconds),
				fmt.Sprintf("%s is %d, but a Prolog that waits for IMEX may take %d s: slurmd ends it, drains the node and holds the job", key, limit, l.PrologSeconds))
		}
		return
	}
}

// allocFlags are the words of PrologFlags that run the Prolog when a job gets its nodes:
// Alloc, and the words that imply Alloc. DeferBatch does so in newer releases only.
var allocFlags = []string{"alloc", "contain", "nohold", "forcerequeueonfail", "runinjob", "x11", "deferbatch"}

// lintBatchStart judges how long slurmctld waits for a batch job to start. It counts if
// the Prolog runs only at that time.
func (l *hookLinter) lintBatchStart() {
	if slices.ContainsFunc(words(l.settings["prologflags"]), func(flag string) bool { return slices.Contains(allocFlags, flag) }) {
		return
	}
	s, set := l.settings["batchstarttimeout"]
	limit, known, by := batchStartTimeout, true, " by default"
	if set {
		limit, known = seconds(s.Value)
		by = ""
	} else {
		s = Setting{File: l.name, Line: 1}
	}
	if known && limit < l.PrologSeconds {
		l.at(s, reasonProlog, fmt.Sprintf("set PrologFlags=Alloc, or BatchStartTimeout to %d or more", l.PrologSeconds),
			fmt.Sprintf("BatchStartTimeout is %d%s, but a Prolog that waits for IMEX may take %d s, and without PrologFlags=Alloc it runs as the job starts: slurmctld may treat the job as lost", limit, by, l.PrologSeconds))
	}
}

// lintChannels judges switch/nvidia_imex, which gives each job a channel of its own.
func (l *hookLinter) lintChannels(plugin Setting) {
	if l.HostChannels {
		l.at(plugin, reasonChannels, "leave imex.hostChannels out, or SwitchType", imexPlugin+" gives jobs channel devices of their own, but imex.hostChannels says that they use those of the machine")
	}
	s := l.settings["switchparameters"]
	for word := range strings.SplitSeq(s.Value, ",") {
		text, ok := strings.CutPrefix(word, "imex_channel_count=")
		if n, err := strconv.ParseUint(text, 10, 64); ok && err == nil && n > driverChannels {
			l.at(s, reasonChannels, fmt.Sprintf("set it to %d, or NVreg_ImexChannelCount=%d for the driver of each node", driverChannels, n),
				fmt.Sprintf("imex_channel_count is %d, but NVIDIA's driver makes %d channels: a job that gets a later one has none", n, driverChannels))
		}
	}
}

// lintRank advises the order of a job's nodes by block. Slurm orders nodes when it starts
// or is reconfigured, so nodes that register later gain nothing.
func lintRank(o *Options, topologies []slurmconf.Section) []topology.Finding {
	at := slices.IndexFunc(topologies, func(s slurmconf.Section) bool { return s.Default })
	if o.SlurmConf == "" || at < 0 || topologies[at].Kind != topology.KindBlock || !o.Release.TakesWord("topologyparam", "blockasnoderank") {
		return nil
	}
	named := slices.ContainsFunc(topologies[at].Units, func(u slurmconf.Unit) bool { return u.Nodes != "" })
	if !named || strings.Contains(strings.ToLower(o.Settings["topologyparam"].Value), "blockasnoderank") {
		return nil
	}
	message := "a job's nodes and ranks stand in the order of the nodes' names, which need not be that of the blocks"
	remedy := "add BlockAsNodeRank, so that neighbouring ranks are in one block"
	if o.Release.Does(slurmconf.RanksFollowBlocks) && !strings.Contains(strings.ToUpper(o.Settings["selecttypeparameters"].Value), "CR_NO_DIST_TOPO_BLOCK") {
		message = "srun's ranks follow the blocks, but SLURM_JOB_NODELIST and SLURM_NODEID follow the nodes' names: a program that takes SLURM_NODEID for its rank has another order"
		remedy = "add BlockAsNodeRank, so that both have one order"
	}
	return []topology.Finding{{Subject: o.setting("topologyparam").subject(), Reason: reasonNoBlockRank, Message: "TopologyParam has no BlockAsNodeRank: " + message, Remedy: remedy}}
}

func (l *hookLinter) at(s Setting, reason, remedy, message string) {
	l.findings = append(l.findings, topology.Finding{Subject: s.subject(), Reason: reason, Message: message, Remedy: remedy})
}

// seconds reads a time limit as Slurm does. known is false if Slurm has no limit, or would
// not start.
func seconds(value string) (limit int, known bool) {
	n, err := strconv.ParseUint(value, 0, 16)
	return int(n), err == nil && n > 0 && n < noLimit //nolint:gosec // of 16 bits
}

// noLimit is the smallest number that Slurm takes for no limit.
const noLimit = 65534
