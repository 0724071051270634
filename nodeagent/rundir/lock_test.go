package rundir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/document"
)

// TestLockIsClosed makes the lock file for its owner alone, and takes an existing one
// from everybody else.
func TestLockIsClosed(t *testing.T) {
	for _, tt := range []struct {
		name string
		mode os.FileMode // of the file that exists before; 0 for none
	}{{"new", 0}, {"of an earlier release", 0o644}, {"open to all", 0o666}, {"closed", 0o600}} {
		t.Run(tt.name, func(t *testing.T) {
			run := t.TempDir()
			path := filepath.Join(run, lockFile)
			if tt.mode != 0 {
				if err := os.WriteFile(path, nil, tt.mode); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, tt.mode); err != nil { // whatever the umask
					t.Fatal(err)
				}
			}
			unlock, err := Dir(run).Lock(t.Context(), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			if info, err := os.Stat(path); err != nil || info.Mode() != document.Own {
				t.Errorf("the lock file is %v, %v; want mode 0600", info, err)
			}
			if _, err := Dir(run).Lock(t.Context(), 10*time.Millisecond); err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
				t.Errorf("a second holder: error %v, want that the time is over", err)
			}
		})
	}
}

// TestConcurrentWriters has many writers under the lock and a reader beside
// them that must never see a missing or half-written file.
func TestConcurrentWriters(t *testing.T) {
	run := t.TempDir()
	m := dcgm.Mapping{Dir: t.TempDir()}
	if err := m.Set("seed", []string{"0"}); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		text, err := os.ReadFile(filepath.Join(m.Dir, "0"))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			text := read()
			if !strings.Contains(text, "seed\n") || !strings.HasSuffix(text, "\n") {
				t.Errorf("the reader saw %q", text)
				return
			}
			// The exporter warns of names that it does not know.
			if entries, err := os.ReadDir(m.Dir); err != nil || len(entries) != 2 || entries[0].Name() != filepath.Base(string(m.Folder())) {
				t.Errorf("the reader saw %v, %v", entries, err)
				return
			}
		}
	})
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() {
			for k := range 10 {
				unlock, err := Dir(run).Lock(context.Background(), 10*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				id := fmt.Sprint(i*100 + k)
				if err := m.Set(id, []string{"0"}); err != nil {
					t.Error(err)
				}
				if k%2 == 0 {
					if err := m.Clear(id, []string{"0"}); err != nil {
						t.Error(err)
					}
				}
				unlock()
			}
		})
	}
	writers.Wait()
	close(stop)
	reader.Wait()
	if lines := strings.Fields(read()); len(lines) != 101 || !slices.IsSorted(lines) {
		t.Errorf("%d sorted lines, want 101", len(lines))
	}
}
