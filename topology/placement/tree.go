package placement

import (
	"cmp"
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
	clean := slurmLetters(s)
	digits := len(clean) - len(strings.TrimRight(clean, "0123456789"))
	if clean == s && s != "" && len(s) <= maxNameLength && digits <= maxTrailingDigits {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	suffix := "-" + hex.EncodeToString(sum[:4]) + "x"
	return strings.TrimRight(clean[:min(len(clean), maxNameLength-len(suffix))], "-") + suffix
}

// slurmLetters puts a dash for every character that Slurm does not take in a name.
func slurmLetters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, s)
}

// makeTree builds the switch tree from the tiers of the nodes that have GPUs.
// Switches that share no parent stay apart: no root is invented.
//
// A node that says nothing, or that names only the nearest of its switches, is
// taken to say of the others what was published of it. So labels that go missing
// move nothing, at any tier: a switch stays below its published parent until
// most of its nodes name another, and a parent stays as long as anything is
// below it. A tier goes for good when the nodes name other switches instead,
// when nothing is left below it, or when the policy's Tiers says that the site
// has fewer: silence alone never takes one away. A leaf that has lost its nodes
// stays below its parent, empty, while it is in use (Previous.InUse).
func (p *planner) makeTree() {
	if len(p.prev.Switches) == 0 && !slices.ContainsFunc(p.read, func(r reading) bool { return len(r.tiers) > 0 }) {
		return
	}
	t := newTree(p.prev.Switches, p.policy.Tiers)
	paths := p.readPaths(t)
	t.matchPublished()
	leaves := p.vote(t, paths)
	for i := range t.prev {
		if len(t.prev[i].Children) == 0 && p.inUse(t.prev[i].Name) {
			t.switches[t.keep(i)].inUse = true
		}
	}
	t.settleParents()
	t.name()
	for i, leaf := range leaves {
		if leaf >= 0 {
			t.switches[leaf].nodes = append(t.switches[leaf].nodes, p.facts[i].SlurmName)
			p.plan.Placements[i].Switch = t.switches[leaf].name
		}
	}
	for _, m := range t.conflicts() {
		p.problem("", ReasonTierConflict, m)
	}
	p.plan.Switches = t.list()
}

// placeBySwitch says of the nodes that have a switch that they are placed, where
// there is no block.
func (p *planner) placeBySwitch() {
	if len(p.plan.Blocks) > 0 {
		return
	}
	for i := range p.plan.Placements {
		if pl := &p.plan.Placements[i]; pl.Switch != "" {
			pl.Reason, pl.Message = ReasonPlaced, ""
		}
	}
}

// tree is a switch tree in the making. Switches, and published ones, are known
// by their indices; none is noSwitch.
type tree struct {
	switches []treeSwitch
	known    map[tierValue]int // index into switches
	tiers    int               // Policy.Tiers
	prev     []Switch
	leafOf   map[string]int // Slurm name -> published leaf
	above    []int          // published switch -> published parent
	tierOf   []int          // of published switches
	now      []int          // published switch -> index into switches
}

const noSwitch = -1

// tierValue is what nodes call a switch: a value may name a leaf and a spine.
type tierValue struct {
	tier  int
	value string
}

type treeSwitch struct {
	tierValue
	name     string
	prev     int // the published switch that it is
	parent   int
	votes    []parentVotes
	nodes    []string
	children []string
	inUse    bool
}

// parentVotes is how many nodes have a switch as the parent.
type parentVotes struct{ parent, nodes int }

func newTree(prev []Switch, tiers int) *tree {
	t := &tree{known: map[tierValue]int{}, tiers: tiers, prev: prev, leafOf: map[string]int{},
		above: make([]int, len(prev)), tierOf: make([]int, len(prev)), now: make([]int, len(prev))}
	byName := make(map[string]int, len(prev))
	for i := range prev {
		byName[prev[i].Name] = i
		t.above[i], t.now[i] = noSwitch, noSwitch
		for _, n := range prev[i].Nodes {
			t.leafOf[n] = i
		}
	}
	for i := range prev {
		for _, c := range prev[i].Children {
			if child, ok := byName[c]; ok {
				t.above[child] = i
			}
		}
	}
	for i := range prev {
		if len(prev[i].Children) == 0 {
			for tier, s := range t.published(i) {
				t.tierOf[s] = max(t.tierOf[s], tier)
			}
		}
	}
	return t
}

