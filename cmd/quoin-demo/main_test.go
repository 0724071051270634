package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/cmd/quoin/demo"
)

// TestSameAsQuoinDemo shows what quoin demo shows.
func TestSameAsQuoinDemo(t *testing.T) {
	for name, args := range map[string][]string{
		"list":           {"--list"},
		"default":        nil,
		"hgx-conf-24.11": {"hgx-h100", "--slurm-version", "24.11"},
		"watch":          {"--watch", "--pause", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "quoin", "testdata", "demo-"+name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(string(text), "quoin demo", "quoin-demo")
			want = strings.ReplaceAll(want, "kubectl get nodes -o json | quoin", "make build && kubectl get nodes -o json | bin/quoin")
			dir := t.TempDir()
			var out, errs bytes.Buffer
			if code := run(t.Context(), append(args, "--store", dir), &out, &errs); code != 0 || errs.Len() > 0 {
				t.Fatalf("exit %d: %s", code, errs.String())
			}
			got := strings.NewReplacer(dir, "STORE", demo.Program(), "quoin-demo").Replace(out.String())
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrouble(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--format xml", `quoin-demo: publication "default": format: "xml": want conf or yaml`},
		{"--format yaml --slurm-version 24.11", "topology.yaml needs 25.05"},
		{"--config quoin.yaml", "unknown flag: --config; see quoin-demo --help"},
		{"mixed hgx-h100", "received 2: want quoin-demo [SITE | FILE.yaml]; see quoin-demo --help"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(tt.args), &out, &errs); code != 2 || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%s: exit %d, said:\n%s\nwant 2 and %q", tt.args, code, errs.String(), tt.want)
		}
	}
}
