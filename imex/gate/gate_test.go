package gate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/dcgm/document"
)

func testGate(ready bool, members ...Member) State {
	return State{Head: document.HeadOf("Gate"), Node: "n1", BootID: "b", Clique: "c.1", Ready: ready, Reason: "NotReady", Message: "its daemon is not ready", Members: members}
}

// TestGateIsRefreshed has a gate written anew when it differs, and only its time
// when it does not.
func TestGateIsRefreshed(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	path := filepath.Join(run, FileName)
	if _, _, err := Read(run); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a gate: %v", err)
	}
	write := func(g State) os.FileInfo {
		t.Helper()
		if err := Write(run, g); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o644 || time.Since(info.ModTime()).Abs() > Stale/2 {
			t.Fatalf("%v, %v", info, err)
		}
		got, at, err := Read(run)
		if diff := cmp.Diff(&g, got); err != nil || diff != "" || !at.Equal(info.ModTime()) {
			t.Fatalf("at %s: %v (-want +got):\n%s", at, err, diff)
		}
		return info
	}
	first := write(testGate(false, Member{"n1", false}, Member{"n2", true}))
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	again := write(testGate(false, Member{"n1", false}, Member{"n2", true}))
	if !os.SameFile(first, again) {
		t.Error("the same gate was written anew")
	}
	if other := write(testGate(true, Member{"n1", true})); os.SameFile(again, other) {
		t.Error("a gate was written in place: a reader may see half of it")
	}
	if names, _ := filepath.Glob(filepath.Join(run, ".*")); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(run, testGate(true)); err == nil {
		t.Error("a directory is in the way: want an error")
	}
	if names, _ := filepath.Glob(filepath.Join(run, ".*")); len(names) > 0 {
		t.Errorf("left behind by what went wrong: %v", names)
	}
}

// TestBrokenGate says what is wrong with a gate, and never waits.
func TestBrokenGate(t *testing.T) {
	const head = `{"apiVersion":"quoin.dev/v1alpha1","kind":"Gate","node":"n1","ready":true`
	for _, tt := range []struct{ name, text, err string }{
		{"a newer agent's", head + `,"mood":"good"}`, ""},
		{"cut off", head, "unexpected end of JSON input; the agent replaces it"},
		{"empty", "", "unexpected end"},
		{"another kind", strings.Replace(head, "Gate", "Fence", 1) + "}", `kind "Fence": want`},
		{"another version", strings.Replace(head, "v1alpha1", "v9", 1) + "}", `apiVersion "quoin.dev/v9"`},
		{"a wrong type", strings.Replace(head, "true", `"yes"`, 1) + "}", "cannot unmarshal"},
		{"endless", head + strings.Repeat(" ", 8<<20) + "}", "more than 8388608 bytes"},
	} {
		run := t.TempDir()
		if err := os.WriteFile(filepath.Join(run, FileName), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		g, at, err := Read(run)
		if (err != nil) != (tt.err != "") || err != nil && (!strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), FileName)) || err == nil && !g.Ready {
			t.Errorf("%s: %+v, error %v, want %q", tt.name, g, err, tt.err)
		}
		if time.Since(at).Abs() > time.Minute {
			t.Errorf("%s: of %s", tt.name, at)
		}
	}
	run := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(run, FileName), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(run); err == nil || !strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("a named pipe: %v", err)
	}
}
