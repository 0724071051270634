// Package fit says whether Slurm would start a job in a topology, and on which blocks or below
// which switch. It also says how running jobs lie in topologies ([Map]): which blocks and leaf
// switches a job uses, and which segments are not whole.
//
// It follows the rules of Slurm's topology plugins block, tree and flat. Jobs take whole nodes,
// and all nodes have the same weight. If Slurm must try a second place, for a job of several blocks
// beside nodes that are powered down, and for rare options, the answer is not known: it has the
// command that asks Slurm. For a job that asks, the package does not know partitions, limits,
// priorities, GRES or time: a job that fits may still wait for these. The package is pure.
package fit

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// Job is what a job asks for, in sbatch's words.
type Job struct {
	Nodes int
	// Segment is --segment: each so many nodes are together. 0: none.
	Segment int
	// Switches is --switches: the most leaf switches of a tree that the job may use. 0: any. After a
	// while Slurm takes more, so a job that does not fit now waits for any nodes below one switch.
	Switches int
	// GPUs is --gpus-per-node: nodes with fewer GPUs are left out.
	GPUs int
	// Consolidate, Spread and Exclusive are --consolidate-segments, --spread-segments and
	// --exclusive=topo. Only Slurm knows whether such a job fits.
	Consolidate, Spread, Exclusive bool
}

// Check returns what is wrong with the words themselves.
func (j *Job) Check() error {
	switch {
	case j.Nodes < 1:
		return fmt.Errorf("-N %d: want 1 node or more", j.Nodes)
	case j.Segment < 0:
		return fmt.Errorf("--segment=%d: want 1 node or more", j.Segment)
	case j.Segment == 0 && (j.Consolidate || j.Spread):
		return fmt.Errorf("--consolidate-segments and --spread-segments need --segment")
	}
	return nil
}

// Command is the command that asks Slurm about the job.
func (j *Job) Command() string {
	words := []string{fmt.Sprintf("sbatch --test-only -N %d", j.Nodes)}
	for _, option := range []struct {
		set  bool
		text string
	}{
		{j.Segment > 0, fmt.Sprintf("--segment=%d", j.Segment)},
		{j.Consolidate, "--consolidate-segments"},
		{j.Spread, "--spread-segments"},
		{j.Switches > 0, fmt.Sprintf("--switches=%d", j.Switches)},
		{j.GPUs > 0, fmt.Sprintf("--gpus-per-node=%d", j.GPUs)},
		{j.Exclusive, "--exclusive=topo"},
		{!j.Exclusive, "--exclusive"},
	} {
		if option.set {
			words = append(words, option.text)
		}
	}
	return strings.Join(append(words, "--wrap true"), " ")
}

// takes reports whether the job can use a node, now or later, as far as is known.
func (j *Job) takes(state State) bool {
	return state.Use != Absent && (j.GPUs == 0 || state.GPUs == 0 || state.GPUs >= j.GPUs)
}

// unsure reports whether it is not known if the job can use a node that it takes.
func (j *Job) unsure(state State) bool { return state.Use == Unsaid || state.GPUs == 0 && j.GPUs > 0 }

// Verdict says whether a job can start.
type Verdict string

// The verdicts.
const (
	Now     Verdict = "now"
	NotNow  Verdict = "not now"
	Never   Verdict = "never"
	Unknown Verdict = "unknown"
)

// Answer says whether a job can start, and where or why not. quoin fit prints verdict and reason as they are.
type Answer struct {
	// Verdict is empty if no job was asked about.
	Verdict Verdict `json:"verdict,omitempty"`
	// Why says why the job can never start, what is not known, or why the job waits although enough
	// nodes are free.
	Why string `json:"why,omitempty"`
	// Remedy says how what is not known can become known.
	Remedy string `json:"-"`
	// Place is what the job would get: now, or when the needed nodes are up and free.
	Place Place `json:"-"`
	// Needs are nodes that would do if they were up and free. There may be others.
	Needs []Need `json:"-"`
}

// AskStates is what to do if the states of some nodes are not known, or their numbers of GPUs.
const AskStates = "give --sinfo the output of sinfo -a -h -N -o '%N %T %G', or set slurm.url or slurm.scontrol of the publication"

// Answer says whether the job can start. The words of the job have been checked.
func (s *Site) Answer(asked *Job) Answer {
	if why := s.refused(asked); why != "" {
		return Answer{Verdict: Never, Why: why}
	}
	j := *asked
	if !s.HasBlocks() { // only blocks have segments
		j = Job{Nodes: j.Nodes, Switches: j.Switches, GPUs: j.GPUs}
	}
	a := s.judge(&j, now)
	if why := s.unsaid(&j); why != "" && (a.Verdict == Now || a.Verdict == NotNow) {
		sure := s.judge(&j, views)
		if sure.Verdict != a.Verdict {
			return Answer{Verdict: Unknown, Place: a.Place, Why: why, Remedy: AskStates}
		}
		a = sure
	}
	if a.Verdict == Unknown {
		a.Remedy = "ask Slurm, with -p for the partition: " + asked.Command()
	}
	return a
}

