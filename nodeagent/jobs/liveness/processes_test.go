package liveness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/nodedir"
)

func TestReadProcesses(t *testing.T) {
	type process = nodedir.Process
	step := nodedir.Step
	with := func(p process, change func(*process)) process { change(&p); return p }
	slurmd := process{PID: 8, Parent: 1, Name: "slurmd", Start: 500}
	tests := []struct {
		name string
		has  []process
		want processes
	}{
		{"no process", nil, processes{}},
		{"a machine without slurmd", []process{{PID: 1, Name: "systemd"}, {PID: 9, Parent: 1, Name: "bash"}}, processes{init: 1}},
		{"a container", []process{{PID: 1, Name: "quoin", Start: 7000}}, processes{init: 7001}},
		{"steps", []process{step(9, "17.extern"), step(10, "17.batch"), step(11, "17.0"), step(12, "18.batch"), step(13, "19.interactive"), step(14, "20.0+1")},
			processes{steps: map[string]steps{"17": {extern: true, batch: true}, "18": {batch: true}, "19": {}, "20": {}}}},
		{"two slurmds with one job", []process{step(9, "17.extern"), step(10, "17.0"), step(11, "17.extern")}, processes{steps: map[string]steps{"17": {extern: true}}}},
		{"a step that begins", []process{with(step(9, ""), func(p *process) { p.Title = "/usr/sbin/slurmstepd" })}, processes{}},
		{"a step that ends", []process{with(step(9, ""), func(p *process) { p.Title = "" })}, processes{}},
		{"a step without a job", []process{step(9, "x17.extern"), step(10, ".extern"), step(11, "17")}, processes{}},
		{"a user's fakes", []process{with(step(9, "17.extern"), func(p *process) { p.User = 2001 }), with(step(10, "18.extern"), func(p *process) { p.Name = "sleep" })}, processes{}},

		{"slurmd has no child", []process{slurmd, {PID: 9, Parent: 1, Name: "bash"}}, processes{slurmd: 5 * time.Second, quiet: true}},
		{"as process 1 of a pod, it has steps", []process{slurmd, with(step(9, "17.extern"), func(p *process) { p.Parent = 8 })},
			processes{slurmd: 5 * time.Second, quiet: true, steps: map[string]steps{"17": {extern: true}}}},
		{"slurmd runs a script", []process{slurmd, {PID: 9, Parent: 8, Name: "prolog (x) S 1"}}, processes{slurmd: 5 * time.Second}},
		{"slurmd is about to run a script", []process{slurmd, {PID: 9, Parent: 8, Name: "slurmd", Start: 600}}, processes{slurmd: 6 * time.Second}},
		{"the second slurmd runs a script", []process{slurmd, {PID: 7, Parent: 1, Name: "slurmd-wlm", Start: 400}, {PID: 9, Parent: 7, Name: "bash"}}, processes{slurmd: 5 * time.Second}},
		{"a user's slurmd", []process{{PID: 8, Parent: 1, Name: "slurmd", User: 2001}, {PID: 9, Parent: 8, Name: "bash"}}, processes{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			proc := t.TempDir()
			for _, p := range tt.has {
				if err := p.Put(proc); err != nil {
					t.Fatal(err)
				}
			}
			if tt.want.steps == nil {
				tt.want.steps = map[string]steps{}
			}
			if diff := cmp.Diff(tt.want, readProcesses(proc), cmp.AllowUnexported(processes{}, steps{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestProcessThatEnds leaves out a process whose files are gone, at whatever file that is noticed.
func TestProcessThatEnds(t *testing.T) {
	for _, file := range []string{"stat", "status", "cmdline"} {
		proc := t.TempDir()
		if err := nodedir.Step(9, "17.extern").Put(proc); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(proc, "9", file)); err != nil {
			t.Fatal(err)
		}
		if p := readProcesses(proc); len(p.steps) > 0 {
			t.Errorf("without %s: %+v", file, p)
		}
	}
}

// FuzzParseTitle reads the job's id and the step's name of any title.
func FuzzParseTitle(f *testing.F) {
	f.Add("slurmstepd: [17.extern]", "17", "batch")
	f.Add("slurmstepd: [17", "1", "0+1")
	f.Fuzz(func(t *testing.T, title, job, step string) {
		if j, _, ok := parseTitle(title); ok && (!isNumber(j) || !strings.HasPrefix(title, "slurmstepd: ["+j+".")) {
			t.Errorf("%q is a step of job %q", title, j)
		}
		if !isNumber(job) || strings.Contains(step, "]") {
			return
		}
		if j, s, ok := parseTitle("slurmstepd: [" + job + "." + step + "]\x00"); !ok || j != job || s != step {
			t.Errorf("%q, %q are read as %q, %q, %v", job, step, j, s, ok)
		}
	})
}
