package liveness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/testdata/rig/nodedir"
)

// node is what a node shows of its jobs.
type node struct {
	*nodedir.Traces
	t   *testing.T
	dir string
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	return &node{nodedir.NewTraces(t, dir), t, dir}
}

func (n *node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// TestFindPrologs reads what slurmd's children run for.
func TestFindPrologs(t *testing.T) {
	r := newNode(t)
	want := func(what string, all bool, jobs string) {
		t.Helper()
		if p := findPrologs(r.Proc); p.all != all || fmt.Sprint(p.jobs) != "map["+jobs+"]" {
			t.Errorf("%s: %+v", what, p)
		}
	}
	want("no process", false, "")
	r.Process(7, "prolog (x) S 9", "S", 8, "SLURM_JOB_ID=17")
	want("no slurmd", false, "")
	r.Process(9, "slurmd", "S", 1, "A=1")
	want("another's child", true, "")
	r.Process(8, "slurmd", "S", 1, "A=1")
	r.Process(10, "epilog.sh", "S", 9, "A=1 SLURM_JOB_ID=18 B=2")
	r.Process(11, "slurmstepd", "S", 9, "A=1")
	r.Process(12, "zombie", "Z", 9, "")
	r.Process(13, "health", "S", 9, "XSLURM_JOB_ID=19")
	r.Process(14, "ended", "S", 9, "")
	r.must(os.Remove(filepath.Join(r.Proc, "14/environ")))
	want("two", true, "17:true 18:true")
	r.Process(15, "slurmd-wlm", "R", 9, "SLURM_JOB_ID=20")
	want("one that is about to become a script", true, "17:true 18:true 20:true")
	r.Process(16, "prolog", "S", 9, "-")
	want("one that is not ours to read", false, "17:true 18:true 20:true")
	r.Ends(16)
	r.Process(17, "slurmd", "S", 1, "-")
	want("a slurmd that is not ours to read", true, "17:true 18:true 20:true")
	r.Process(18, "slurmstepd", "S", 17, "-")
	want("it keeps control groups", true, "17:true 18:true 20:true")
	r.Process(20, "slurmd", "S", 1, "A=1")
	r.must(os.WriteFile(filepath.Join(r.Proc, "20/status"), []byte("Name:\tslurmd\nUid:\t65534\t0\t0\t0\n"), 0o600))
	r.Process(21, "forged", "S", 20, "SLURM_JOB_ID=21")
	want("a slurmd that is not root's", true, "17:true 18:true 20:true")
	r.Process(19, "prolog", "S", 17, "-")
	want("it runs something", false, "17:true 18:true 20:true")
}

// FuzzParseStat reads any name as it is.
func FuzzParseStat(f *testing.F) {
	f.Add("slurmd", "17")
	f.Add("a) S 9 (b", "1")
	f.Fuzz(func(t *testing.T, name, parent string) {
		parseStat([]byte(name)) // does not fail
		if strings.ContainsFunc(parent, func(r rune) bool { return r < '0' || r > '9' }) || parent == "" {
			return
		}
		if n, p := parseStat([]byte("8 (" + name + ") S " + parent + " 8")); n != name || p != parent {
			t.Errorf("%q, %q are read as %q, %q", name, parent, n, p)
		}
	})
}
