package reportdir

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFile stores two reports, one after the other.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	s := New(dir, "n1")
	if got, err := s.Get(t.Context()); got != nil || err != nil {
		t.Errorf("an empty store holds %q, %v", got, err)
	}
	for _, report := range []string{`{"node":"n1"}`, `{}`} {
		if err := s.Put(t.Context(), []byte(report)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Get(t.Context()); string(got) != report || err != nil {
			t.Errorf("the store holds %q, %v; want %q", got, err, report)
		}
	}
	// The publisher is another user, maybe on another host.
	info, err := os.Stat(filepath.Join(dir, "reports", "n1.json"))
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v; want mode 0644", info, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "reports", "n2.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := New(dir, "n2").Put(t.Context(), []byte("{}")); err == nil {
		t.Error("a directory was replaced")
	}
	away := filepath.Join(dir, "away")
	if err := New(away, "n1").Put(t.Context(), []byte("{}")); err == nil || !strings.HasSuffix(err.Error(), "install -d "+away) {
		t.Errorf("a store that is not there: %v", err)
	}
	if _, err := os.Stat(away); err == nil {
		t.Error("a store was made")
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "reports")); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v; want n1.json and n2.json", entries, err)
	}
}

// TestFileWhole reads a report while it is replaced: there is no moment with
// none, or with a part of one.
func TestFileWhole(t *testing.T) {
	s := New(t.TempDir(), "n1")
	reports := [][]byte{bytes.Repeat([]byte("a"), 1<<18), bytes.Repeat([]byte("b"), 1<<18)}
	if err := s.Put(t.Context(), reports[0]); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for i := range 100 {
			if err := s.Put(t.Context(), reports[i%2]); err != nil {
				failed <- err
				return
			}
		}
	}()
	for {
		select {
		case err := <-failed:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
		got, err := s.Get(t.Context())
		if err != nil || !bytes.Equal(got, reports[0]) && !bytes.Equal(got, reports[1]) {
			t.Fatalf("read %d bytes, %v; want %d of one kind", len(got), err, 1<<18)
		}
	}
}
