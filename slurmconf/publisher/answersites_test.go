package publisher

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// moment is what a site shows from one time to the next, and what happens to the publisher meanwhile.
type moment struct {
	keys  string // of the publication, as YAML
	snap  *inputs.Snapshot
	lasts time.Duration
	// approve: people approve what is held. restart: another publisher goes on after the moment.
	approve, restart bool
	// killedAt is the number of the write, of files or of a plan, at which the publisher is killed. The write
	// reaches the store unless before is set. 0: no kill.
	killedAt int
	before   bool
	// shared: the cables of two nodes share some of their leaves, and not all.
	shared bool
	// digest is that of all that the site has shown up to now.
	digest string
}

// A playedSite is one site of TestAnswers. It makes its moments only when they are asked for.
type playedSite struct {
	name    string
	moments func(t testing.TB) []moment
}

// playedSites are the neighbours, the shipped sites, random sites and simulated days.
func playedSites(t testing.TB, random, days int) []playedSite {
	t.Helper()
	var all []playedSite
	lists, err := filepath.Glob("../../testdata/neighbours/*.json")
	if err != nil || len(lists) == 0 {
		t.Fatal("no neighbour: ", err)
	}
	for _, list := range lists {
		all = append(all, playedSite{"neighbour " + filepath.Base(list), func(t testing.TB) []moment { return neighbour(t, list) }})
	}
	for _, name := range simulated.Shipped() {
		all = append(all, playedSite{"shipped " + name, func(t testing.TB) []moment { return shipped(t, name) }})
	}
	for seed := range uint64(random) {
		all = append(all, playedSite{fmt.Sprint("site ", seed), func(t testing.TB) []moment {
			if seed%2 == 0 {
				return nodesAtRandom(t, seed)
			}
			return newPlay(t, seed, 5).moments(4, 0)
		}})
	}
	for seed := range uint64(days) {
		all = append(all, playedSite{fmt.Sprint("day ", seed), func(t testing.TB) []moment { return newPlay(t, seed, 6).moments(24, 6) }})
	}
	return all
}