// maxTiers bounds the way up, for a file that was edited may hold a loop.
const maxTiers = 20

// published returns the published switches from a leaf to its root.
func (t *tree) published(leaf int) []int {
	var path []int
	for s := leaf; s != noSwitch && len(path) < maxTiers; s = t.above[s] {
		path = append(path, s)
	}
	return path
}

// add returns the switch that nodes name so.
func (t *tree) add(key tierValue) int {
	s, ok := t.known[key]
	if !ok {
		s = len(t.switches)
		t.known[key] = s
		t.switches = append(t.switches, treeSwitch{tierValue: key, prev: noSwitch, parent: noSwitch})
	}
	return s
}

// keep returns the switch that the published one is now.
func (t *tree) keep(prev int) int {
	if t.now[prev] == noSwitch {
		t.now[prev] = len(t.switches)
		t.switches = append(t.switches, treeSwitch{tierValue: tierValue{t.tierOf[prev], t.prev[prev].Name}, prev: prev, parent: noSwitch})
	}
	return t.now[prev]
}

// readPaths returns for every node the switches that it names, nearest first.
// Neighbours share theirs.
func (p *planner) readPaths(t *tree) [][]int {
	paths := make([][]int, len(p.facts))
	var last []string
	var path []int
	for i := range p.facts {
		tiers := p.read[i].tiers
		if len(tiers) == 0 || !p.read[i].hasGPUs {
			continue
		}
		if !slices.Equal(tiers, last) {
			last, path = tiers, make([]int, 0, len(tiers))
			for tier, value := range tiers {
				if value == "" {
					break
				}
				path = append(path, t.add(tierValue{tier, value}))
			}
		}
		paths[i] = path
	}
	return paths
}

// names returns the names that a switch may have, the best first.
func (k tierValue) names() [3]string {
	return [3]string{SlurmName(k.value), SlurmName(fmt.Sprintf("tier%d-%s", k.tier, k.value)), SlurmName(fmt.Sprintf("tier%d/%s", k.tier, k.value))}
}

// matchPublished finds for every switch that nodes name the published one of its
// tier and name.
func (t *tree) matchPublished() {
	if len(t.prev) == 0 {
		return
	}
	byName := make(map[string]int, len(t.prev))
	for i := range t.prev {
		byName[t.prev[i].Name] = i
	}
	for _, s := range t.inOrder() {
		sw := &t.switches[s]
		for _, name := range sw.names() {
			if i, ok := byName[name]; ok && t.tierOf[i] == sw.tier && t.now[i] == noSwitch {
				sw.prev, t.now[i] = i, s
				break
			}
		}
	}
}

// inOrder returns the switches by their tiers, then by what nodes call them.
func (t *tree) inOrder() []int {
	order := make([]int, len(t.switches))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return t.switches[a].compare(t.switches[b].tierValue) })
	return order
}

func (k tierValue) compare(l tierValue) int {
	return cmp.Or(cmp.Compare(k.tier, l.tier), strings.Compare(k.value, l.value))
}

// vote counts for every switch which parents its nodes say it has, and returns
// every node's leaf.
func (p *planner) vote(t *tree, paths [][]int) []int {
	leaves := make([]int, len(p.facts))
	last, named, whole := noSwitch, []int(nil), []int(nil) // those of the node before
	for i := range p.facts {
		path := paths[i]
		if leaf, ok := t.leafOf[p.facts[i].SlurmName]; ok {
			if leaf != last || !slices.Equal(path, named) {
				last, named, whole = leaf, path, t.complete(path, t.published(leaf))
			}
			path = whole
		}
		if len(path) == 0 {
			leaves[i] = noSwitch
			continue
		}
		leaves[i] = path[0]
		for k := 1; k < len(path); k++ {
			t.switches[path[k-1]].addVote(path[k])
		}
	}
	return leaves
}

