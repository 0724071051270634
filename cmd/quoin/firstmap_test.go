package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/pages"
	"github.com/quoin-hpc/quoin/test/rig/put"
)

// TestFirstMap runs the commands of the page for a first map, one after the other as a user does, and compares what
// they print with the page. In place of a cluster, a fabric and a GPU node are recorded ones: kubectl and
// ibnetdiscover print a record, and quoin gets flags that name a simulated machine.
func TestFirstMap(t *testing.T) {
	t.Parallel()
	blocks, err := pages.Read("../../manifests/docs/first-map.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writePrograms(t, dir)
	var ran strings.Builder
	for i, block := range blocks {
		if block.Language != "sh" {
			continue
		}
		if block.NotRun != "" {
			t.Errorf("line %d: %s: want every command run", block.Line, block.NotRun)
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", block.Text)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "HOME="+dir)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil || errs.Len() > 0 {
			t.Errorf("line %d: %s: %v\n%s", block.Line, block.Text, err, errs.String())
		}
		if i+1 < len(blocks) && blocks[i+1].Language == "text" {
			if diff := cmp.Diff(blocks[i+1].Text, string(out)); diff != "" {
				t.Errorf("line %d: %s prints something else than the page shows (-page +printed):\n%s", block.Line, block.Text, diff)
			}
		}
		ran.WriteString(block.Text)
	}
	for _, command := range []string{"quoin map --nodes", "quoin map --ibnetdiscover", "quoin discover", "-o html"} {
		if !strings.Contains(ran.String(), command) {
			t.Errorf("the page does not run %s", command)
		}
	}
	drawn, err := os.ReadFile(filepath.Join(dir, "map.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"its place is known by", "why it is there", `"gb200-00","block":"nvl-8a61c3027d5c4f0e9a315b1f0c6d2e04-32766","class":"without-report","state":"no report, known from labels or a file","source":"label"`} {
		if !strings.Contains(string(drawn), want) {
			t.Errorf("map.html does not say %s", want)
		}
	}
}

// writePrograms writes what a page's commands need into a directory, so that they find it in PATH.
func writePrograms(t *testing.T, dir string) {
	program, err := exec.LookPath("quoin")
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := filepath.Abs("../../testdata/neighbours/gpu-operator.json")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../../testdata/scripts/cables.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, fabric, found := strings.Cut(string(script), "\n-- fabric.txt --\n")
	if !found {
		t.Fatal("cables.txtar has no fabric.txt")
	}
	put.File(t, filepath.Join(dir, "fabric.record"), fabric, 0o600)
	for name, text := range map[string]string{
		"kubectl":       `[ "$*" = "get nodes -o json" ] && exec cat ` + nodes,
		"sudo":          `exec "$@"`,
		"ibnetdiscover": `[ $# = 0 ] && exec cat fabric.record`,
		"quoin": `case $1 in
discover) set -- "$@" --simulate gb200-nvl72x4 --node gb200-001 ;;
esac
exec ` + program + ` "$@"`,
	} {
		put.File(t, filepath.Join(dir, "bin", name), "#!/bin/sh\n"+text+"\n", 0o700)
	}
}