func neighbour(t testing.TB, list string) []moment {
	t.Helper()
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := new(inputs.ListReader).Read(list, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(text)
	return []moment{{keys: "{}", snap: snap, lasts: 2 * time.Hour, digest: hex.EncodeToString(digest[:8])}}
}

// shipped plays a site with its timeline.
func shipped(t testing.TB, name string) (all []moment) {
	t.Helper()
	c, digest := sites.Open(t, name), sha256.New()
	for _, step := range append([]simulated.Step{{}}, c.Steps...) {
		c.Apply(step)
		write(t, digest, step)
		all = append(all, moment{keys: "{}", snap: snapshotOf(c), lasts: 2 * time.Hour, digest: sumOf(digest)})
	}
	return all
}

// nodesAtRandom are the nodes and racks of TestMakeByAnyPolicy. At every other site people approve what is held.
func nodesAtRandom(t testing.TB, seed uint64) (all []moment) {
	t.Helper()
	rng, digest := rand.New(rand.NewPCG(seed, 4)), sha256.New()
	keys := randomKeys(t, rng)
	withoutFabric := []string{"NVIDIA H200", "NVIDIA GB200"}[rng.IntN(2)]
	for range 4 {
		snap := &inputs.Snapshot{Whole: true, Reports: map[string]*topology.Node{}}
		for n := range 24 {
			f := randomNode(rng, n, withoutFabric)
			if rng.IntN(8) == 0 || f.Gone {
				continue
			}
			node := inputs.Node{Name: f.Name, Labels: map[string]string{}}
			for i, switchName := range f.Labels.Tiers {
				node.Labels[nodelabels.DefaultTiers[i]] = switchName
			}
			if f.Labels.GPUs > 0 {
				node.Labels[nodelabels.Product], node.Labels[nodelabels.Count] = f.Labels.Product, fmt.Sprint(f.Labels.GPUs)
			}
			if snap.Nodes = append(snap.Nodes, node); f.Report != nil {
				snap.Reports[f.Name] = f.Report
			}
			fmt.Fprintln(digest, node.Name, node.Labels, f.Report != nil)
			if f.Report != nil {
				fmt.Fprintln(digest, f.Report.Domain)
			}
		}
		rng.Shuffle(len(snap.Nodes), func(i, j int) { snap.Nodes[i], snap.Nodes[j] = snap.Nodes[j], snap.Nodes[i] })
		fmt.Fprint(digest, keys)
		all = append(all, moment{keys: keys, snap: snap, lasts: 2 * time.Hour, approve: seed%4 == 0, digest: sumOf(digest)})
	}
	return all
}

// play is a random site of simulated racks in which things happen.
type play struct {
	t         testing.TB
	rng       *rand.Rand
	digest    hash.Hash
	keys      string
	cluster   *simulated.Cluster
	names     []string
	racks     [][]string // names, by rack. The last rack is a spare one: it is empty at first
	cables    *cabling   // or nil
	slinky    bool
	second    int  // a node of so many has a second writer's labels. 0: none
	wrong     int  // one of so many such labels names the rack beside it
	silent    bool // three of four nodes have no agent
	approving bool
	last      string // the machine to which something happened last
}

func newPlay(t testing.TB, seed, stream uint64) *play {
	t.Helper()
	p := &play{t: t, rng: rand.New(rand.NewPCG(seed, stream)), digest: sha256.New()}
	rng := p.rng
	p.slinky, p.approving = rng.IntN(4) == 0, rng.IntN(2) == 0
	if rng.IntN(3) == 0 {
		p.second = 1 + rng.IntN(4)
	}
	p.wrong, p.silent = pick(rng, 3, 7, 1000), rng.IntN(4) == 0
	rails := pick(rng, 0, 0, 2, 4)
	tiers := pick(rng, `[]`, `["GROUP-leaf{rack}"]`, `["GROUP-leaf{rack}", "GROUP-spine{rack/2}"]`, `["GROUP-leaf{rack}", "GROUP-spine{rack/2}", core]`, `["GROUP-leaf{rack}", "GROUP-spine{rack/2}", "GROUP-core{rack/4}"]`)
	size := pick(rng, 2, 3, 4, 6)
	text := "groups:\n"
	for group := range 1 + rng.IntN(3) {
		product, nvlink := "NVIDIA GB200", "rack"
		switch rng.IntN(4) {
		case 0:
			product, nvlink = "NVIDIA H100 80GB HBM3", "none"
		case 1:
			product = "NVIDIA GB300"
		}
		if rng.IntN(3) == 0 {
			size = pick(rng, 2, 3, 4, 6)
		}
		text += fmt.Sprintf("- {name: g%[1]d, racks: %[2]d, nodes: %[3]d, node: \"g%[1]d-{node:02}\", nvlink: %[4]s, tiers: %[5]s, rails: %[6]d, gpus: {count: 2, product: %[7]s}}\n",
			group, 1+rng.IntN(3), size, nvlink, strings.ReplaceAll(tiers, "GROUP", fmt.Sprint("g", group)), rails, product)
	}
	text += fmt.Sprintf("- {name: spare, racks: 1, nodes: %d, node: \"spare-{node:02}\", nvlink: rack, tiers: %s, gpus: {count: 2, product: NVIDIA GB200}}\n", size, strings.ReplaceAll(tiers, "GROUP", "spare"))
	p.cluster, p.keys = sites.Parse(t, text), randomKeys(t, rng)
	fmt.Fprint(p.digest, text)
	last := ""
	for _, m := range p.cluster.Machines() {
		at := m.Name[:strings.Index(m.Name, "-")]
		if rack := m.Labels[topology.CliqueLabel] + m.Labels[nodelabels.DefaultTiers[0]] + at; rack != last {
			p.racks, last = append(p.racks, nil), rack
		}
		p.names = append(p.names, m.Name)
		p.racks[len(p.racks)-1] = append(p.racks[len(p.racks)-1], m.Name)
		if at == "spare" {
			p.do(simulated.Fault{Node: m.Name, Absent: true})
		}
	}
	if rails > 0 {
		p.cables = newCabling()
		for r, names := range p.racks[:len(p.racks)-1] {
			p.cables.rack(fmt.Sprint("sw", r), names, rails, 2)
		}
		p.keys += "fabricFiles: [" + fabricPath + "]\n"
	}
	if p.slinky {
		p.keys += "slurmNames: slinky:a\n"
	}
	return p
}

// pick returns one of all.
func pick[T any](rng *rand.Rand, all ...T) T { return all[rng.IntN(len(all))] }

func (p *play) do(f simulated.Fault) {
	write(p.t, p.digest, f)
	p.cluster.Apply(simulated.Step{Do: []simulated.Fault{f}})
}

// moments plays the site for n moments. In one of so many moments as killed says the publisher is killed, in one it is
// restarted, and in one its keys change. 0: in none.
func (p *play) moments(n, killed int) (all []moment) {
	for range n {
		for range p.rng.IntN(4) {
			p.happens()
		}
		lasts := pick(p.rng, 30*time.Second, 5*time.Minute, 20*time.Minute, 2*time.Hour)
		if len(all) == 0 {
			lasts = 2 * time.Hour
		}
		m := moment{lasts: lasts, approve: p.approving && p.rng.IntN(2) == 0}
		if killed > 0 {
			if p.rng.IntN(killed) == 0 {
				m.killedAt, m.before = 1+p.rng.IntN(3), p.rng.IntN(2) == 0
			}
			m.restart = p.rng.IntN(killed) == 0
			if p.rng.IntN(killed) == 0 {
				p.changeKeys()
			}
		}
		m.keys, m.snap = p.keys, p.snapshot()
		if p.cables != nil {
			m.shared = p.cables.shared()
			fmt.Fprint(p.digest, p.cables.text())
		}
		fmt.Fprintln(p.digest, m.keys, m.lasts, m.approve, m.restart, m.killedAt, m.before)
		m.digest = sumOf(p.digest)
		all = append(all, m)
	}
	return all
}

// happens lets one thing happen.
func (p *play) happens() {
	node, rack := pick(p.rng, p.names...), pick(p.rng, p.racks...)
	clique := p.rng.Uint32N(3) + 1
	defer func() { p.last = node }()
	switch p.rng.IntN(14) {
	case 0, 1:
		p.do(simulated.Fault{Node: node, Absent: true})
	case 2: // a new machine, or all is well again
		p.do(simulated.Fault{Node: node, Clear: true, Reboot: true})
	case 3, 4: // the last change is undone
		p.do(simulated.Fault{Node: cmp.Or(p.last, node), Clear: true, Reboot: clique == 1})
	case 5:
		p.do(simulated.Fault{Node: node, NoReport: true})
	case 6:
		p.do(simulated.Fault{Node: node, MoveTo: rack[0], Reboot: true})
	case 7: // the machines get another rack
		spare := p.racks[len(p.racks)-1]
		for i, name := range rack {
			p.do(simulated.Fault{Node: name, MoveTo: spare[i%len(spare)], Reboot: true})
		}
	case 8: // all machines of the rack go, or come back
		for _, name := range rack {
			p.do(simulated.Fault{Node: name, Absent: clique == 1, Clear: clique > 1, Reboot: true})
		}
	case 9: // NVLink is partitioned while the machines run
		for i, name := range rack {
			if p.fabric(name) && (clique > 1 || i%2 == 0) {
				p.do(simulated.Fault{Node: name, Clique: &clique})
			}
		}
	case 10:
		if p.fabric(node) {
			p.do(simulated.Fault{Node: node, Fabric: "inProgress", Reboot: clique > 1})
		}
	case 11:
		p.do(simulated.Fault{Node: node, GPU: new(0), Lost: true})
	case 12:
		label := "8a61c302-0000-4000-8000-000000000001." + fmt.Sprint(clique)
		p.do(simulated.Fault{Node: node, Label: &label})
	case 13:
		if p.cables != nil {
			p.recable(node, rack[0])
		}
	}
}

// fabric reports whether the machine can have an NVLink domain of several machines.
func (p *play) fabric(node string) bool {
	m, err := p.cluster.Machine(node)
	return err == nil && m.Labels[topology.CliqueLabel] != ""
}

// recable takes a cable of a machine out, plugs it into another rack's leaf, or replaces a leaf.
func (p *play) recable(node, other string) {
	wires := slices.Clone(p.cables.wires)
	at := slices.IndexFunc(wires, func(w wire) bool { return w.b == node && w.rail >= 0 })
	to := slices.IndexFunc(wires, func(w wire) bool { return w.b == other && w.rail >= 0 })
	if at < 0 || to < 0 {
		return
	}
	switch p.rng.IntN(3) {
	case 0:
		p.cables.pull(node, wires[at].rail)
	case 1:
		wires[at].a = wires[to].a
		p.cables.wires = wires
	case 2:
		p.cables.swapped[wires[at].a]++
	}
}

// shared reports whether two machines share some of their leaves, and not all.
func (c *cabling) shared() bool {
	leaves, machines := map[string][]string{}, map[string][]string{}
	for _, w := range c.wires {
		if w.rail >= 0 {
			leaves[w.b], machines[w.a] = append(leaves[w.b], w.a), append(machines[w.a], w.b)
		}
	}
	for _, below := range machines {
		first := slices.Sorted(slices.Values(leaves[below[0]]))
		for _, other := range below[1:] {
			if !slices.Equal(first, slices.Sorted(slices.Values(leaves[other]))) {
				return true
			}
		}
	}
	return false
}

// snapshot is what Kubernetes shows now. Some nodes have NVLink domain labels of a second
// writer, and a part of these nodes has no label of the first writer.
func (p *play) snapshot() *inputs.Snapshot {
	snap := snapshotOf(p.cluster)
	snap.Whole = true
	if p.cables != nil {
		snap = with(p.t, snap, p.cables)
	}
	var workers []inputs.Worker
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		at := slices.Index(p.names, n.Name)
		if p.silent && at%4 > 0 {
			delete(snap.Reports, n.Name)
		}
		if p.second > 0 && at%p.second == 0 && n.Labels[topology.CliqueLabel] != "" {
			key := []string{"accelerator.topograph.run/domain", "topology.nebius.com/tier-0"}[at%4/2]
			rack := slices.IndexFunc(p.racks, func(names []string) bool { return slices.Contains(names, n.Name) })
			if at%p.wrong == 0 {
				rack++
			}
			n.Labels[key] = fmt.Sprint("dom-", rack)
			if leaf := n.Labels[nodelabels.DefaultTiers[0]]; leaf != "" && at%5 < 3 {
				n.Labels["fabric.topograph.run/tier-0"] = "tor-" + leaf
			}
			if at%3 == 0 {
				delete(n.Labels, topology.CliqueLabel)
			}
		}
		if p.slinky && p.rng.IntN(12) > 0 {
			worker := inputs.Worker{Namespace: "slurm", Cluster: "a", NodeSet: "w", Pod: "w-" + n.Name, Node: n.Name, Hostname: "w-" + n.Name}
			workers = append(workers, worker)
		}
		fmt.Fprintln(p.digest, n.Name, n.Labels)
	}
	if n := len(workers); n > 1 && p.rng.IntN(4) == 0 { // two pods change places
		workers[0].Node, workers[n-1].Node = workers[n-1].Node, workers[0].Node
	}
	snap.AddWorkers(workers)
	return snap
}

