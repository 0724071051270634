package fit

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// Use says whether a job may have a node. It is small, because a State is copied for each node.
type Use int8

// The uses of a node.
const (
	// Free is a node without a job. Slurm may have powered it down.
	Free Use = iota
	// Busy is a node with a job, or one that is kept for a job or a reservation.
	Busy
	// Unavailable is a node that takes no job, for example because it is drained or down.
	Unavailable
	// Absent is a node that Slurm does not have. It does not count.
	Absent
	// Unsaid is a node of which nobody said how it is, nor whether Slurm has it.
	Unsaid
)

// Uses are all uses of a node that Slurm has.
var Uses = [...]Use{Free, Busy, Unavailable}

// String returns the word that series and pages have for the use.
func (u Use) String() string {
	return [...]string{"free", "busy", "unavailable", "absent", "unknown"}[u]
}

// State is how a node is, as Slurm says.
type State struct {
	Use Use
	// Off says that the node is free, and that Slurm has powered it down. Slurm takes it last.
	Off bool
	// Why are Slurm's words, in lower case. It is empty if the node is free.
	Why string
	// GPUs is how many the node has, NoGPUs if it has none, or 0 if that is not known.
	GPUs int
}

// NoGPUs is of a node without a GPU.
const NoGPUs = -1

// stateWords are the words that Slurm has for nodes, by what they mean. Slurm may say several of them about one node.
var stateWords = [...][]string{
	Free: {"idle", "cloud", "dynamic_norm", "dynamic_future", "external", "powered_down", "powering_up", "power_up", "pow_up", "undrain", "resume"},
	// A blocked node is in a block with a job that lets no other job in.
	Busy: {"blocked", "allocated", "alloc", "mixed", "mix", "completing", "comp", "reserved", "resv", "planned", "plnd", "maintenance", "maint",
		"powering_down", "power_down", "pow_dn"},
	Unavailable: {"unknown", "unk", "down", "error", "err", "drain", "drained", "draining", "drng", "fail", "failing", "failg", "inval", "invalid_reg",
		"not_responding", "no_respond", "npc", "perfctrs", "reboot", "reboot_requested", "reboot_issued", "reboot_canceled", "boot", "parallel_net"},
	// Slurm may get such a node one day.
	Absent: {"future", "futr"},
}

// isState reports whether Slurm has each word for states of nodes.
func isState(words string) bool {
	all := split([]string{words})
	for _, word := range all {
		if whole, _ := meaning(word); whole == "" {
			return false
		}
	}
	return len(all) > 0
}

// meaning returns Slurm's whole word for a state, and what the word means. A column may cut a long word. If Slurm has no
// such word, the word is "", and the node is unavailable.
func meaning(word string) (whole string, use Use) {
	for use, all := range stateWords {
		for _, w := range all {
			if w == word || len(word) > 5 && strings.HasPrefix(w, word) {
				return w, Use(use)
			}
		}
	}
	return "", Unavailable
}

// marks are the characters that sinfo writes behind a state, as words.
var marks = map[byte]string{'*': "not_responding", '~': "powered_down", '#': "powering_up", '!': "power_down", '%': "powering_down", '$': "maintenance",
	'@': "reboot_requested", '^': "reboot_issued", '-': "planned"}

// StateOf returns what Slurm's words for a node's state mean. The words come from
// slurmrestd, or from sinfo in its long or short form. A node with an unknown word is unavailable.
func StateOf(words ...string) State {
	all := split(words)
	if len(all) == 0 {
		return State{Use: Unavailable, Why: "unknown"}
	}
	has := func(some ...string) bool {
		return slices.ContainsFunc(all, func(word string) bool { return slices.Contains(some, word) })
	}
	starts := has("powering_up", "power_up", "pow_up") // it does not respond yet, and Slurm gives it jobs
	var s State
	var why []string
	for _, word := range all {
		_, use := meaning(word)
		if use == Free || starts && word == "not_responding" {
			continue
		}
		s.Use = max(s.Use, use)
		why = append(why, word)
	}
	s.Why = topology.Cut(strings.Join(why, "+"), topology.MaxText)
	s.Off = s.Use == Free && has("powered_down")
	return s
}

// split returns the single words in lower case. sinfo's marks become words.
func split(words []string) (all []string) {
	for _, word := range words {
		for part := range strings.SplitSeq(strings.ToLower(word), "+") {
			behind := len(part)
			for behind > 0 && marks[part[behind-1]] != "" {
				behind--
			}
			if behind > 0 { // sinfo writes + behind a node that completes one of its jobs
				whole, _ := meaning(part[:behind])
				all = append(all, cmp.Or(whole, part[:behind]))
			}
			for i := behind; i < len(part); i++ {
				all = append(all, marks[part[i]])
			}
		}
	}
	return all
}

// The bounds of what ReadSinfo reads.
const (
	maxLine  = 1 << 20
	maxNodes = 1 << 17
)

// sinfoColumns says which fields of a line are read; -1 is none.
type sinfoColumns struct{ name, state, gres int }

// ReadSinfo reads the states of nodes from the output of `sinfo -N`, in any form whose header
// names the columns NODELIST and STATE, or of `sinfo -h -N -o '%N %T'` without a header. With a
// column GRES it reads how many GPUs the nodes have. It refuses what Slurm has for no state.
func ReadSinfo(name string, in io.Reader) (map[string]State, error) {
	states := map[string]State{}
	columns := sinfoColumns{0, 1, 2}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	first, bad := "", error(nil)
	for number := 1; lines.Scan(); number++ {
		fields := strings.Fields(lines.Text())
		first = cmp.Or(first, topology.Cut(strings.Join(fields, " "), topology.MaxText))
		if c := (sinfoColumns{slices.Index(fields, "NODELIST"), slices.Index(fields, "STATE"), slices.Index(fields, "GRES")}); c.name >= 0 && c.state >= 0 {
			columns, bad = c, nil
			clear(states) // what stands before the header is a title
			continue
		}
		if len(fields) == 0 {
			continue
		}
		if len(fields) <= max(columns.name, columns.state) {
			return nil, fmt.Errorf("%s:%d: %d columns: want the name of a node and its state, as sinfo -N prints them", name, number, len(fields))
		}
		if word := fields[columns.state]; bad == nil && !isState(word) {
			bad = fmt.Errorf("%s:%d: %q is no state of a node in Slurm: want the output of sinfo -N; the first line is: %s", name, number, word, first)
		}
		state := StateOf(fields[columns.state])
		if 0 <= columns.gres && columns.gres < len(fields) {
			state.GPUs = GPUs(fields[columns.gres])
		}
		if err := addNodes(states, fields[columns.name], state); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if bad != nil {
		return nil, bad
	}
	if len(states) == 0 {
		return nil, fmt.Errorf("%s: no node: want the output of sinfo -N", name)
	}
	return states, nil
}

func addNodes(states map[string]State, list string, state State) error {
	nodes, err := hostlist.Expand(list)
	if err != nil {
		return err
	}
	if len(states)+len(nodes) > maxNodes {
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	for _, n := range nodes {
		states[n] = state
	}
	return nil
}

// GPUs returns how many GPUs a node's Gres= counts, such as gpu:gb200:4(S:0-1), or NoGPUs. It is 0 if that
// is not known.
func GPUs(value string) int {
	counts := gres.ReadCounts(value)
	if counts.Err() != nil {
		return 0
	}
	return cmp.Or(int(min(gres.Total(counts.GPUs), maxNodes)), NoGPUs) //nolint:gosec // bounded
}
