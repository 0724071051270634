package publisher

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// pods are what runs on the racks' nodes: g001 of cluster a on gb200-001, and so
// on.
type pods map[string]inputs.Worker

// podsOn are those of the first nodes.
func podsOn(last int) pods {
	p := pods{}
	for i := 1; i <= last; i++ {
		p.run("a", fmt.Sprintf("g%03d", i), fmt.Sprintf("gb200-%03d", i))
	}
	return p
}

func (p pods) run(cluster, name, node string) {
	p[name] = inputs.Worker{Namespace: "slurm", Cluster: cluster, Pod: name, Node: node, Hostname: name}
}

// on are the racks with the pods.
func (p pods) on(t *testing.T) *inputs.Snapshot {
	t.Helper()
	snap := racks(t)
	var all []inputs.Worker
	for _, w := range p {
		all = append(all, w)
	}
	snap.AddWorkers(all)
	return snap
}

// slinkyBubble publishes the pods' nodes in fake time.
func slinkyBubble(t *testing.T, p pods, steps func(store *memory)) {
	t.Helper()
	store := newMemory(p.on(t))
	inBubble(t, store, complete(t, Publication{SlurmNames: "slinky:a", SettleTime: publication.Default().SettleTime}), func() {
		store.pass(10 * time.Minute)
		steps(store)
	})
}

func wantNodes(t *testing.T, store *memory, what, want string) {
	t.Helper()
	if text := topologyOf(store); !strings.Contains(text, "nodes: "+want+"\n") {
		t.Errorf("%s: want %s in\n%s", what, want, text)
	}
}

// TestSlinkyRolls deletes and makes again the pods of one node after the other,
// each away for longer than facts settle.
func TestSlinkyRolls(t *testing.T) {
	p := podsOn(72)
	slinkyBubble(t, p, func(store *memory) {
		saves, annotated := store.saves, store.annotated
		for i := range 72 {
			name := fmt.Sprintf("g%03d", i+1)
			was := p[name]
			gone := was
			gone.Ending = true
			p[name] = gone
			store.change(p.on(t))
			store.pass(30 * time.Second)
			if i%2 == 0 {
				delete(p, name)
			} else { // waits to be scheduled
				gone.Node, gone.Ending = "", false
				p[name] = gone
			}
			store.change(p.on(t))
			store.pass(time.Minute)
			p[name] = was
			store.change(p.on(t))
			store.pass(time.Minute)
		}
		if store.saves != saves || store.annotated != annotated {
			t.Errorf("%d writes and %d annotations in a rolling update, want none", store.saves-saves, store.annotated-annotated)
		}
	})
}

// TestSlinkyComesBackElsewhere lets all pods come back on other nodes, as after a NodeSet scaled in
// and out: some later than others, and some on nodes that had none. No Node moves, so nobody has
// to look at it, and each Node keeps its block.
func TestSlinkyComesBackElsewhere(t *testing.T) {
	const names = 60
	p := podsOn(names)
	place := func(i int) { p.run("a", fmt.Sprintf("g%03d", i), fmt.Sprintf("gb200-%03d", i*25%72+1)) }
	slinkyBubble(t, p, func(store *memory) {
		was := maps.Clone(store.notes)
		nodes := map[string]bool{}
		for _, step := range []int{3, 2, 1} {
			for i := 1; i <= names; i++ {
				p.run("a", fmt.Sprintf("g%03d", i), "")
				if i%step == 0 {
					place(i)
				}
			}
			store.change(p.on(t))
			store.pass(5 * time.Minute)
			if held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeld]; held != "" {
				t.Errorf("step %d: held: %s", step, held)
			}
		}
		for _, w := range p {
			nodes[w.Node] = true
			if before, now := was[w.Node], store.notes[w.Node]; now == "" || before != "" && before != now {
				t.Errorf("%s with %s is annotated %q, was %q", w.Node, w.Hostname, now, before)
			}
		}
		if len(nodes) != names {
			t.Fatalf("the pods are on %d nodes", len(nodes))
		}
		pub := complete(t, Publication{SlurmNames: "slinky:a"})[0]
		made := makeOf(t, pub, pub.Rules.Gather(p.on(t)), Previous{})
		anew, err := made.FilePlan.Whole()
		if err != nil {
			t.Fatal(err)
		}
		blocks := func(text string) string { // the sizes stay
			_, blocks, _ := strings.Cut(text, "blocks:\n")
			return blocks
		}
		if diff := cmp.Diff(blocks(anew["topology.yaml"]), blocks(topologyOf(store))); diff != "" {
			t.Errorf("(-planned anew +got):\n%s", diff)
		}
	})
}

