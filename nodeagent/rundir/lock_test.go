package rundir

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
