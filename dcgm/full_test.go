package dcgm

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// mountFull mounts a small file system. The function that it returns fills it up.
func mountFull(t *testing.T, options string) (dir string, fill func()) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir, func() {
		for i := 0; ; i++ {
			path := filepath.Join(dir, ownFolder, strings.Repeat("x", i+1))
			if os.WriteFile(path, bytes.Repeat([]byte("x"), 4096), 0o600) != nil {
				return
			}
		}
	}
}

// TestFullDisk changes the jobs of a GPU on a disk that has no room for a new file or for
// one more byte. A reader never sees anything but whole lines of jobs that hold the GPU.
func TestFullDisk(t *testing.T) {
	for name, options := range map[string]string{"no file is free": "nr_inodes=9,size=1m", "no block is free": "size=48k"} {
		t.Run(name, func(t *testing.T) {
			dir, fill := mountFull(t, options)
			m := Mapping{Dir: dir}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(m.Set("1", []string{"0"}))
			must(m.Set("22", []string{"0"}))
			fill()
			if err := m.Set("1", []string{"1"}); err == nil {
				t.Fatal("want no room for another GPU's file")
			}
			if err := os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o600); err == nil {
				t.Fatal("the disk is not full")
			}
			stop := make(chan struct{})
			var reader sync.WaitGroup
			reader.Go(func() {
				allowed := []string{"1\n22\n", "22\n", "22\n333\n", "333\n", "\n", "1\n"}
				for {
					select {
					case <-stop:
						return
					default:
					}
					if text, err := os.ReadFile(filepath.Join(dir, "0")); err != nil || !slices.Contains(allowed, string(text)) {
						t.Errorf("the reader saw %q, %v", text, err)
						return
					}
				}
			})
			for range 200 {
				for _, step := range []struct {
					change func(string, []string) error
					job    string
					want   string
				}{{m.Clear, "1", "22\n"}, {m.Set, "333", "22\n333\n"}, {m.Clear, "22", "333\n"}, {m.Clear, "333", blankLine}, {m.Set, "1", "1\n"}, {m.Set, "22", "1\n22\n"}} {
					var err error
					for range 100 { // a busy machine may stop the reader while it has the spare file open
						if err = step.change(step.job, []string{"0"}); !isFull(err) {
							break
						}
					}
					must(err)
					if got := files(t, dir)["0"]; got != step.want {
						t.Fatalf("the file is %q, want %q", got, step.want)
					}
				}
			}
			close(stop)
			reader.Wait()
		})
	}
}

// TestFullDiskWithoutSpare says that a label cannot be changed if somebody has removed the
// spare file, and keeps the label whole.
func TestFullDiskWithoutSpare(t *testing.T) {
	dir, fill := mountFull(t, "nr_inodes=9")
	m := Mapping{Dir: dir}
	if err := m.Set("1", []string{"0"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(m.Folder().spare()); err != nil {
		t.Fatal(err)
	}
	fill()
	if err := m.Clear("1", []string{"0"}); !isFull(err) {
		t.Errorf("error %v, want that the disk is full", err)
	}
	if got := files(t, dir)["0"]; got != "1\n" {
		t.Errorf("the file is %q", got)
	}
}
