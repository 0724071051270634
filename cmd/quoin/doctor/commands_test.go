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

	"github.com/quoin-hpc/quoin/testdata/rig/golden"
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
	add((&Cluster{Version: "v1.36.3", Now: now, Kubectl: "kubectl", Helm: "helm"}).Findings(&Site{}))
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
