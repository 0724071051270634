package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// maxNameLength and maxTrailingDigits are what Slurm's parsers take in the name
// of a block or a switch.
const (
	maxNameLength     = 63
	maxTrailingDigits = 18
)

// SlurmName turns any text into a name that Slurm takes for a block or switch:
// letters, digits, '_' and '-', at most 63 characters, not ending in more than
// 18 digits. Texts that had to be changed get eight hex digits of their hash,
// so that two never share a name.
func SlurmName(s string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, s)
	digits := len(clean) - len(strings.TrimRight(clean, "0123456789"))
	if clean == s && s != "" && len(s) <= maxNameLength && digits <= maxTrailingDigits {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	suffix := "-" + hex.EncodeToString(sum[:4]) + "x"
	return strings.TrimRight(clean[:min(len(clean), maxNameLength-len(suffix))], "-") + suffix
}

// makeTree builds the switch tree from the tiers of the nodes that have GPUs.
// Switches that share no parent stay apart: no root is invented.
func (p *planner) makeTree() {
	was, above := make(map[string]string), make(map[string]string)
	for _, s := range p.prev.Switches {
		for _, n := range s.Nodes {
			was[n] = s.Name
		}
		for _, c := range s.Children {
			above[c] = s.Name
		}
	}
	t := newTree()
	for i := range p.facts {
		tiers := p.read[i].tiers
		if len(tiers) == 0 || tiers[0] == "" || !p.read[i].hasGPUs {
			continue
		}
		t.addPath(p.facts[i].SlurmName, tiers)
	}
	t.settleParents()
	for i := range p.facts {
		pl, name := &p.plan.Placements[i], p.facts[i].SlurmName
		if leaf, ok := t.leafOf[name]; ok {
			pl.Switch = t.names[leaf]
		} else if leaf := t.leafNamed(was[name], above); leaf != "" {
			t.nodes[leaf] = append(t.nodes[leaf], name)
			pl.Switch = t.names[leaf]
		}
	}
	slices.Sort(t.keys)
	for _, m := range t.conflicts {
		p.problem("", ReasonTierConflict, m)
	}
	p.plan.Switches = t.switches()
	if len(p.plan.Blocks) == 0 {
		for i := range p.plan.Placements {
			if pl := &p.plan.Placements[i]; pl.Switch != "" {
				pl.Reason, pl.Message = ReasonPlaced, ""
			}
		}
	}
}

// tree is a switch tree in the making. Keys are "tier/value", for a value may
// name a leaf and a spine.
type tree struct {
	nodes     map[string][]string       // leaf key -> Slurm names
	leafOf    map[string]string         // Slurm name -> leaf key
	votes     map[string]map[string]int // key -> parent key -> nodes that say so
	parent    map[string]string
	names     map[string]string // key -> name
	keys      []string          // sorted, nearest tier first
	conflicts []string
}

func newTree() *tree {
	return &tree{nodes: map[string][]string{}, leafOf: map[string]string{}, votes: map[string]map[string]int{}, parent: map[string]string{}, names: map[string]string{}}
}

// maxTier bounds the way up, for tiers are one digit in a key.
const maxTier = 9

func tierKey(tier int, value string) string { return string(rune('0'+tier)) + "/" + value }

func (t *tree) addPath(node string, tiers []string) {
	leaf := tierKey(0, tiers[0])
	t.leafOf[node] = leaf
	t.nodes[leaf] = append(t.nodes[leaf], node)
	for k, below := 0, ""; k < len(tiers) && tiers[k] != ""; k++ {
		key := tierKey(k, tiers[k])
		if t.votes[key] == nil {
			t.votes[key] = map[string]int{}
		}
		if below != "" {
			t.votes[below][key]++
		}
		below = key
	}
}

// settleParents gives every switch the parent that most of its nodes name, the
// first by name where they are equal, and names the switches.
func (t *tree) settleParents() {
	for key := range t.votes {
		t.keys = append(t.keys, key)
	}
	slices.Sort(t.keys)
	taken := make(map[string]bool, len(t.keys))
	for _, key := range t.keys {
		name := SlurmName(key[2:])
		if taken[name] {
			name = SlurmName(fmt.Sprintf("tier%c-%s", key[0], key[2:]))
		}
		if taken[name] {
			name = SlurmName(fmt.Sprintf("tier%c/%s", key[0], key[2:]))
		}
		taken[name] = true
		t.names[key] = name
		var best string
		for parent, n := range t.votes[key] {
			if m := t.votes[key][best]; n > m || n == m && parent < best {
				best = parent
			}
		}
		t.parent[key] = best
		if len(t.votes[key]) > 1 {
			t.conflicts = append(t.conflicts, fmt.Sprintf("switch %s is said to be below %d switches; most nodes say %s, which is followed", name, len(t.votes[key]), best[2:]))
		}
	}
}

// leafNamed returns the key of the leaf of that name, empty for no name. A leaf
// that no node names now comes back below the switches that were above it.
func (t *tree) leafNamed(name string, above map[string]string) string {
	if name == "" {
		return ""
	}
	return t.named(name, 0, above)
}

func (t *tree) named(name string, tier int, above map[string]string) string {
	for _, key := range t.keys {
		if t.names[key] == name {
			if (key[0] == '0') != (tier == 0) {
				return "" // a leaf has become a switch above leaves, or the other way
			}
			return key
		}
	}
	key := tierKey(tier, name)
	t.names[key] = name
	t.keys = append(t.keys, key)
	if up := above[name]; up != "" && tier < maxTier {
		t.parent[key] = t.named(up, tier+1, above)
	}
	return key
}

// switches lists the tree, leaves first, each tier by name. A switch whose
// children all followed another parent is left out.
func (t *tree) switches() []Switch {
	children := make(map[string][]string)
	var out []Switch
	for _, key := range t.keys { // nearest tier first: children come before parents
		s := Switch{Name: t.names[key], Nodes: t.nodes[key], Children: children[key]}
		if len(s.Nodes) == 0 && len(s.Children) == 0 {
			continue
		}
		slices.Sort(s.Nodes)
		slices.Sort(s.Children)
		if p := t.parent[key]; p != "" {
			children[p] = append(children[p], s.Name)
		}
		out = append(out, s)
	}
	return out
}
