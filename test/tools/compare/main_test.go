package main

import (
	"os"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/ibrig"
	"github.com/quoin-hpc/quoin/test/rig/need"
)

// ours is Quoin's cell of a row of the README's table that begins with what is measured.
func ours(t *testing.T, what string) string {
	t.Helper()
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "\n| "+what)
	cells := strings.Split(rest, "|")
	if !found || len(cells) < 3 {
		t.Fatalf("README.md has no row %q", what)
	}
	return strings.TrimSpace(cells[1])
}

// TestLines holds that the README says how many lines change when a rack comes.
func TestLines(t *testing.T) {
	t.Parallel()
	got, err := lines(t.Context(), options{racks: 556})
	if err != nil {
		t.Fatal(err)
	}
	if said := ours(t, "lines that change"); len(got) != 1 || got[0].value != "1" || said != "1" {
		t.Errorf("%v, and the README says %s lines: want 1", got, said)
	}
}

// TestRealCables holds that the README says how many nodes have a place with one cable out.
func TestRealCables(t *testing.T) {
	t.Parallel()
	need.Rig(t, "ibnetdiscover", ibrig.Build)
	need.Root(t)
	got, err := cables(t.Context(), options{dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got {
		if f.value != "139" {
			t.Errorf("%s: %s, want 139", f.what, f.value)
		}
	}
	if said := ours(t, "nodes of 139"); !strings.HasPrefix(said, "139") {
		t.Errorf("the README says %s nodes, want 139", said)
	}
}
