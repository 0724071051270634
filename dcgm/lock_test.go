package dcgm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
			unlock, err := Lock(t.Context(), run, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			if info, err := os.Stat(path); err != nil || info.Mode() != lockMode {
				t.Errorf("the lock file is %v, %v; want mode 0600", info, err)
			}
			if _, err := Lock(t.Context(), run, 10*time.Millisecond); err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
				t.Errorf("a second holder: error %v, want that the time is over", err)
			}
		})
	}
}

// TestReleaseWithoutRoom releases a GPU on a disk that has no room for a new file.
func TestReleaseWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "nr_inodes=4,size=64k"); err != nil {
		t.Skipf("mount a file system of four files: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	m := Mapping{Dir: dir}
	if err := m.Add("7", []string{"0"}); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if os.WriteFile(filepath.Join(dir, stagingFolder, strings.Repeat("x", i+1)), nil, 0o600) != nil {
			break
		}
	}
	if err := m.Remove("7", []string{"0"}); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir)["0"]; got != blankLine {
		t.Errorf("the released GPU's file is %q, want a blank line", got)
	}
}
