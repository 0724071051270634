package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestChangesOf(t *testing.T) {
	const file = "blocks:\n  - block: a\n    nodes: n1\n  - block: b\n    nodes: n2\n"
	lost := func(text, under string) change { return change{false, text, under} }
	won := func(text, under string) change { return change{true, text, under} }
	tests := []struct {
		name          string
		before, after string
		want          []change
	}{
		{"same", file, file, nil},
		{"one line", file, strings.Replace(file, "n2", "n3", 1), []change{lost("nodes: n2", "block: b"), won("nodes: n3", "block: b")}},
		{"a block more between", file, strings.Replace(file, "  - block: b", "  - block: c\n    nodes: n9\n  - block: b", 1), []change{won("- block: c", ""), won("nodes: n9", "")}},
		{"a new file", "", "x\n", []change{won("x", "")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := changesOf(tt.before, tt.after)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(change{})); diff != "" {
				t.Errorf("changes (-want +got)\n%s", diff)
			}
		})
	}
}

func TestMovedBlocks(t *testing.T) {
	plan := func(names ...string) *topology.Plan {
		t := topology.Topology{Name: "nvl", Kind: "block"}
		for _, n := range names {
			t.Blocks = append(t.Blocks, topology.Block{Name: n})
		}
		return &topology.Plan{Topologies: []topology.Topology{t}}
	}
	tests := []struct {
		name string
		days []*topology.Plan
		want []string
	}{
		{"quiet", []*topology.Plan{plan("a", "b"), plan("a", "b")}, nil},
		{"one more between", []*topology.Plan{plan("a", "b"), plan("a", "c", "b")}, nil},
		{"gone", []*topology.Plan{plan("a", "b"), plan("a")}, []string{"b"}},
		{"swapped and back", []*topology.Plan{plan("a", "b", "c"), plan("b", "a", "c"), plan("a", "b", "c")}, []string{"a", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, movedBlocks(tt.days)); diff != "" {
				t.Errorf("moved (-want +got)\n%s", diff)
			}
		})
	}
}
