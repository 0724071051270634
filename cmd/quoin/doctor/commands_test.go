package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/test/rig/golden"
	"github.com/quoin-hpc/quoin/test/rig/pages"
	"github.com/quoin-hpc/quoin/topology"
)

var (
	// command is the command that ends a remedy, and program what begins one.
	command = regexp.MustCompile(`(?:^|: )((?:kubectl|helm|quoin|systemctl|timedatectl|mkdir) .*)$`)
	program = regexp.MustCompile(`\b(kubectl|helm|systemctl|timedatectl|mkdir) `)
)

// commandsOf are the commands of all remedies, each once.
func commandsOf(t *testing.T) []string {
	t.Helper()
	var all []string
	add := func(found []topology.Finding) {
		for _, f := range found {
			words := f.Remedy
			if c := command.FindStringSubmatchIndex(f.Remedy); c != nil {
				all, words = append(all, f.Remedy[c[2]:]), f.Remedy[:c[2]]
			}
			if program.MatchString(words) {
				t.Errorf("remedy %q: want the command at its end, after a colon", f.Remedy)
			}
		}
	}
	for _, tt := range clusterCases() {
		add(tt.findings(t))
		change := tt.change
		tt.change = func(c *Cluster) {
			if change != nil {
				change(c)
			}
			byYAML(c)
		}
		add(tt.findings(t))
	}
	nowhere := &Cluster{Options: options(t), Kubernetes: "v1.36.3", Now: now}
	nowhere.Kubectl, nowhere.Helm, nowhere.Publications = "kubectl", "helm", nil
	add(nowhere.Findings())
	for _, tt := range nodeCases() {
		add(tt.findings(t))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestRealCommands runs each command that doctor advises, as it is printed, in bash and in zsh. The
// programs write down what they are called with: both shells call them alike.
func TestRealCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("needs bash and zsh")
	}
	t.Setenv("HOME", "/home/somebody")
	bin := t.TempDir()
	for _, name := range []string{"kubectl", "helm", "quoin", "systemctl", "timedatectl", "mkdir"} {
		script := "#!/bin/sh\nfor word in " + name + " \"$@\"; do printf '%s\\0' \"$word\"; done >>\"$CALLS\"\necho quoin\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	var said strings.Builder
	for i, line := range commandsOf(t) {
		var called [2]string
		for k, shell := range [][]string{{"bash", "--norc", "-c"}, {"zsh", "-f", "-c"}} {
			calls := filepath.Join(t.TempDir(), fmt.Sprint(i))
			cmd := exec.CommandContext(t.Context(), shell[0], append(shell[1:], line)...)
			cmd.Env = append(os.Environ(), "CALLS="+calls)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %s: %v\n%s", shell[0], line, err, out)
			}
			text, err := os.ReadFile(calls)
			if err != nil {
				t.Fatalf("%s: %s: %v", shell[0], line, err)
			}
			called[k] = string(text)
		}
		if called[0] != called[1] {
			t.Errorf("%s: bash calls %q, zsh calls %q", line, called[0], called[1])
		}
		words := strings.Split(strings.TrimSuffix(called[0], "\x00"), "\x00")
		if at := slices.Index(words, "-p"); at > 0 && words[0] == "kubectl" && !json.Valid([]byte(words[at+1])) {
			t.Errorf("%s: no JSON: %s", line, words[at+1])
		}
		text, err := json.Marshal(words)
		if err != nil {
			t.Fatal(err)
		}
		block := temporary.ReplaceAllString(line+"\n"+string(text)+"\n\n", "TMP")
		if !strings.Contains(said.String(), block) {
			said.WriteString(block)
		}
	}
	golden.Check(t, "testdata/commands.txt", said.String())
}

// temporary are the folders of the test.
var temporary = regexp.MustCompile(`[^\s'"]*/TestRealCommands\d+/\d+`)

//go:generate go test -run ^TestSlinkyPage$ . -update

// TestSlinkyPage holds that the page for Slinky has the patch that doctor prints for a Controller as
// Slinky's chart makes it. -update writes it there.
func TestSlinkyPage(t *testing.T) {
	const page = "../../../manifests/docs/slinky.md"
	cases := clusterCases()
	chart := cases[slices.IndexFunc(cases, func(c clusterCase) bool { return c.name == asChartMakesIt })]
	var patch string
	for _, f := range chart.findings(t) {
		if f.Thing == "slinky" && f.Severity == topology.Fatal {
			patch = strings.Replace(f.Remedy, config.Flag("--context", hard), "", 1) + "\n"
		}
	}
	lines := strings.NewReplacer(`{"spec": {`, "{\"spec\": {\n  ", `], "`, "],\n  \"") // each key on its own
	blocks, err := pages.Read(page)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(blocks, func(b pages.Block) bool { return b.Heading == "Tell Slinky" && strings.Contains(b.Text, " patch ") })
	text, err := os.ReadFile(page)
	if err != nil || at < 0 {
		t.Fatalf("block %d, %v: want one with a patch", at, err)
	}
	golden.Check(t, page, strings.Replace(string(text), blocks[at].Text, lines.Replace(patch), 1))
}
