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

// TestTryNext runs the commands of its own with which the demo ends, as they are printed.
func TestTryNext(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), nil, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	_, next, _ := strings.Cut(out.String(), "\nTry next\n")
	ran := 0
	for line := range strings.Lines(next) {
		args, own := strings.CutPrefix(strings.TrimSpace(line), demo.Program()+" ")
		if !own {
			continue
		}
		ran++
		given := strings.Fields(args)
		if strings.Contains(args, "--watch") {
			given = append(given, "--pause", "0")
		}
		out.Reset()
		if code := run(t.Context(), given, &out, &errs); code != 0 || errs.Len() > 0 || out.Len() == 0 {
			t.Errorf("%s: exit %d, %d bytes, said:\n%s", line, code, out.Len(), errs.String())
		}
	}
	if ran != 3 || !strings.Contains(next, "\n  make build && kubectl get nodes -o json | bin/quoin render --nodes -\n") {
		t.Errorf("%d commands of the demo's own, want 3, and one for the user's cluster:\n%s", ran, next)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil || !bytes.Contains(text, []byte("\nbuild: ")) || !bytes.Contains(text, []byte(" -o bin/quoin ./cmd/quoin\n")) {
		t.Errorf("make build does not make bin/quoin: %v", err)
	}
}

func TestTrouble(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--format xml", `quoin-demo: publication "default": format: "xml": want conf, yaml or nothing`},
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
