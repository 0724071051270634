package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRun compiles and runs the tests of a module of its own. The end names each test that
// failed, with its first error and a command that runs it alone.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const head = "\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Exit\n\n"
	write("go.mod", "module github.com/quoin-hpc/quoin\n\ngo 1.26\n")
	write("good/a_test.go", "package good"+head+"func TestGood(t *testing.T) { if _, err := os.Stat(\"a_test.go\"); err != nil { t.Fatal(err) } }\nfunc TestLeftOut(t *testing.T) { t.Skip(\"no\") }\n")
	write("bad/a_test.go", "package bad"+head+`func TestBad(t *testing.T) {
	t.Run("one", func(t *testing.T) {})
	t.Run("two words", func(t *testing.T) { t.Error("first"); t.Error("second") })
}
func TestBoxNever(t *testing.T) { t.Error("left out") }
func TestGood(t *testing.T) {}
`)
	write("ends/bad/a_test.go", "package bad"+head+"func TestEnds(t *testing.T) { println(\"why it ends\"); os.Exit(7) }\n")
	write("panics/a_test.go", "package panics"+head+"func TestPanics(t *testing.T) { var p *int; t.Log(*p) }\n")
	var tests []testProgram
	for _, name := range []string{"good", "bad", "ends/bad", "panics"} {
		path := filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".test")
		cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", path, "./"+name)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		tests = append(tests, testProgram{pkg: "github.com/quoin-hpc/quoin/" + name, dir: filepath.Join(dir, name), path: path})
	}
	var out bytes.Buffer
	err := options{packages: 2, parallel: 2, skip: "^TestBox", out: &out}.runAll(t.Context(), tests)
	if !errors.Is(err, errFailed) {
		t.Errorf("error %v, want %v", err, errFailed)
	}
	_, end, _ := strings.Cut(out.String(), "\nfailed:\n")
	want := `./bad TestBad/two_words
    a_test.go:12: first
    go test -count=1 -run '^TestBad$/^two_words$' ./bad
./ends/bad TestEnds
    why it ends
    go test -count=1 -run '^TestEnds$' ./ends/bad
./panics TestPanics
    panic: runtime error: invalid memory address or nil pointer dereference [recovered, repanicked]
    go test -count=1 -run '^TestPanics$' ./panics

4 packages in TIME
3 passed, 3 failed, 1 skipped
`
	if diff := cmp.Diff(want, regexp.MustCompile(`in \d+:\d\d`).ReplaceAllString(end, "in TIME")); diff != "" {
		t.Errorf("the end of a run (-want +got):\n%s\nall:\n%s", diff, out.String())
	}
	for _, line := range []string{`ok    ./good `, `FAIL  ./bad `, "a_test.go:12: second", "skipped: ./good TestLeftOut: a_test.go:11: no\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
}

// TestManyFailures lists the first failures alone, so that the last lines fit a screen.
func TestManyFailures(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &board{out: &out, running: map[string]*results{}, of: 1}
	r := &results{pkg: "github.com/quoin-hpc/quoin/p", text: map[string]*strings.Builder{}, open: map[string]time.Time{}, err: errors.New("exit status 1")}
	for i := range 40 {
		b.line(r, fmt.Appendf(nil, `{"Action":"fail","Test":"Test%02d"}`, i))
	}
	b.end(r)
	if err := b.summary(); !errors.Is(err, errFailed) {
		t.Errorf("error %v, want %v", err, errFailed)
	}
	_, end, _ := strings.Cut(out.String(), "\nfailed:\n")
	if n := strings.Count(end, "\n"); n > 32 || !strings.Contains(end, "and 31 more, above\n") || !strings.HasSuffix(end, "0 passed, 40 failed, 0 skipped\n") {
		t.Errorf("%d lines:\n%s", n, end)
	}
}
