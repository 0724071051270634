package publisher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
)

func TestWorkerNames(t *testing.T) {
	label := func(kv ...string) map[string]string {
		out := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i]] = kv[i+1]
		}
		return out
	}
	for _, tt := range []struct {
		name     string
		pod      podFacts
		override string
		want     string
	}{
		{"the label", podFacts{name: "gpu-0", hostname: "h", labels: label(labelPodHostname, "gpu-000")}, "", "gpu-000"},
		{"the label, on the host's network", podFacts{name: "gpu-0", hostNetwork: true, labels: label(labelPodHostname, "gpu-000")}, "", "gpu-000"},
		{"the label before the override", podFacts{labels: label(labelPodHostname, "was", labelScalingMode, "DaemonSet")}, "will-be", "was"},
		{"hostname", podFacts{name: "gpu-0", hostname: "h"}, "", "h"},
		{"name", podFacts{name: "gpu-0"}, "", "gpu-0"},
		{"on the host's network", podFacts{name: "gpu-0", hostname: "h", hostNetwork: true}, "", "n1.example.com"},
		{"one for each node", podFacts{name: "gpu-x7k2p", labels: label(labelScalingMode, "DaemonSet")}, "", "n1"},
		{"one for each node, in lower case", podFacts{name: "gpu-x7k2p", labels: label(labelScalingMode, "daemonset")}, "", "n1"},
		{"one for each node, on the host's network", podFacts{name: "gpu-x7k2p", hostNetwork: true, labels: label(labelScalingMode, "DaemonSet")}, "", "n1"},
		{"one for each node, called otherwise", podFacts{name: "gpu-x7k2p", labels: label(labelScalingMode, "DaemonSet")}, "rack1-1", "rack1-1"},
	} {
		n := Node{Name: "n1.example.com", Annotations: map[string]string{annotationHostname: tt.override}}
		tt.pod.node = n.Name
		w := tt.pod.worker()
		if got := w.nameOn(&n); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestSlinkyNames(t *testing.T) {
	of := func(cluster, hostname string) Worker {
		ns, controller, _ := strings.Cut(cluster, "/")
		return Worker{Namespace: ns, Cluster: controller, Pod: hostname, Hostname: hostname}
	}
	ending := of("slurm/a", "old")
	ending.Ending = true
	bridge := map[string]string{labelSlurmNodeName: "bridged"}
	external := map[string]string{labelExternalNode: ""}
	for _, tt := range []struct {
		name, names  string
		labels       map[string]string
		workers      []Worker
		want, reason string
	}{
		{"a pod", "slinky", nil, []Worker{of("slurm/a", "g1")}, "g1", ""},
		{"a pod of the cluster", "slinky:a", nil, []Worker{of("slurm/a", "g1")}, "g1", ""},
		{"a pod of another cluster", "slinky:b", nil, []Worker{of("slurm/a", "g1")}, "", ReasonNoWorkerPod},
		{"a pod of another namespace", "slinky:a", nil, []Worker{of("hpc/a", "g1")}, "", ReasonNoWorkerPod},
		{"a pod of that namespace", "slinky:hpc/a", nil, []Worker{of("hpc/a", "g1")}, "g1", ""},
		{"no pod", "slinky", nil, nil, "", ReasonNoWorkerPod},
		{"one that ends and one that is there", "slinky", nil, []Worker{ending, of("slurm/a", "g1")}, "g1", ""},
		{"one that ends", "slinky", nil, []Worker{ending}, "old", ""},
		{"two of one name", "slinky", nil, []Worker{of("slurm/a", "g1"), of("slurm/a", "g1")}, "g1", ""},
		{"two", "slinky", nil, []Worker{of("slurm/a", "g1"), of("slurm/a", "g2")}, "", ReasonTwoWorkerPods},
		{"two, of two clusters", "slinky:b", nil, []Worker{of("slurm/a", "g1"), of("slurm/b", "g2")}, "g2", ""},
		{"two, of two clusters, and none is named", "slinky", nil, []Worker{of("slurm/a", "g1"), of("slurm/b", "g1")}, "", ReasonTwoSlurmClusters},
		{"slurm-bridge", "slinky", bridge, nil, "bridged", ""},
		{"slurm-bridge beside a pod", "slinky", bridge, []Worker{of("slurm/a", "g1")}, "g1", ""},
		{"slurm-bridge beside another cluster's pod", "slinky:b", bridge, []Worker{of("slurm/a", "g1")}, "", ReasonNoWorkerPod},
		{"slurm-bridge's external node", "slinky", external, nil, "n1.example.com", ""},
		{"no Slurm name", "slinky", nil, []Worker{of("slurm/a", "default")}, "", ReasonBadSlurmName},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pub := complete(t, Publication{SlurmNames: tt.names})[0]
			g := Gather(&pub, &Snapshot{Nodes: []Node{{Name: "n1.example.com", Labels: tt.labels, Workers: tt.workers}}})
			switch {
			case tt.reason == "" && (len(g.Facts) != 1 || g.Facts[0].SlurmName != tt.want || len(g.Unnamed) > 0):
				t.Errorf("facts %+v, without a name %v: want %s", g.Facts, g.Unnamed, tt.want)
			case tt.reason != "" && (len(g.Facts) > 0 || len(g.Unnamed) != 1 || g.Unnamed[0].Reason != tt.reason):
				t.Errorf("facts %+v, without a name %v: want %s", g.Facts, g.Unnamed, tt.reason)
			}
		})
	}
}