// unsaid names the nodes about which nobody said whether the job can have them, or returns "".
func (s *Site) unsaid(j *Job) string {
	nodes := s.Where(func(state State) bool { return j.takes(state) && j.unsure(state) })
	if len(nodes) == 0 {
		return ""
	}
	switch states := s.Where(func(state State) bool { return state.Use == Unsaid }); {
	case len(states) > 0 && len(states) == len(s.Nodes()):
		return "the job fits if all nodes are free, and nobody said which are"
	case len(states) > 0:
		return "the states of these nodes are not known: " + listed(states)
	}
	return "the number of GPUs of these nodes is not known: " + listed(nodes)
}

// listed is a host list of names, shortened.
func listed(names []string) string { return hostlist.Shorten(hostlist.Compress(names)) }

// refused says why Slurm refuses the words of a job, whatever nodes there are.
func (s *Site) refused(j *Job) string {
	release := s.release()
	switch {
	case j.Segment == 0:
		return ""
	case (j.Spread || j.Consolidate) && !release.Does(slurmconf.LargeSegments):
		return fmt.Sprintf("Slurm %s has no --spread-segments and no --consolidate-segments", release)
	case !s.HasBlocks() && !release.Does(slurmconf.LargeSegments):
		return "" // 24.11 looks at segments in blocks only
	case j.Nodes%j.Segment != 0 && (j.Segment < j.Nodes || !release.Does(slurmconf.LargeSegments)):
		return fmt.Sprintf("Slurm refuses %d nodes, because they are no multiple of the segment of %d", j.Nodes, j.Segment)
	case s.HasBlocks() && j.Segment > s.Sizes[0] && !release.Does(slurmconf.LargeSegments):
		return fmt.Sprintf("Slurm %s refuses a segment of %d nodes, because it is larger than the base block size of %d", release, j.Segment, s.Sizes[0])
	}
	return ""
}

// judge answers if Slurm takes the words of the job. The views from unsure on have the nodes of which
// it is not known whether the job can have them.
func (s *Site) judge(j *Job, unsure int) Answer {
	a := s.place(j, unsure)
	why := ""
	switch {
	case a.Verdict == Never || a.Verdict == Unknown:
	case s.Shared && j.Nodes > 1:
		why = "a switch of the tree is below two others, and how Slurm places jobs there is not known"
	case j.Consolidate || j.Spread || j.Exclusive:
		why = "there is no rule here for --consolidate-segments, --spread-segments and --exclusive=topo"
	case a.Verdict == Now && 0 < j.Switches && j.Switches < len(s.leaves):
		const waits = "Slurm waits a while for so few, and then starts the job on more"
		switch s.onLeaves(j, unsure) {
		case no:
			return Answer{Verdict: NotNow, Place: a.Place, Why: fmt.Sprintf("now the job would get more than %s: %s", count(j.Switches, UnitLeaf), waits)}
		case stuck:
			why = "which leaf switches Slurm takes is not known: " + waits
		}
	case s.HasBlocks() && j.GPUs > 0 && s.mixed(j):
		why = "the nodes have different numbers of GPUs, and which nodes Slurm takes first for GPUs is not known"
	}
	if why != "" {
		return Answer{Verdict: Unknown, Place: a.Place, Why: why}
	}
	return a
}

// dark reports whether free nodes are powered down and a segment needs several blocks. A segment that
// fits into a base block finds its place in any order of nodes.
func (s *Site) dark(j *Job) bool {
	return s.HasBlocks() && newSearch(s.Sizes, len(s.Blocks), j.Nodes, j.Segment).size > s.Sizes[0] && s.off(j)
}

// off reports whether free nodes are powered down. Slurm takes these last.
func (s *Site) off(j *Job) bool {
	return len(s.Where(func(state State) bool { return state.Off && j.takes(state) })) > 0
}

// mixed reports whether nodes that have the GPUs that the job asks for have different numbers of these.
func (s *Site) mixed(j *Job) bool {
	gpus := map[int]bool{}
	for _, node := range s.Where(func(state State) bool { return j.takes(state) && !j.unsure(state) }) {
		gpus[s.State(node).GPUs] = true
	}
	return len(gpus) > 1
}

// place answers by the site's blocks: which of them Slurm takes now, or later.
func (s *Site) place(j *Job, unsure int) Answer {
	all := s.views(j, unsure)
	if s.dark(j) {
		if place, fits := all[repaired].find(j); fits != no || len(place.Segments) > 0 { // else not even one segment fits
			return Answer{Verdict: Unknown, Why: "some free nodes are powered down, Slurm takes these last, and whether the job fits then is not known"}
		}
	}
	for i := range all {
		place, fits := all[i].find(j)
		switch {
		case fits == stuck && i == now:
			return Answer{Verdict: Unknown, Why: "Slurm gets stuck with the first place that it tries, and which it tries next is not known"}
		case fits == stuck:
			return Answer{Verdict: Unknown, Why: "not now, but perhaps when more nodes are free: Slurm gets stuck with the first place that it tries then"}
		case fits == yes && i == now:
			return Answer{Verdict: Now, Place: place}
		case fits == yes:
			return s.wait(j, &all[now], &all[i], place)
		}
	}
	return Answer{Verdict: Never, Why: s.never(j, &all[repaired])}
}
