package liveness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestJobOf finds the step above a process.
func TestJobOf(t *testing.T) {
	type process struct {
		pid, parent, user int
		name, title       string
	}
	step := process{pid: 10, parent: 1, name: "slurmstepd", title: "slurmstepd: [17.0]"}
	shell, program := process{pid: 11, parent: 10, name: "bash"}, process{pid: 12, parent: 11, name: "python3 (x) S 1"}
	for _, tt := range []struct {
		name string
		all  []process
		want string
	}{
		{"a program of a step", []process{{pid: 1, name: "systemd"}, step, shell, program}, "17"},
		{"the step's own child", []process{step, {pid: 12, parent: 10, name: "python3"}}, "17"},
		{"a daemon", []process{{pid: 1, name: "systemd"}, step, {pid: 12, parent: 1, name: "python3"}}, ""},
		{"its parent has ended", []process{step, program}, ""},
		{"a user's fake below the step", []process{step, {pid: 11, parent: 10, user: 2001, name: "slurmstepd", title: "slurmstepd: [18.0]"}, program}, "17"},
		{"a step that names no job yet", []process{{pid: 10, parent: 1, name: "slurmstepd", title: "/usr/sbin/slurmstepd"}, shell, program}, ""},
		{"a circle", []process{{pid: 12, parent: 11, name: "a"}, {pid: 11, parent: 12, name: "b"}}, ""},
		{"no such process", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proc := t.TempDir()
			for _, p := range tt.all {
				dir := filepath.Join(proc, fmt.Sprint(p.pid))
				if err := errors.Join(os.Mkdir(dir, 0o755),
					os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (%s) S %d 1 1", p.pid, p.name, p.parent), 0o600),
					os.WriteFile(filepath.Join(dir, "cmdline"), append([]byte(p.title), 0), 0o600),
					os.WriteFile(filepath.Join(dir, "status"), fmt.Appendf(nil, "Name:\tx\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", p.user), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if got := JobOf(proc, 12); got != tt.want {
				t.Errorf("job %q, want %q", got, tt.want)
			}
		})
	}
}
