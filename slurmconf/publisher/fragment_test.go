package publisher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// withSockets gives every node that reports two sockets of so many cores.
func withSockets(snap *Snapshot, sockets ...topology.Socket) *Snapshot {
	for _, n := range snap.Reports {
		n.Sockets = sockets
	}
	return snap
}

var twoSockets = []topology.Socket{{CPUs: "0-71", Cores: 72}, {CPUs: "72-143", Cores: 72}}

// TestFragmentIsPublished follows slurm-nodes.conf through what happens to nodes.
func TestFragmentIsPublished(t *testing.T) {
	first := withSockets(racks(t), twoSockets...)
	first.Nodes = append(first.Nodes, Node{Name: "cpu"}) // in the fragment and in no other file
	first.Reports["cpu"] = &topology.Node{Name: "cpu", Sockets: []topology.Socket{{CPUs: "0-3", Cores: 4}}}
	store := newMemory(first)
	published := func() *Published { return store.get("slurm/quoin-slurm") }
	fragment := func() string { return published().Files[slurmconf.SlurmNodesFile] }
	inBubble(t, store, complete(t, Publication{SlurmConf: true}), func() {
		store.pass(time.Minute)
		before := fragment()
		for _, want := range []string{
			"\nNodeName=gb200-[001-072] Sockets=2 CoresPerSocket=72 ThreadsPerCore=1 Gres=gpu:gb200:4\n", "\nNodeName=cpu Sockets=1 CoresPerSocket=4 ThreadsPerCore=1\n",
			"\n# PartitionName=nvl Nodes=gb200-[001-072] Topology=nvl # the default\n", "\n# PartitionName=fabric Nodes=gb200-[001-072] Topology=fabric\n",
		} {
			if !strings.Contains(before, want) {
				t.Errorf("no %q in\n%s", want, before)
			}
		}
		if gres := published().Files["gres.conf"]; !strings.Contains(gres, "Cores=0-71") {
			t.Errorf("gres.conf has no Cores beside the fragment:\n%s", gres)
		}
		quiet := racks(t) // no sockets
		for name := range quiet.Reports {
			if name <= "gb200-040" {
				delete(quiet.Reports, name)
			}
		}
		store.change(quiet)
		store.pass(5 * time.Minute)
		if diff := cmp.Diff(before, fragment()); diff != "" {
			t.Errorf("nodes that say nothing lost their lines:\n%s", diff)
		}
		store.pass(time.Hour)
		if got := fragment(); strings.Contains(got, "NodeName=cpu") || !strings.Contains(got, "NodeName=gb200-[001-072] Sockets=2") {
			t.Errorf("after an hour without node cpu:\n%s", got)
		}
		before = fragment()
		smaller := []topology.Socket{{CPUs: "0-35", Cores: 36}, {CPUs: "36-71", Cores: 36}}
		store.change(withSockets(racks(t), smaller...))
		store.pass(time.Hour)
		if reason := published().Annotations[AnnotationHeldReason]; fragment() != before || !strings.Contains(reason, "BigChange: ") {
			t.Errorf("other processors of all nodes are published, held reason %q", reason)
		}
		store.approve()
		store.pass(time.Minute)
		if !strings.Contains(fragment(), "CoresPerSocket=36") {
			t.Errorf("approved, and not published:\n%s", fragment())
		}
	})
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Minute)
		store.approve() // gres.conf loses its Cores
		store.pass(time.Minute)
		if _, ok := published().Files[slurmconf.SlurmNodesFile]; ok {
			t.Error("the fragment stays when the publication has none")
		}
	})
}

// TestFragmentChangesAreGuarded counts the nodes whose line changes or goes.
func TestFragmentChangesAreGuarded(t *testing.T) {
	type node = slurmconf.FragmentNode
	line := func(processors, gres string) node { return node{Processors: processors, Gres: gres} }
	for name, tt := range map[string]struct {
		was, is node
		changes bool
	}{
		"the same":           {line("Sockets=2", "gpu:a:4"), line("Sockets=2", "gpu:a:4"), false},
		"processors known":   {line("", "gpu:a:4"), line("Sockets=2", "gpu:a:4"), false},
		"types known":        {line("", "gpu:4"), line("Sockets=2", "gpu:a:3,gpu:b:1"), false},
		"the first GPUs":     {line("Sockets=2", ""), line("Sockets=2", "gpu:a:4"), false},
		"fewer GPUs":         {line("Sockets=2", "gpu:a:4"), line("Sockets=2", "gpu:a:3"), true},
		"fewer of any type":  {line("Sockets=2", "gpu:4"), line("Sockets=2", "gpu:a:3"), true},
		"other processors":   {line("Sockets=2", "gpu:a:4"), line("Sockets=4", "gpu:a:4"), true},
		"processors unknown": {line("Sockets=2", "gpu:a:4"), line("", "gpu:a:4"), true},
		"another type":       {line("", "gpu:a:4"), line("", "gpu:b:4"), true},
	} {
		changed, of := fragmentChanges(map[string]node{"n1": tt.was}, map[string]node{"n1": tt.is, "n2": {}})
		if (changed == 1) != tt.changes || of != 1 {
			t.Errorf("%s: %d of %d change, want %t", name, changed, of, tt.changes)
		}
	}
	if changed, _ := fragmentChanges(map[string]node{"n1": {}}, nil); changed != 1 {
		t.Error("a node that goes does not count")
	}
}

// TestDirStoreFragment has a directory keep the fragment: it is written again when
// it was edited, and an unreadable one is named.
func TestDirStoreFragment(t *testing.T) {
	r := newDirRig(t, func(r *dirRig) {
		r.pub.SlurmConf = true
		r.site("gb200-nvl72x4")
	})
	has := func(p *Published) bool {
		return strings.Contains(p.Files[slurmconf.SlurmNodesFile], "\nNodeName=gb200-")
	}
	first := r.until("it is published", has)
	if err := os.WriteFile(r.published(slurmconf.SlurmNodesFile), []byte("NodeName=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := r.until("it is written again", has)
	if diff := cmp.Diff(first.Files, again.Files); diff != "" {
		t.Error(diff)
	}
	if err := os.Remove(filepath.Join(r.published(slurmconf.SlurmNodesFile))); err != nil {
		t.Fatal(err)
	}
	r.until("it is back", has)
}
