package nodedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Process is a process that a proc file system shows.
type Process struct {
	PID, Parent int
	// Name is its comm, and Title its command line.
	Name, Title string
	// User is whose it is; 0 is root.
	User int
	// Start is when it began, in clock ticks since the boot.
	Start int
}

// Put puts the process into a proc file system.
func (p Process) Put(proc string) error {
	dir := filepath.Join(proc, fmt.Sprint(p.PID))
	err := os.MkdirAll(dir, 0o755)
	for name, text := range map[string]string{
		"stat":    fmt.Sprintf("%d (%s) S %d%s %d 0\n", p.PID, p.Name, p.Parent, strings.Repeat(" 0", 17), p.Start),
		"status":  fmt.Sprintf("Name:\t%s\nUid:\t%d\t%[2]d\t%[2]d\t%[2]d\nGid:\t0\n", p.Name, p.User),
		"cmdline": p.Title + "\x00",
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return err
}

// Step is the slurmstepd of a step, such as 17.extern.
func Step(pid int, name string) Process {
	return Process{PID: pid, Parent: 1, Name: "slurmstepd", Title: "slurmstepd: [" + name + "]"}
}

// Traces are the processes of a node that show which jobs live.
type Traces struct {
	Proc string

	t     testing.TB
	steps map[string]int // PIDs
}

// NewTraces makes the processes of a node without slurmd and jobs.
func NewTraces(t testing.TB, dir string) *Traces {
	t.Helper()
	s := &Traces{filepath.Join(dir, "proc"), t, map[string]int{}}
	s.must(os.MkdirAll(s.Proc, 0o755))
	s.Process(Process{PID: 1, Name: "systemd"})
	return s
}

func (s *Traces) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Process puts a process there.
func (s *Traces) Process(p Process) {
	s.t.Helper()
	s.must(p.Put(s.Proc))
}

// Ends removes a process.
func (s *Traces) Ends(pid int) {
	s.t.Helper()
	s.must(os.RemoveAll(filepath.Join(s.Proc, fmt.Sprint(pid))))
}

// Step starts a step, such as 17.extern.
func (s *Traces) Step(name string) {
	s.t.Helper()
	s.steps[name] = 1000 + len(s.steps)
	s.Process(Step(s.steps[name], name))
}

// StepEnds ends a step.
func (s *Traces) StepEnds(name string) {
	s.t.Helper()
	s.Ends(s.steps[name])
}

// EndSteps ends all steps.
func (s *Traces) EndSteps() {
	s.t.Helper()
	for name := range s.steps {
		s.StepEnds(name)
	}
}
