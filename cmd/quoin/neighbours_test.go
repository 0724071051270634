package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/golden"
)

// TestNeighbours runs the two commands of README that need no installation on what kubectl prints of
// clusters whose nodes were labelled by others, each in the form that it documents. No key is set.
func TestNeighbours(t *testing.T) {
	const dir = "../../testdata/neighbours"
	lists, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(lists) == 0 {
		t.Fatal("no list: ", err)
	}
	for _, list := range lists {
		who := strings.TrimSuffix(filepath.Base(list), ".json")
		t.Run(who, func(t *testing.T) {
			nodes, err := os.ReadFile(list)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, command := range []string{"map", "render"} {
				code, out, errs := quoin(t, string(nodes), command, "--nodes", "-")
				if out == "" && errs == "" {
					t.Errorf("%s: exit %d, and not a word", command, code)
				}
				got.WriteString("# ---- kubectl get nodes -o json | quoin " + command + " --nodes - ----\n" + out + errs + "# exit " + strconv.Itoa(code) + "\n\n")
			}
			golden.Check(t, filepath.Join(dir, who+".golden"), got.String())
		})
	}
}
