package publisher

import (
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// settings are the keys of the configuration that say which Nodes a publication takes and how Slurm
// calls them, beside those that the published plan was made by. What a change of them takes from
// Slurm is judged as a whole and at once: the stored plan keeps the old keys until then, so a restart
// in between forgets nothing.
type settings struct {
	// old are the keys of the published plan, and now those of the configuration.
	old, now map[string]string
	// unknown says that nobody knows by which keys the published plan was made. They count as changed.
	unknown bool
}

// The keys that say the names and choose the nodes. The namespace is that of worker pods.
const (
	keyNames     = "slurmNames"
	keyNamespace = "namespace"
	keySelector  = "nodes.selector"
	keySlinky    = "nodes.slinky"
)

// settingsOf compares the keys of the publication with those that the published plan was made by.
// Nothing has changed if there is no plan.
func settingsOf(p *publication.Cluster, prev *Previous) settings {
	if prev.Plan == nil {
		return settings{}
	}
	return settings{old: prev.stored.Policy, now: p.Keys(), unknown: len(prev.stored.Policy) == 0}
}

func (s *settings) differ(key string) bool { return s.old[key] != s.now[key] }

// changed reports whether other names are given, or other nodes chosen, than by the published plan.
func (s *settings) changed() bool { return s.names() || s.nodes() }

// names reports whether other names are given, as far as the keys say it.
func (s *settings) names() bool {
	return s.unknown || s.differ(keyNames) || s.differ(keyNamespace)
}

// nodes reports whether other nodes are chosen.
func (s *settings) nodes() bool {
	return !s.unknown && (s.differ(keySelector) || s.differ(keySlinky) || s.differ(keyNamespace))
}

// text says a key, and what it was before.
func (s *settings) text(key string) string {
	old, now := s.old[key], s.now[key]
	text := key + ": " + now
	switch {
	case now == "":
		return "no " + key + ", which was " + old
	case old == now:
		return text
	case s.unknown:
		return text + "; nobody knows by which the published names were given"
	case old == "":
		return text + ", which is new"
	}
	return text + ", which was " + old
}

// byNames says by which keys the names were given, and are given now. old is empty if they are the
// same, or if nobody knows.
func (s *settings) byNames() (old, now string) {
	say := func(keys map[string]string) string {
		text := keyNames + ": " + keys[keyNames]
		if s.differ(keyNamespace) && keys[keyNamespace] != "" {
			text += ", " + keyNamespace + ": " + keys[keyNamespace]
		}
		return text
	}
	if s.names() && !s.unknown {
		old = say(s.old)
	}
	return old, say(s.now)
}

// absence is that of a name that no pod has by the new keys. A pod of the old keys may be made again. Else there is
// nothing to wait for.
func (s *settings) absence() absence {
	text := s.text(keyNames)
	if s.now[keyNames] == s.old[keyNames] {
		text = s.text(keyNamespace)
	}
	a := absence{fate: leavesNow, why: "without a worker pod by " + text, bySettings: true}
	if kind, _, _ := strings.Cut(s.old[keyNames], ":"); s.unknown || kind == "slinky" || kind == "pod" {
		a.fate = leavesLater
	}
	return a
}
