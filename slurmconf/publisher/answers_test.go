package publisher

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// The variables of the environment for TestAnswers.
const (
	answersFile    = "QUOIN_ANSWERS"         // the file that gets the answers
	answersOld     = "QUOIN_ANSWERS_OLD"     // the file of another commit to compare with
	answersExcused = "QUOIN_ANSWERS_EXCUSED" // tags whose answers may differ, with commas between
	answersWhole   = "QUOIN_ANSWERS_WHOLE"   // the site that is played alone, with all texts in its answers
	answersSites   = "QUOIN_ANSWERS_SITES"   // how many random sites
	answersDays    = "QUOIN_ANSWERS_DAYS"    // how many simulated days
)

// answer is what the store shows at the end of a moment.
type answer struct {
	Input  string   `json:"input"`
	Digest string   `json:"digest"`
	Tags   []string `json:"tags,omitempty"`
	// Files are the digests of files, and Set is what else is published: held, and why, for example.
	Files map[string]string `json:"files,omitempty"`
	Set   map[string]string `json:"set,omitempty"`
	// Notes, Labels and Conditions have by text the host list of the Nodes that have it.
	Notes      map[string]string `json:"notes,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Conditions map[string]string `json:"conditions,omitempty"`
	// Nodes have by block, leaf and reason of the stored plan the host list of their Nodes.
	Nodes map[string]string `json:"nodes,omitempty"`
	// Writes counts the writes of this moment by kind.
	Writes map[string]int `json:"writes,omitempty"`
	Killed bool           `json:"killed,omitempty"`
	// Whole are the texts of the files, of the keys, and of the stored plan.
	Whole map[string]string `json:"whole,omitempty"`
}

// TestAnswers records what the publisher makes of many sites, so that the answers of two commits can be
// compared. It does nothing unless QUOIN_ANSWERS names a file.
func TestAnswers(t *testing.T) {
	path, whole := os.Getenv(answersFile), os.Getenv(answersWhole)
	if path == "" {
		return
	}
	sites := playedSites(t, fromEnv(t, answersSites, 20000), fromEnv(t, answersDays, 200))
	if whole != "" {
		sites = slices.DeleteFunc(sites, func(s playedSite) bool { return s.name != whole })
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := newComparer(t)
	for some := range slices.Chunk(sites, 8*runtime.GOMAXPROCS(0)) {
		all := make([][]answer, len(some))
		var playing sync.WaitGroup
		for i := range some {
			playing.Go(func() { all[i] = played(t, some[i], whole != "") })
		}
		playing.Wait()
		for _, a := range slices.Concat(all...) {
			var line bytes.Buffer
			write(t, &line, a)
			if _, err := file.Write(line.Bytes()); err != nil {
				t.Fatal(err)
			}
			c.compare(&a, line.Bytes())
		}
	}
	c.sums()
}

func fromEnv(t *testing.T, key string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(key), fmt.Sprint(otherwise)))
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return n
}

// mayDie is a store whose publisher is killed at one write of files or of a plan. After that write nothing
// reaches the store but the marks of every other Node. So some Nodes are marked and others are not, and always
// the same: a kill at the write of a mark would not be repeatable, because several Nodes are marked at once.
type mayDie struct {
	*mortal
	dead atomic.Bool
}

func (m *mayDie) Mark(ctx context.Context, n *inputs.Node, change inputs.Marks) error {
	if m.dead.Load() && n.Name[len(n.Name)-1]%2 == 0 {
		return errKilled
	}
	return m.memory.Mark(ctx, n, change)
}

func (m *mayDie) SetConditions(ctx context.Context, node string, conditions []inputs.Condition) error {
	if m.dead.Load() {
		return errKilled
	}
	return m.memory.SetConditions(ctx, node, conditions)
}

// played plays a site: a publisher runs over its moments.
func played(t *testing.T, site playedSite, whole bool) (all []answer) {
	synctest.Test(t, func(t *testing.T) {
		moments := site.moments(t)
		store := newMemory(moments[0].snap)
		store.changes = make(chan struct{}, 1)
		tags, known, domains := map[string]bool{}, map[string]bool{}, domainsBefore{last: map[string]string{}}
		var counted map[string]int
		var publisher *mayDie
		end := func() {}
		for i := range moments {
			m := &moments[i]
			addTags(tags, m, all)
			if domains.unbounded(t, m, all) {
				tags[tagUnbounded] = true
			}
			starts := i == 0 || m.keys != moments[i-1].keys || m.killedAt > 0 || moments[i-1].killedAt > 0 || moments[i-1].restart
			if lacks(m.snap, known) {
				tags[tagMissing] = true
				if starts {
					tags[tagMissingStart] = true
				}
			}
			if starts {
				end()
			}
			store.change(m.snap)
			if starts {
				publisher = &mayDie{mortal: &mortal{memory: store, at: m.killedAt, before: m.before}}
				end = begin(t, publisher, m.keys)
			}
			// Nothing of the publisher is due at the moment of a change: its waits are whole seconds.
			const odd = 7300 * time.Microsecond
			store.pass(m.lasts/2 + odd)
			store.edit(func() {
				if set := store.published["slurm/quoin-slurm"]; m.approve && set != nil && set.Annotations[plandoc.AnnotationHeld] != "" {
					set.Annotations[plandoc.AnnotationApprove] = set.Annotations[plandoc.AnnotationHeld]
				}
			})
			store.pass(m.lasts/2 + odd)
			a := answer{Input: fmt.Sprintf("%s, moment %d", site.name, i), Digest: m.digest, Tags: slices.Sorted(maps.Keys(tags)), Killed: publisher.dead.Load(), Writes: store.writes()}
			a.see(t, store, whole)
			if whole {
				a.Whole["keys"] = m.keys
			}
			a.Writes, counted = since(counted, a.Writes), a.Writes
			all = append(all, a)
		}
		end()
	})
	return all
}

// begin starts a publisher, and returns what ends it.
func begin(t *testing.T, store *mayDie, keys string) (end func()) {
	t.Helper()
	pubs, err := compiled(keys)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	store.kill = func() { store.dead.Store(true) }
	p := newPublisher(store, pubs)
	p.options.Conditions = store
	go func() { done <- p.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func (m *memory) writes() map[string]int {
	return map[string]int{"files": m.saves, "waits": m.waitSaves, "plan": m.planSaves, "nodes": m.annotated, "conditions": m.conditionWrites}
}

func since(old, now map[string]int) map[string]int {
	counts := map[string]int{}
	for of, n := range now {
		if n > old[of] {
			counts[of] = n - old[of]
		}
	}
	return counts
}

// see fills in what the store shows.
func (a *answer) see(t *testing.T, store *memory, whole bool) {
	t.Helper()
	a.Files, a.Whole = map[string]string{}, map[string]string{}
	if set := store.get("slurm/quoin-slurm"); set != nil {
		a.Set = maps.Clone(set.Annotations)
		delete(a.Set, plandoc.AnnotationPublished) // a time
		for name, text := range set.Files {
			a.Files[name] = plandoc.Digest(map[string]string{name: text})
			a.Whole[name] = text
		}
	}
	a.Notes = byText(store.notes)
	labels, conditions := map[string]string{}, map[string]string{}
	for node, values := range store.marks.values {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			labels[node] += key + "=" + values[key] + " "
		}
	}
	for node, of := range store.conditions {
		for _, kind := range slices.Sorted(maps.Keys(of)) {
			if c := of[kind]; c.True {
				conditions[node] += kind + "=" + c.Reason + " "
			}
		}
	}
	a.Labels, a.Conditions, a.Nodes = byText(labels), byText(conditions), map[string]string{}
	if packed := store.plans["default"]; packed != nil {
		d, err := plandoc.Unpack(packed)
		if err != nil {
			t.Fatal(err)
		}
		a.Nodes = byText(answerOf(&d.Current.Plan))
		if whole {
			var plan bytes.Buffer
			write(t, &plan, d)
			a.Whole["plan"] = plan.String()
		}
	}
	if !whole {
		a.Whole = nil
	}
}

// answerOf returns by Node the block, the leaf and the reason in the plan. A name that has no Node
// stands for one.
func answerOf(p *plandoc.Plan) map[string]string {
	all, places := map[string]string{}, p.Places()
	for i := range p.Nodes {
		n := &p.Nodes[i]
		at := places[n.SlurmName]
		all[cmp.Or(n.Node, n.SlurmName)] += strings.Join([]string{at.Block, at.Leaf, n.Reason}, " ") + ";"
	}
	return all
}

// byText returns by text the host list of the nodes that have it.
func byText(of map[string]string) map[string]string {
	nodes := map[string][]string{}
	for node, text := range of {
		if text != "" {
			nodes[text] = append(nodes[text], node)
		}
	}
	lists := map[string]string{}
	for text, all := range nodes {
		lists[text] = hostlist.Compress(slices.Sorted(slices.Values(all)))
	}
	return lists
}

// The tags: what of an input the planner may answer otherwise one day. A site keeps a tag, because
// what was published stays.
const (
	tagOldBlocks     = "slurm 24.11 with blocks"
	tagOldTree       = "slurm 24.11 with a tree over racks"
	tagSizes         = "racks of several sizes at a first publication"
	tagLaterSizes    = "racks of several sizes later"
	tagClasses       = "racks with sizeClasses later"
	tagProducts      = "two GPU products at a first tree"
	tagLaterProducts = "two GPU products at a later tree"
	tagWriters       = "domain labels of two writers"
	tagContradicts   = "a domain label on several cliques"
	tagSwitchWriters = "switch labels of two writers"
	tagPartition     = "NVLink partitioned in a running machine"
	tagUnbounded     = "a node changes its NVLink domain beside a block of no product with a bound"
	tagSpares        = "free places of parent domains in several block topologies"
	tagCables        = "leaf shared by several groups of cables"
	tagCablesAlone   = "switches of cables without a tree in the file"
	tagMissing       = "a node or a pod is missing"
	tagMissingStart  = "a publisher starts while a node or a pod is missing"
	tagLater         = "nodes change after a pass" // conditions are written after the next pass
)

// addTags adds the tags of a moment. before are the answers of the moments before it: they say whether blocks and
// a tree are published.
func addTags(tags map[string]bool, m *moment, before []answer) {
	blocks, tree := false, false
	for _, a := range before {
		for text := range a.Nodes {
			block, rest, _ := strings.Cut(text, " ")
			blocks, tree = blocks || block != "", tree || !strings.HasPrefix(rest, " ")
		}
	}
	var sizes, cliques, writers, tops, switchWriters, partitioned sets
	for i := range m.snap.Nodes {
		n := &m.snap.Nodes[i]
		l := nodelabels.Read(n.Labels, nodelabels.Keys{Domains: []string{nodelabels.Auto}, Tiers: []string{nodelabels.Auto}})
		clique := l.Clique
		if report := m.snap.Reports[n.Name]; report != nil {
			clique = report.Domain.Clique
			if report.DomainChanged {
				partitioned.add("", n.Name)
			}
		}
		for _, d := range l.Domains {
			writers.add(d.Key, n.Name)
			if !clique.IsZero() {
				cliques.add(d.String(), clique.String())
			}
		}
		switch {
		case !clique.IsZero():
			sizes.add(clique.String(), n.Name)
		case len(l.Domains) > 0:
			sizes.add(l.Domains[0].String(), n.Name)
		}
		if len(l.Tiers) > 0 {
			switchWriters.add(l.TierSource.Name, n.Name)
		}
		if len(l.Tiers) > 0 && l.Product != "" {
			tops.add(l.Tiers[len(l.Tiers)-1], l.Product)
		}
		for _, more := range l.MoreTiers {
			switchWriters.add(more.Name, n.Name)
		}
	}
	has := func(key string) bool { return strings.Contains(m.keys, key) }
	one := has("format: conf") || has("24.11") // topology: then racks are compared with the sizes that they have had
	racks := len(sizes) > 0 || has("blocksBy: leaf")
	unset := !has("sizeClasses") && !has("baseBlockSize") && !has("blocksBy: leaf")
	several := severalSizes(sizes, one)
	products := !has("fabrics: separate") && tops.groups() > 1
	for tag, holds := range map[string]bool{
		tagOldBlocks:     has("24.11") && racks && !has("topology: tree"),
		tagOldTree:       has("24.11") && racks && has("topology: tree"),
		tagSizes:         unset && !blocks && (several || one && len(sizes) > 1),
		tagLaterSizes:    unset && blocks && (one || several && len(tops) > 1),
		tagClasses:       has("sizeClasses") && racks && blocks,
		tagSpares:        has("parentBlocks") && blocks && (has("sizeClasses") || has("fabrics: separate")),
		tagProducts:      products && !tree,
		tagLaterProducts: products && tree,
		tagWriters:       len(writers) > 1,
		tagContradicts:   cliques.largest() > 1,
		tagSwitchWriters: len(switchWriters) > 1,
		tagPartition:     len(partitioned) > 0,
		tagCables:        m.shared,
		tagLater:         len(before) > 0,
		tagCablesAlone:   has("fabricFiles") && (has("topology: block") || one && !has("topology: tree")),
	} {
		if holds {
			tags[tag] = true
		}
	}
}

// lacks reports whether a Node or a worker pod is missing that was known, and adds to known what is there.
func lacks(snap *inputs.Snapshot, known map[string]bool) bool {
	there := map[string]bool{}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		there[n.Name] = true
		for k := range n.Workers {
			there["pod "+n.Workers[k].Pod] = true
		}
	}
	missing := false
	for name := range known {
		missing = missing || !there[name]
	}
	maps.Copy(known, there)
	return missing
}

// domainsBefore are the NVLink domains that nodes have named up to now.
type domainsBefore struct {
	last    map[string]string // by Slurm name
	changes bool              // a node has named two domains
}

// unbounded reports whether nodes change their domain, and a published block has no node that names a product with a
// bound. before are the answers of the moments before it: they say who is published in which block.
func (b *domainsBefore) unbounded(t *testing.T, m *moment, before []answer) bool {
	bounded := map[string]bool{} // by Slurm name
	for i := range m.snap.Nodes {
		n := &m.snap.Nodes[i]
		l := nodelabels.Read(n.Labels, nodelabels.Keys{Domains: []string{nodelabels.Auto}, Tiers: []string{nodelabels.Auto}})
		domain, product := l.Clique.String(), l.Product
		if l.Clique.IsZero() && len(l.Domains) > 0 {
			domain = l.Domains[0].String()
		}
		if report := m.snap.Reports[n.Name]; report != nil {
			domain, product = report.Domain.Clique.String(), ""
			if len(report.GPUs) > 0 {
				product = report.GPUs[0].Product
			}
		}
		names := []string{n.Name}
		for _, w := range n.Workers {
			names = append(names, w.Hostname)
		}
		_, most, known := fabric.Bounds(nil).Of(product)
		for _, name := range names {
			bounded[name] = known && most > 0
			if domain == (topology.Clique{}).String() {
				continue
			}
			b.changes = b.changes || b.last[name] != "" && b.last[name] != domain
			b.last[name] = domain
		}
	}
	blocks := map[string]bool{} // whether one of the nodes names such a product
	for i := range before {
		for text, nodes := range before[i].Nodes {
			block, _, _ := strings.Cut(text, " ")
			names, err := hostlist.Expand(nodes)
			if err != nil {
				t.Fatal(err)
			}
			blocks[block] = blocks[block] || i == len(before)-1 && slices.ContainsFunc(names, func(name string) bool { return bounded[name] })
		}
	}
	delete(blocks, "")
	return b.changes && slices.Contains(slices.Collect(maps.Values(blocks)), false)
}

// sets are sets of texts by name.
type sets map[string]map[string]bool

func (s *sets) add(name, text string) {
	if *s == nil {
		*s = sets{}
	}
	if (*s)[name] == nil {
		(*s)[name] = map[string]bool{}
	}
	(*s)[name][text] = true
}

func (s sets) largest() int {
	most := 0
	for _, texts := range s {
		most = max(most, len(texts))
	}
	return most
}

// groups returns how many groups of sets have no text in common.
func (s sets) groups() int {
	var groups []map[string]bool
	for _, texts := range s {
		joined := maps.Clone(texts)
		groups = slices.DeleteFunc(groups, func(g map[string]bool) bool {
			for text := range g {
				if texts[text] {
					maps.Copy(joined, g)
					return true
				}
			}
			return false
		})
		groups = append(groups, joined)
	}
	return len(groups)
}

// severalSizes reports whether racks are of several size classes: some have less than two thirds of the nodes of the
// largest. Unless strict, one rack below half of the median may just not be up yet.
func severalSizes(racks sets, strict bool) bool {
	var sizes []int
	for _, nodes := range racks {
		if len(nodes) > 1 {
			sizes = append(sizes, len(nodes))
		}
	}
	if len(sizes) == 0 {
		return false
	}
	slices.Sort(sizes)
	largest, median := sizes[len(sizes)-1], sizes[len(sizes)/2]
	second := sizes[min(1, len(sizes)-1)]
	return 3*sizes[0] < 2*largest && (strict || 3*second < 2*largest || 2*sizes[0] >= median)
}

// comparer compares answers with the answers of another commit.
type comparer struct {
	t       *testing.T
	old     *bufio.Reader // or nil
	excused []string
	inputs  int
	tagged  map[string]int
	// differ counts answers that differ, by whether a tag excuses them.
	differ map[bool]int
}

// mostDifferences is how many differences are shown.
const mostDifferences = 20

func newComparer(t *testing.T) *comparer {
	t.Helper()
	c := &comparer{t: t, tagged: map[string]int{}, differ: map[bool]int{}, excused: strings.Split(os.Getenv(answersExcused), ",")}
	if path := os.Getenv(answersOld); path != "" {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		c.old = bufio.NewReader(file)
	}
	return c
}

// compare compares the next answer, which is now in the form of the file.
func (c *comparer) compare(now *answer, line []byte) {
	c.inputs++
	for _, tag := range now.Tags {
		c.tagged[tag]++
	}
	if c.old == nil {
		return
	}
	text, err := c.old.ReadBytes('\n')
	if err == io.EOF || bytes.Equal(text, line) {
		if err == io.EOF {
			c.t.Fatalf("%s: the old answers end before it", now.Input)
		}
		return
	}
	var old answer
	if err := json.Unmarshal(text, &old); err != nil {
		c.t.Fatal(err)
	}
	if old.Input != now.Input || old.Digest != now.Digest {
		c.t.Fatalf("%s, digest %s: the old answers have another input, %s, digest %s", now.Input, now.Digest, old.Input, old.Digest)
	}
	if old.Tags = now.Tags; gocmp.Equal(old, *now, cmpopts.EquateEmpty()) { // only the tags differ
		return
	}
	excused := slices.ContainsFunc(c.excused, func(tag string) bool { return slices.Contains(now.Tags, tag) })
	c.differ[excused]++
	if !excused && c.differ[false] <= mostDifferences {
		c.t.Errorf("%s (-old +new):\n%s", now.Input, gocmp.Diff(old, *now, cmpopts.EquateEmpty()))
	}
}

// sums logs the share of inputs with each tag, and how many answers differ.
func (c *comparer) sums() {
	c.t.Logf("%d inputs; answers that differ: %d excused, %d not", c.inputs, c.differ[true], c.differ[false])
	for _, tag := range slices.Sorted(maps.Keys(c.tagged)) {
		c.t.Logf("%5.1f %% %s", 100*float64(c.tagged[tag])/float64(c.inputs), tag)
	}
}
