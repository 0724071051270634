package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quoin-hpc/quoin/test/rig/nodedir"
)

// TestMain lets scripts, and tests that start processes, run this program under
// the name quoin, and as kubectl runs it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quoin": main, "kubectl-quoin": main})
}

// TestScripts runs what users do, and what goes wrong when they do it. A script gives
// --config $NODE to each command that reads or writes the machine. The blocks of the pages for
// users are in pages/PAGE, each called HEADING-NUMBER.LANGUAGE: the number counts below its heading.
// try.sh has the commands by which the README begins.
func TestScripts(t *testing.T) {
	userPages, try := readPages(t), firstCommands(t)
	testscript.Run(t, testscript.Params{
		Dir: "../../testdata/scripts",
		Setup: func(e *testscript.Env) error {
			e.Setenv("NODE_NAME", "")
			e.Setenv("NODE", filepath.Join(e.WorkDir, "node.yaml"))
			if err := writePages(e.WorkDir, userPages); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(e.WorkDir, "try.sh"), []byte(try), 0o600); err != nil {
				return err
			}
			return os.WriteFile(e.Getenv("NODE"), []byte(nodedir.New(t, filepath.Join(e.WorkDir, ".node")).Config()), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": awaitFile},
	})
}

// firstCommands are the commands of the README's part Try it on your cluster.
func firstCommands(t *testing.T) (commands string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "\n## Try it on your cluster\n")
	part, _, _ = strings.Cut(part, "\n## ")
	for line := range strings.Lines(part) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			commands += command
		}
	}
	if strings.Count(commands, "bin/quoin ") < 4 {
		t.Fatalf("commands of the README: %q, want four of quoin or more", commands)
	}
	return commands
}

// awaitFile is the command await FILE [REGEXP]: it waits until the file is there, and matches.
func awaitFile(ts *testscript.TestScript, not bool, args []string) {
	if not || len(args) == 0 || len(args) > 2 {
		ts.Fatalf("usage: await FILE [REGEXP]")
	}
	want := regexp.MustCompile(strings.Join(args[1:], ""))
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && want.Match(text) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s: not within 3 minutes: %v\n%s", strings.Join(args, " "), err, text)
		}
	}
}