// TestSlinkyNameTaken has two Nodes with one Slurm name.
func TestSlinkyNameTaken(t *testing.T) {
	p := podsOn(60)
	slinkyBubble(t, p, func(store *memory) {
		saves, before := store.saves, topologyOf(store)
		p["extra"] = inputs.Worker{Namespace: "slurm", Cluster: "a", Pod: "extra", Hostname: "g003", Node: "gb200-070"}
		store.change(p.on(t))
		store.pass(time.Hour)
		if topologyOf(store) != before || store.saves > saves+1 { // one says what is left out
			t.Errorf("%d writes, and the files are\n%s", store.saves-saves, topologyOf(store))
		}
	})
	pub := complete(t, Publication{SlurmNames: "slinky:a"})[0]
	g, found := pub.Rules.Gather(p.on(t)), 0
	for _, pr := range g.Unnamed {
		if pr.Reason == inputs.ReasonSlurmNameTaken {
			found++
		}
	}
	if found != 2 {
		t.Errorf("%d nodes with %s, want 2: %v", found, inputs.ReasonSlurmNameTaken, g.Unnamed)
	}
	old := p["g003"]
	old.Ending = true
	p["g003"] = old
	if g := pub.Rules.Gather(p.on(t)); g.Nodes["g003"] == nil || g.Nodes["g003"].Name != "gb200-070" {
		t.Errorf("the first pod ends: g003 is %+v, want gb200-070", g.Nodes["g003"])
	}
}

// TestTwoWorkersOnANode runs a second worker pod on each Node of a rack, as sites do that give each pod the GPUs of a
// NUMA node.
func TestTwoWorkersOnANode(t *testing.T) {
	p := podsOn(36)
	slinkyBubble(t, p, func(store *memory) {
		notes, annotated := maps.Clone(store.notes), store.annotated
		for i := 1; i <= 18; i++ {
			p.run("a", fmt.Sprintf("h%03d", i), fmt.Sprintf("gb200-%03d", i))
		}
		store.change(p.on(t))
		store.pass(time.Hour)
		wantNodes(t, store, "a second pod", "g[001-018],h[001-018]")
		if store.annotated != annotated || !maps.Equal(store.notes, notes) {
			t.Errorf("%d annotations, want none: the Nodes are where they were", store.annotated-annotated)
		}
		pub := complete(t, Publication{SlurmNames: "slinky:a"})[0]
		made := makeOf(t, pub, pub.Rules.Gather(p.on(t)), Previous{})
		said := map[string]int{}
		for _, f := range made.FilePlan.Problems {
			said[f.Reason]++
		}
		if diff := cmp.Diff(map[string]int{inputs.ReasonTwoWorkerPods: 18}, said); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		whole, err := made.FilePlan.Whole()
		if err != nil || !strings.Contains(whole["gres.conf"], "NodeName=g[001-018],h[001-018] AutoDetect=nvidia\n") || !strings.Contains(whole["gres.conf"], "NodeName=g[019-036] Name=gpu") {
			t.Errorf("%v, and gres.conf is\n%s", err, whole["gres.conf"])
		}
		p.run("a", "h001", "gb200-019")
		delete(p, "g002")
		p.run("a", "i003", "gb200-003")
		delete(p, "g003")
		store.change(p.on(t))
		store.pass(time.Hour)
		wantNodes(t, store, "a pod moves, one goes, one gets another name", "g[001,004-018],h[002-018],i003")
		wantNodes(t, store, "where the pod moved to", "g[019-036],h001")
	})
}
