package process

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestRead reads this process, and one that has ended.
func TestRead(t *testing.T) {
	p := Read("/proc", "self")
	if want := strconv.Itoa(os.Getppid()); p.Name == "" || p.Parent != want || p.Start == 0 {
		t.Errorf("%+v, want a name, parent %s and a start", p, want)
	}
	if p := Read(t.TempDir(), "17"); p != (Process{}) {
		t.Errorf("a process that has ended: %+v", p)
	}
}

// FuzzParse reads any name as it is.
func FuzzParse(f *testing.F) {
	f.Add("slurmd", "17", uint64(500))
	f.Add("a) S 9 (b", "1", uint64(0))
	f.Fuzz(func(t *testing.T, name, parent string, start uint64) {
		parse([]byte(name)) // does not fail
		if _, err := strconv.ParseUint(parent, 10, 64); err != nil || strings.HasPrefix(parent, "+") {
			return
		}
		want := Process{name, parent, start}
		stat := "8 (" + name + ") S " + parent + strings.Repeat(" 8", 17) + " " + strconv.FormatUint(start, 10) + " 8"
		if got := parse([]byte(stat)); got != want {
			t.Errorf("%+v is read as %+v", want, got)
		}
		if got := parse([]byte("8 (" + name + ") S " + parent)); got != (Process{Name: name, Parent: parent}) {
			t.Errorf("without a start, %+v is read as %+v", want, got)
		}
	})
}
