package lint

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// ownKeys are the keys of slurm.conf about topologies, switches and GRES, in lower case. A key that begins
// with one of ownSubjects and is none of them is an error: people take it from other programs' pages.
var (
	ownKeys     = []string{"topologyparam", "topologyplugin", "switchparameters", "switchtype", "grestypes"}
	ownSubjects = []string{"topology", "switch", "gres", "block", "segment"}
)

// pluginWords are the plugins that Slurm has for a key. Letters count as they are written.
var pluginWords = map[string][]string{
	"selecttype": {"select/cons_tres", "select/linear"},
	"switchtype": {imexPlugin, "switch/hpe_slingshot", "switch/none", "none"},
}

// prologFlags are the words of PrologFlags in lower case: allocFlags, and those that do not imply Alloc.
var prologFlags = append([]string{"serial"}, allocFlags...)

// lintWords names the words of slurm.conf with which slurmctld does not start: keys of lines NodeName and
// PartitionName, keys about topologies and GRES, and values of SelectType, SwitchType and PrologFlags.
// Other settings are not judged.
func (l *linter) lintWords() []topology.Finding {
	l.Findings = syntax.Findings{}
	for line, words := range l.Words {
		for key, s := range words {
			if key != "topology" && !l.Release.TakesWord(line, key) { // Topology= is judged with the topology file
				l.unknownKey(s, "on this line")
			}
		}
	}
	for key, s := range l.Settings {
		if slices.ContainsFunc(ownSubjects, func(subject string) bool { return strings.HasPrefix(key, subject) }) && !slices.Contains(ownKeys, key) {
			l.unknownKey(s, "in slurm.conf")
		}
		if plugins, ok := pluginWords[key]; ok && !slices.Contains(plugins, s.Value) {
			l.unknownPlugin(s, s.Value, "write one of "+strings.Join(plugins, ", "))
		}
	}
	if s := l.Settings["selecttype"]; s.Value == "select/linear" && l.Plugin == PluginTree {
		l.File = s.File
		l.Fatal(s.Line, syntax.ReasonBadValue, "write SelectType=select/cons_tres", "select/linear does not go with topology/tree: slurmctld does not start")
	}
	l.lintFlags()
	slices.SortFunc(l.All, func(a, b topology.Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	return l.All
}

func (l *linter) unknownKey(s Setting, where string) {
	l.File = s.File
	l.Fatal(s.Line, syntax.ReasonUnknownKey, "correct the key, or take it out", "Slurm %s does not know the key %s %s, and does not start", l.Release, hostlist.Shorten(s.Key), where)
}

// unknownPlugin says that Slurm has no plugin of the name that a setting gives.
func (l *linter) unknownPlugin(s Setting, value, remedy string) {
	l.File = s.File
	l.Fatal(s.Line, syntax.ReasonBadValue, remedy, "Slurm %s has no %s %q, in upper and lower case as written, and does not start", l.Release, s.Key, hostlist.Shorten(value))
}

// lintFlags judges the words of PrologFlags and of TopologyParam. Slurm ignores unknown words of the latter.
func (l *linter) lintFlags() {
	s := l.Settings["prologflags"]
	l.File = s.File
	flags := words(s)
	for _, flag := range flags {
		if !slices.Contains(prologFlags, flag) {
			l.Fatal(s.Line, syntax.ReasonBadValue, "want words of "+strings.Join(prologFlags, ", "), "PrologFlags has no word %q, and slurmctld does not start", hostlist.Shorten(flag))
		}
	}
	if slices.Contains(flags, "nohold") && slices.ContainsFunc(flags, func(f string) bool { return f == "contain" || f == "runinjob" || f == "x11" }) {
		l.Fatal(s.Line, syntax.ReasonBadValue, "leave NoHold out", "NoHold of PrologFlags does not go with Contain, RunInJob and X11: slurmctld does not start")
	}
	s = l.Settings["topologyparam"]
	l.File = s.File
	for _, word := range words(s) {
		name, _, _ := strings.Cut(word, "=")
		if !l.Release.TakesWord("topologyparam", name) {
			l.Warn(s.Line, syntax.ReasonBadValue, "correct the word, or take it out", "TopologyParam of Slurm %s has no word %q: Slurm ignores it", l.Release, hostlist.Shorten(word))
		}
	}
}

// words are the words of a list in lower case. Slurm skips empty ones.
func words(s Setting) []string {
	return strings.FieldsFunc(strings.ToLower(s.Value), func(c rune) bool { return c == ',' || c == ' ' })
}
