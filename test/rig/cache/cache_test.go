package cache

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestFolder asks for a folder from several places at once. It is built once, and a build that has
// failed leaves none.
func TestFolder(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if dir, err := folder("a", func(string) error { return os.ErrPermission }); err == nil {
		t.Fatalf("a build that fails: %s", dir)
	}
	var builds atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			dir, err := folder("a", func(staging string) error {
				builds.Add(1)
				return os.WriteFile(filepath.Join(staging, "file"), nil, 0o600)
			})
			if err != nil {
				t.Error(err)
			} else if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("%d builds, want 1", n)
	}
}

// TestFolderBuildsNothing shows that a test gets the name of a command, and no build.
func TestFolderBuildsNothing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := Folder("a", func(string) error {
		t.Error("a build in a test")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "run make setup") {
		t.Errorf("error %v, want the command that builds the folder", err)
	}
}