// pods are what runs on the racks' nodes: g001 of cluster a on gb200-001, and so
// on.
type pods map[string]Worker

// podsOn are those of the first nodes.
func podsOn(last int) pods {
	p := pods{}
	for i := 1; i <= last; i++ {
		p.run("a", fmt.Sprintf("g%03d", i), fmt.Sprintf("gb200-%03d", i))
	}
	return p
}

func (p pods) run(cluster, name, node string) {
	p[name] = Worker{Namespace: "slurm", Cluster: cluster, Pod: name, Node: node, Hostname: name}
}

// on are the racks with the pods.
func (p pods) on(t *testing.T) *Snapshot {
	t.Helper()
	snap := racks(t)
	var all []Worker
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
	inBubble(t, store, complete(t, Publication{SlurmNames: "slinky:a"}), func() {
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

func TestSlinkyNodesWithoutPods(t *testing.T) {
	slinkyBubble(t, podsOn(36), func(store *memory) {
		wantNodes(t, store, "first", "g[001-018]")
		if text := topologyOf(store); strings.Contains(text, "gb200-") || strings.Contains(text, "g037") {
			t.Errorf("nodes without a pod:\n%s", text)
		}
		left := store.get("slurm/quoin-slurm").Annotations[AnnotationLeftOut]
		if !strings.HasPrefix(left, "gb200-[037-072]: NoWorkerPod: no worker pod of Slurm cluster slurm/a runs on it") {
			t.Errorf("left out: %q", left)
		}
		if len(store.notes) != 36 {
			t.Errorf("%d nodes are annotated, want the 36 with a pod", len(store.notes))
		}
	})
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

func TestSlinkyScalesIn(t *testing.T) {
	p := podsOn(72)
	slinkyBubble(t, p, func(store *memory) {
		delete(p, "g005")
		store.change(p.on(t))
		store.pass(9 * time.Minute)
		wantNodes(t, store, "its pod is away", "g[001-018]")
		store.pass(2 * time.Minute)
		wantNodes(t, store, "its pod has gone", "g[001-004,006-018]")
		p.run("a", "g005", "gb200-005")
		store.change(p.on(t))
		store.pass(time.Minute)
		wantNodes(t, store, "its pod is back", "g[001-018]")
	})
}

// TestSlinkyRenames lets a node's pod be another's: it stays in its place.
func TestSlinkyRenames(t *testing.T) {
	p := podsOn(72)
	slinkyBubble(t, p, func(store *memory) {
		spec, saves := store.notes["gb200-005"], store.saves
		delete(p, "g005")
		store.change(p.on(t))
		store.pass(time.Minute)
		p.run("a", "new-1", "gb200-005")
		store.change(p.on(t))
		store.pass(5 * time.Minute)
		wantNodes(t, store, "renamed", "g[001-004,006-018],new-1")
		if store.saves != saves+1 || store.notes["gb200-005"] != spec {
			t.Errorf("%d writes, want 1; annotated %q, was %q", store.saves-saves, store.notes["gb200-005"], spec)
		}
	})
}

// TestSlinkySwaps lets two pods of a StatefulSet come back on each other's nodes,
// one after the other: their names never leave the files.
func TestSlinkySwaps(t *testing.T) {
	p := podsOn(72)
	slinkyBubble(t, p, func(store *memory) {
		p.run("a", "g001", "")
		p.run("a", "g037", "")
		store.change(p.on(t))
		store.pass(time.Minute)
		p.run("a", "g001", "gb200-037")
		store.change(p.on(t))
		store.pass(time.Minute)
		if nodes, err := slurmconf.Previous("topology.yaml", []byte(topologyOf(store))); err != nil || len(nodes.Places()) != 72 {
			t.Errorf("%v, while g037 waits to be scheduled:\n%s", err, topologyOf(store))
		}
		p.run("a", "g037", "gb200-001")
		store.change(p.on(t))
		store.pass(5 * time.Minute)
		wantNodes(t, store, "swapped", "g[002-018,037]")
		wantNodes(t, store, "swapped", "g[001,038-054]")
	})
}

func TestSlinkyConflicts(t *testing.T) {
	for name, tt := range map[string]struct {
		hostname, node, reason string
		nodes                  int // that are named
	}{
		"two pods on a node":  {"extra", "gb200-003", ReasonTwoWorkerPods, 1},
		"two nodes, one name": {"g003", "gb200-070", ReasonSlurmNameTaken, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := podsOn(60)
			slinkyBubble(t, p, func(store *memory) {
				saves, before := store.saves, topologyOf(store)
				p["extra"] = Worker{Namespace: "slurm", Cluster: "a", Pod: "extra", Hostname: tt.hostname, Node: tt.node}
				store.change(p.on(t))
				store.pass(time.Hour)
				if topologyOf(store) != before || store.saves > saves+1 { // one says what is left out
					t.Errorf("%d writes, and the files are\n%s", store.saves-saves, topologyOf(store))
				}
			})
			pub := complete(t, Publication{SlurmNames: "slinky:a"})[0]
			g := Gather(&pub, p.on(t))
			found := 0
			for _, pr := range g.Unnamed {
				if pr.Reason == tt.reason {
					found++
				}
			}
			if found != tt.nodes {
				t.Errorf("%d nodes with %s, want %d: %v", found, tt.reason, tt.nodes, g.Unnamed)
			}
			old := p["g003"]
			old.Ending = true
			p["g003"] = old
			if g := Gather(&pub, p.on(t)); g.nodes[tt.hostname] == nil || g.nodes[tt.hostname].Name != tt.node {
				t.Errorf("the first pod ends: %s is %+v, want %s", tt.hostname, g.nodes[tt.hostname], tt.node)
			}
		})
	}
}

// TestTwoSlinkyClusters moves a node from one Slurm cluster to another.
func TestTwoSlinkyClusters(t *testing.T) {
	p := podsOn(36)
	for i := 37; i <= 72; i++ {
		p.run("b", fmt.Sprintf("b%03d", i), fmt.Sprintf("gb200-%03d", i))
	}
	store := newMemory(p.on(t))
	pubs := complete(t, Publication{Name: "a", Nodes: Selection{Slinky: "a"}}, Publication{Name: "b", ConfigMap: "b", Nodes: Selection{Slinky: "slurm/b"}})
	both := func() string { return topologyOf(store) + store.get("slurm/b").Files["topology.yaml"] }
	inBubble(t, store, pubs, func() {
		store.pass(10 * time.Minute)
		if a, b := topologyOf(store), store.get("slurm/b").Files["topology.yaml"]; strings.Contains(a, "b0") || !strings.Contains(b, "nodes: b[037-054]\n") || strings.Contains(b, "g0") {
			t.Errorf("a:\n%s\nb:\n%s", a, b)
		}
		spec := store.notes["gb200-001"]
		delete(p, "g001")
		store.change(p.on(t))
		store.pass(time.Minute)
		if !strings.Contains(both(), "g[001-018]") {
			t.Errorf("left at once:\n%s", both())
		}
		p.run("b", "b001", "gb200-001")
		store.change(p.on(t))
		store.pass(5 * time.Minute)
		if text := both(); !strings.Contains(text, "g[002-018]") || !strings.Contains(text, "b001") || store.notes["gb200-001"] == "" {
			t.Errorf("moved to the other cluster, annotation %q, was %q:\n%s", store.notes["gb200-001"], spec, text)
		}
	})
}
