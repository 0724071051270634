package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/testdata/rig/golden"
)

// TestRenderNeighbours renders what kubectl prints of clusters whose nodes were
// labelled by others, each in the form that it documents.
func TestRenderNeighbours(t *testing.T) {
	const dir = "../../testdata/neighbours"
	inputs, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(inputs) == 0 {
		t.Fatal("no input: ", err)
	}
	for _, input := range inputs {
		who := strings.TrimSuffix(filepath.Base(input), ".json")
		t.Run(who, func(t *testing.T) {
			args := []string{"render", "--nodes", input}
			if who == "oracle" { // nodes are named by their addresses
				args = append(args, "--set", "publicationDefaults.slurmNames=full")
			}
			code, out, errs := quoin(t, "", args...)
			if code != 0 {
				t.Fatalf("exit %d\n%s\n%s", code, out, errs)
			}
			topology, _, _ := strings.Cut(out, "\n# ---- gres.conf ----")
			got := topology + "\n# ---- standard error ----\n" + errs
			golden.Check(t, filepath.Join(dir, who+".golden"), got)
		})
	}
}