// complete adds to the switches that a node names those that were published
// above the last of them, unless the site has no such tiers any more.
func (t *tree) complete(path, was []int) []int {
	n := len(path)
	if n >= len(was) || n > 0 && t.switches[path[n-1]].prev != was[n-1] {
		return path
	}
	path = append(make([]int, 0, len(was)), path...)
	for k := n; k < len(was) && t.has(t.tierOf[was[k]]); k++ {
		path = append(path, t.keep(was[k]))
	}
	return path
}

// has reports whether the site has that tier, as far as its policy says.
func (t *tree) has(tier int) bool { return t.tiers == 0 || tier < t.tiers }

func (s *treeSwitch) addVote(parent int) {
	for i := range s.votes {
		if s.votes[i].parent == parent {
			s.votes[i].nodes++
			return
		}
	}
	s.votes = append(s.votes, parentVotes{parent, 1})
}

// settleParents gives every switch the parent that most of its nodes have, the
// published one where they are equal, else the first. A switch of which no node
// has one keeps the published one.
func (t *tree) settleParents() {
	for s := 0; s < len(t.switches); s++ { // keep adds to them
		sw := &t.switches[s]
		published := noSwitch
		if sw.prev != noSwitch {
			if up := t.above[sw.prev]; up != noSwitch && t.has(t.tierOf[up]) && (len(sw.votes) == 0 || t.now[up] != noSwitch) {
				published = t.keep(up)
				sw = &t.switches[s]
			}
		}
		slices.SortFunc(sw.votes, func(a, b parentVotes) int {
			if n := cmp.Compare(b.nodes, a.nodes); n != 0 || a.parent == b.parent {
				return n
			}
			switch published {
			case a.parent:
				return -1
			case b.parent:
				return 1
			}
			return t.switches[a.parent].compare(t.switches[b.parent].tierValue)
		})
		if sw.parent = published; len(sw.votes) > 0 {
			sw.parent = sw.votes[0].parent
		}
	}
}

// name names the switches: published names stay, new ones are the best that no
// other has.
func (t *tree) name() {
	taken := make(map[string]bool, len(t.switches))
	for s := range t.switches {
		if sw := &t.switches[s]; sw.prev != noSwitch {
			sw.name = t.prev[sw.prev].Name
			taken[sw.name] = true
		}
	}
	for _, s := range t.inOrder() {
		sw := &t.switches[s]
		if sw.name != "" {
			continue
		}
		for _, name := range sw.names() {
			if sw.name = name; !taken[name] {
				break
			}
		}
		taken[sw.name] = true
	}
}

// conflicts names the switches whose nodes do not agree on the parent.
func (t *tree) conflicts() []string {
	var out []string
	for s := range t.switches {
		if sw := &t.switches[s]; len(sw.votes) > 1 {
			out = append(out, fmt.Sprintf("switch %s is said to be below %d switches; most nodes say, or were published below, %s, which is followed",
				sw.name, len(sw.votes), t.switches[sw.parent].value))
		}
	}
	return out
}

// list returns the tree, leaves first, each tier by name. A switch that has
// nothing below it is left out.
func (t *tree) list() []Switch {
	order := t.inOrder()
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(t.switches[a].tier, t.switches[b].tier), strings.Compare(t.switches[a].name, t.switches[b].name))
	})
	var out []Switch
	for _, s := range order { // children come before parents
		sw := &t.switches[s]
		if len(sw.nodes) == 0 && len(sw.children) == 0 && !sw.inUse {
			continue
		}
		slices.Sort(sw.children)
		if sw.parent != noSwitch {
			up := &t.switches[sw.parent]
			up.children = append(up.children, sw.name)
		}
		out = append(out, Switch{Name: sw.name, Nodes: sw.nodes, Children: sw.children})
	}
	return out
}
