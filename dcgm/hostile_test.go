package dcgm

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFilesThatAreLinks has somebody put a symbolic or a hard link to another file in the place
// of a GPU's file: the other file keeps its text, and no line of it but a job's id gets into the mapping.
func TestFilesThatAreLinks(t *testing.T) {
	const secret = "root:x:0:0\n4711\n"
	for name, link := range map[string]func(old, name string) error{"symbolic": os.Symlink, "hard": os.Link} {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			m, victim := Mapping{Dir: filepath.Join(outside, "mapping")}, filepath.Join(outside, "secret")
			if err := os.WriteFile(victim, []byte(secret), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := m.Folder().Make(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(m.Dir, "0")
			if err := link(victim, path); err != nil {
				t.Fatal(err)
			}
			if err := m.Set("1", []string{"0"}); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != secret {
				t.Errorf("the other file has %q, %v", text, err)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != "1\n4711\n" {
				t.Errorf("the mapping has %q, %v", text, err)
			}
			if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
				t.Errorf("the mapping's file: %v, %v", info, err)
			}
		})
	}
}

// TestSpareThatIsALink has the spare file of a full disk be another file too.
func TestSpareThatIsALink(t *testing.T) {
	for name, link := range map[string]func(old, name string) error{"symbolic": os.Symlink, "hard": os.Link} {
		t.Run(name, func(t *testing.T) {
			dir, fill := mountFull(t, "size=48k")
			m := Mapping{Dir: dir}
			for _, job := range []string{"1", "22"} {
				if err := m.Set(job, []string{"0"}); err != nil {
					t.Fatal(err)
				}
			}
			victim, spare := filepath.Join(dir, "other"), m.Folder().spare()
			if err := os.Rename(spare, victim); err != nil {
				t.Fatal(err)
			}
			if err := link(victim, spare); err != nil {
				t.Fatal(err)
			}
			fill()
			if err := m.Clear("1", []string{"0"}); err == nil {
				t.Error("the disk was not full")
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != blankLine {
				t.Errorf("the other file has %q, %v", text, err)
			}
		})
	}
}
