package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/pages"
	"github.com/quoin-hpc/quoin/test/rig/put"
)

// firstSite has racks that grow: at first they have four nodes.
const firstSite = `name: first racks
groups:
  - {name: gb200, racks: 4, nodes: %d, node: "gb200-r{rack}t{tray:02}", nvlink: rack, tiers: ["leaf-{rack}", spine-1], gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471}}
`

// TestFirstMap runs the commands of the page for a first map, one after the other as a user does, and compares what
// they print with the page. In place of a cluster, a fabric and a GPU node are recorded ones: kubectl and
// ibnetdiscover print a record, and quoin gets flags that name a simulated machine and a publisher's directory.
func TestFirstMap(t *testing.T) {
	t.Parallel()
	blocks, err := pages.Read("../../manifests/docs/first-map.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writePrograms(t, dir)
	published := publishFirstSite(t, dir)
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
		code := cmd.ProcessState.ExitCode()
		wantCode := 0
		if strings.Contains(block.Text, "plan status") || strings.Contains(block.Text, "plan diff") {
			wantCode = 1 // something is held
		}
		if said := strings.ReplaceAll(errs.String(), "quoin: opened directory site; configuration: defaults\n", ""); code != wantCode || said != "" {
			t.Errorf("line %d: %s: exit status %d, want %d: %v\n%s", block.Line, block.Text, code, wantCode, err, said)
		}
		if i+1 < len(blocks) && blocks[i+1].Language == "text" {
			if diff := cmp.Diff(blocks[i+1].Text, onCluster(string(out)), cmp.Transformer("times", withoutTimes)); diff != "" {
				t.Errorf("line %d: %s prints something else than the page shows (-page +printed):\n%s", block.Line, block.Text, diff)
			}
		}
		ran.WriteString(block.Text)
	}
	for _, command := range []string{"quoin map --nodes", "quoin map --ibnetdiscover", "quoin discover", "-o html", "quoin plan status", "quoin plan diff", "quoin plan approve"} {
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
	await.Until(t, "the approved base block size is published", func() bool { return strings.Contains(published(), "block_sizes: [18]") }, published)
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
plan) set -- "$@" --store site ;;
esac
exec ` + program + ` "$@"`,
	} {
		put.File(t, filepath.Join(dir, "bin", name), "#!/bin/sh\n"+text+"\n", 0o700)
	}
}

// publishFirstSite publishes racks of four nodes in the directory site, lets them grow to 18 nodes, and waits until
// the new base block size is held. It returns what reads the published topology.yaml. The publisher works until the
// test ends.
func publishFirstSite(t *testing.T, dir string) (published func() string) {
	for store, nodes := range map[string]int{"site": 4, "whole": 18} {
		file := write(t, store+".yaml", fmt.Sprintf(firstSite, nodes))
		if code, _, errs := quoin(t, "", "demo", file, "--store", filepath.Join(dir, store)); code != 0 {
			t.Fatalf("exit status %d: %s", code, errs)
		}
	}
	site := filepath.Join(dir, "site")
	if err := errors.Join(os.RemoveAll(filepath.Join(site, "reports")), os.Rename(filepath.Join(dir, "whole", "reports"), filepath.Join(site, "reports"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		args := []string{"publisher", "--store", site, "--listen", "", "--set", "publicationDefaults.settleTime=100ms", "--times", "confirm: 100ms, spacing: 100ms"}
		ended <- run(ctx, args, nil, io.Discard, io.Discard)
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("the publisher ended with exit status %d", code)
		}
	})
	read := func(path string) func() string {
		return func() string {
			text, err := os.ReadFile(filepath.Join(site, path))
			if err != nil {
				return err.Error()
			}
			return string(text)
		}
	}
	held := read("plans/default.json")
	await.Until(t, "the new base block size is held", func() bool { return strings.Contains(held(), "BaseSizeChange") && strings.Contains(held(), "r4t18") }, held)
	return read("published/slurm/quoin-slurm/topology.yaml")
}

// onCluster takes out what commands print of a directory, and not of a cluster.
func onCluster(text string) string { return strings.ReplaceAll(text, " --store site", "") }

var times = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \([^)]+ ago\)`)

// withoutTimes takes out what differs in each run.
func withoutTimes(text string) string { return times.ReplaceAllString(text, "TIME") }
