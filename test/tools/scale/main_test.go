package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/slots"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealScale runs all events on ten racks.
func TestRealScale(t *testing.T) {
	t.Parallel()
	kuberig.NeedTest(t)
	slots.Take(t, slots.APIServer)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-racks", "10", "-flap", "2s", "-rest", "1s", "-faults=false", "-slurm=false", "-dir", t.TempDir()}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
}

// clique returns a clique of its own.
func clique(n byte) topology.Clique { return topology.Clique{ClusterUUID: topology.UUID{15: n}, ID: 1} }

// smallSite has two racks of two nodes.
func smallSite() *site {
	s := &site{byName: map[string]*machine{}}
	for i, name := range []string{"n1", "n2", "n3", "n4"} {
		c := clique(1 + byte(i/2))
		m := &machine{name: name, now: c, said: map[topology.Clique]bool{c: true}}
		s.machines, s.byName[name] = append(s.machines, m), m
	}
	return s
}

// TestCheck holds that wrong files are found.
func TestCheck(t *testing.T) {
	const head = "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n"
	block := func(name, nodes string) string { return "    - {block: " + name + ", nodes: \"" + nodes + "\"}\n" }
	for _, tt := range []struct{ name, text, wrong, differs string }{
		{"right", head + block("a", "n[1-2]") + block("b", "n[3-4]"), "", ""},
		{"a node is missing", head + block("a", "n[1-2]") + block("b", "n3"), "", "of clique 00000000-0000-0000-0000-000000000002.1"},
		{"a block is missing", head + block("a", "n[1-2]"), "", "1 blocks: want 2"},
		{"a node in another's block", head + block("a", "n[1,3]") + block("b", "n[2,4]"), "never reported one clique", "is in a block of 2 nodes"},
		{"an unknown node", head + block("a", "n[1-2]") + block("b", "n[3-5]"), "never reported one clique", "block of 3 nodes"},
		{"a file that Slurm does not take", "- topology: [", "topology.yaml", "0 blocks: want 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := smallSite()
			r := &revision{files: map[string]string{"topology.yaml": tt.text}}
			for what, got := range map[string]error{tt.wrong: s.check(r), tt.differs: r.differs(s.machines)} {
				if what == "" && got != nil || what != "" && (got == nil || !strings.Contains(got.Error(), what)) {
					t.Errorf("error %v, want %q", got, what)
				}
			}
		})
	}
}

// TestMoved holds that a node that was elsewhere before may be published there.
func TestMoved(t *testing.T) {
	s := smallSite()
	r := &revision{blocks: map[string][]string{}}
	s.byName["n2"].said[clique(2)] = true
	r.files = map[string]string{"topology.yaml": "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [1]\n    blocks:\n    - {block: a, nodes: n1}\n    - {block: b, nodes: \"n[2-4]\"}\n"}
	if diff := cmp.Diff(nil, s.check(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