// randomKeys are keys of a publication, of the many that a site can choose.
func randomKeys(t testing.TB, rng *rand.Rand) string {
	t.Helper()
	for range 100 {
		release := pick(rng, "24.11", "25.05", "26.05", "26.05")
		keys := []string{"slurmVersion: '" + release + "'"}
		add := func(values ...string) { keys = append(keys, pick(rng, values...)) }
		add("", "", "", "blocksBy: leaf")
		add("", "", "topology: block", "topology: tree")
		add("", "", "", "fabrics: separate")
		add("", "") // there was a key, and the draws of all others stay
		add("", "", "", "baseBlockSize: 2", "baseBlockSize: 3", "sizeClasses: [4, 2]")
		add("", "maxChange: 1")
		add("", "", "labels: true")
		add("", "", "membership: annotation", "membership: file")
		add("", "", "gres: {autoDetect: 'off'}", "gres: {autoDetect: nvidia}")
		if release != "24.11" {
			add("", "", "", "format: conf", "flatTopology: true")
			add("", "", "parentBlocks: 2")
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == "" })
		if text := strings.Join(keys, "\n") + "\n"; valid(text) {
			return text
		}
	}
	t.Fatal("no keys are valid")
	return ""
}

// changeKeys sets a key otherwise, or one that was not set.
func (p *play) changeKeys() {
	line := pick(p.rng, strings.SplitAfter(randomKeys(p.t, p.rng), "\n")...)
	key, _, found := strings.Cut(line, ":")
	if !found { // behind the last line
		return
	}
	lines := slices.DeleteFunc(strings.SplitAfter(p.keys, "\n"), func(old string) bool { return strings.HasPrefix(old, key+":") })
	if text := strings.Join(lines, "") + line; valid(text) {
		p.keys = text
	}
}

// valid reports whether the keys are of a publication. Slurm 24.11 gets no blocks, so parentBlocks says nothing to it.
func valid(keys string) bool {
	if strings.Contains(keys, "24.11") && strings.Contains(keys, "parentBlocks") {
		return false
	}
	_, err := compiled(keys)
	return err == nil
}

// compiled are the publications of a site with one.
func compiled(keys string) ([]*publication.Cluster, error) {
	var p Publication
	if err := yaml.Unmarshal([]byte(keys), &p); err != nil {
		return nil, err
	}
	return publication.Compile([]Publication{p}, kube.ParseSelector)
}

func write(t testing.TB, w io.Writer, value any) {
	t.Helper()
	if err := json.NewEncoder(w).Encode(value); err != nil {
		t.Fatal(err)
	}
}

func sumOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:8]) }
