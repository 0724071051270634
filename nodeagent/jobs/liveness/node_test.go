package liveness

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// node is what a node shows of its jobs.
type node struct {
	t                        *testing.T
	dir, spool, cgroup, proc string
	listeners                map[string]net.Listener
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{t, dir, filepath.Join(dir, "spool"), filepath.Join(dir, "cgroup"), filepath.Join(dir, "proc"), make(map[string]net.Listener)}
	for _, d := range []string{n.spool, n.cgroup, n.proc} {
		n.must(os.Mkdir(d, 0o755))
	}
	return n
}

func (n *node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// process puts a process into the rig's proc; environ "-" cannot be read.
func (n *node) process(pid int, name, state string, parent int, environ string) {
	n.t.Helper()
	dir := filepath.Join(n.proc, fmt.Sprint(pid))
	n.must(os.MkdirAll(dir, 0o755))
	n.must(os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (%s) %s %d 0 0\n", pid, name, state, parent), 0o600))
	n.must(os.WriteFile(filepath.Join(dir, "status"), fmt.Appendf(nil, "Name:\t%s\nUid:\t0\t0\t0\t0\nGid:\t0\n", name), 0o600))
	if environ == "-" {
		n.must(os.MkdirAll(filepath.Join(dir, "environ"), 0o755))
	} else {
		n.must(os.WriteFile(filepath.Join(dir, "environ"), []byte(strings.ReplaceAll(environ, " ", "\x00")), 0o600))
	}
}

func (n *node) ends(pid int) { n.must(os.RemoveAll(filepath.Join(n.proc, fmt.Sprint(pid)))) }

func (n *node) listen(name string) {
	n.t.Helper()
	l, err := net.Listen("unix", filepath.Join(n.spool, name)) //nolint:noctx // at once
	n.must(err)
	n.listeners[name] = l
	n.t.Cleanup(func() { _ = l.Close() })
}

// kill ends a step as kill -9 does: its socket stays.
func (n *node) kill(name string) {
	l, ok := n.listeners[name].(*net.UnixListener)
	if !ok {
		n.t.Fatal("no socket")
	}
	l.SetUnlinkOnClose(false)
	n.must(l.Close())
}

// TestFindPrologs reads what slurmd's children run for.
func TestFindPrologs(t *testing.T) {
	r := newNode(t)
	want := func(what string, all bool, jobs string) {
		t.Helper()
		if p := findPrologs(r.proc); p.all != all || fmt.Sprint(p.jobs) != "map["+jobs+"]" {
			t.Errorf("%s: %+v", what, p)
		}
	}
	want("no process", false, "")
	r.process(7, "prolog (x) S 9", "S", 8, "SLURM_JOB_ID=17")
	want("no slurmd", false, "")
	r.process(9, "slurmd", "S", 1, "A=1")
	want("another's child", true, "")
	r.process(8, "slurmd", "S", 1, "A=1")
	r.process(10, "epilog.sh", "S", 9, "A=1 SLURM_JOB_ID=18 B=2")
	r.process(11, "slurmstepd", "S", 9, "A=1")
	r.process(12, "zombie", "Z", 9, "")
	r.process(13, "health", "S", 9, "XSLURM_JOB_ID=19")
	r.process(14, "ended", "S", 9, "")
	r.must(os.Remove(filepath.Join(r.proc, "14/environ")))
	want("two", true, "17:true 18:true")
	r.process(15, "slurmd-wlm", "R", 9, "SLURM_JOB_ID=20")
	want("one that is about to become a script", true, "17:true 18:true 20:true")
	r.process(16, "prolog", "S", 9, "-")
	want("one that is not ours to read", false, "17:true 18:true 20:true")
	r.ends(16)
	r.process(17, "slurmd", "S", 1, "-")
	want("a slurmd that is not ours to read", true, "17:true 18:true 20:true")
	r.process(18, "slurmstepd", "S", 17, "-")
	want("it keeps control groups", true, "17:true 18:true 20:true")
	r.process(20, "slurmd", "S", 1, "A=1")
	r.must(os.WriteFile(filepath.Join(r.proc, "20/status"), []byte("Name:\tslurmd\nUid:\t65534\t0\t0\t0\n"), 0o600))
	r.process(21, "forged", "S", 20, "SLURM_JOB_ID=21")
	want("a slurmd that is not root's", true, "17:true 18:true 20:true")
	r.process(19, "prolog", "S", 17, "-")
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
