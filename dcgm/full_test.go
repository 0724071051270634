package dcgm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

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
