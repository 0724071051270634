package nodedir

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Traces are what shows that jobs live on a node: the sockets of their steps, control groups, and
// processes.
type Traces struct {
	Spool, Cgroup, Proc string

	t         testing.TB
	listeners map[string]net.Listener
}

// NewTraces makes the folders of a node without jobs.
func NewTraces(t testing.TB, dir string) *Traces {
	t.Helper()
	s := &Traces{filepath.Join(dir, "spool"), filepath.Join(dir, "cgroup"), filepath.Join(dir, "proc"), t, map[string]net.Listener{}}
	for _, d := range []string{s.Spool, s.Cgroup, s.Proc} {
		s.must(os.Mkdir(d, 0o755))
	}
	return s
}

func (s *Traces) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Process puts a process there. Its environ cannot be read if it is "-".
func (s *Traces) Process(pid int, name, state string, parent int, environ string) {
	s.t.Helper()
	dir := filepath.Join(s.Proc, fmt.Sprint(pid))
	s.must(os.MkdirAll(dir, 0o755))
	s.must(os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (%s) %s %d 0 0\n", pid, name, state, parent), 0o600))
	s.must(os.WriteFile(filepath.Join(dir, "status"), fmt.Appendf(nil, "Name:\t%s\nUid:\t0\t0\t0\t0\nGid:\t0\n", name), 0o600))
	if environ == "-" {
		s.must(os.MkdirAll(filepath.Join(dir, "environ"), 0o755))
	} else {
		s.must(os.WriteFile(filepath.Join(dir, "environ"), []byte(strings.ReplaceAll(environ, " ", "\x00")), 0o600))
	}
}

// Ends removes a process.
func (s *Traces) Ends(pid int) {
	s.t.Helper()
	s.must(os.RemoveAll(filepath.Join(s.Proc, fmt.Sprint(pid))))
}

// Listen lets a step listen at its socket until the test ends.
func (s *Traces) Listen(name string) {
	s.t.Helper()
	l, err := net.Listen("unix", filepath.Join(s.Spool, name)) //nolint:noctx // at once
	s.must(err)
	s.listeners[name] = l
	s.t.Cleanup(func() { _ = l.Close() })
}

// HangUp ends a step: its socket goes.
func (s *Traces) HangUp(name string) {
	s.t.Helper()
	s.must(s.listeners[name].Close())
}

// Kill ends a step as kill -9 does: its socket stays.
func (s *Traces) Kill(name string) {
	s.t.Helper()
	l, ok := s.listeners[name].(*net.UnixListener)
	if !ok {
		s.t.Fatal("no socket")
	}
	l.SetUnlinkOnClose(false)
	s.must(l.Close())
}

// Group makes a control group with files, each by its name and its text.
func (s *Traces) Group(path string, files ...string) {
	s.t.Helper()
	dir := filepath.Join(s.Cgroup, path)
	s.must(os.MkdirAll(dir, 0o755))
	for i := 0; i < len(files); i += 2 {
		s.must(os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600))
	}
}
