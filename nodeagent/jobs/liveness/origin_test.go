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

// TestInOtherPod tells the Pods of others from slurmd's, and from the host.
func TestInOtherPod(t *testing.T) {
	const mine, other = "8fa92f3c-1111-4222-8333-444455556666", "0123456789abcdef0123456789abcdef"
	for _, tt := range []struct {
		name            string
		program, slurmd string // their control groups
		want            bool
	}{
		{"no Pod", "0::/system.slice/nvidia-persistenced.service\n", "0::/system.slice/slurmd.service\n", false},
		{"a Pod beside slurmd of the host", "0::/kubepods/burstable/pod" + other + "/c1\n", "0::/system.slice/slurmd.service\n", true},
		{"slurmd's own", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + mine + ".slice/cri-1.scope\n", "0::/../kubepods-burstable-pod" + mine + ".slice/cri-2.scope/system.slice\n", false},
		{"a Pod beside slurmd's", "0::/kubepods/pod" + other + "/c1\n", "0::/kubepods/pod" + mine + "/c1\n", true},
		{"a Pod, and no slurmd", "0::/kubepods/pod" + other + "/c1\n", "", true},
		{"a name that is no Pod's", "0::/user.slice/podman-17.scope\n", "", false},
		{"it has ended", "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proc := t.TempDir()
			for pid, group := range map[string]string{"12": tt.program, "8": tt.slurmd} {
				if group == "" {
					continue
				}
				dir := filepath.Join(proc, pid)
				name := map[string]string{"12": "python3", "8": "slurmd"}[pid]
				if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "cgroup"), []byte(group), 0o600),
					os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%s (%s) S 1 1 1", pid, name), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if got := InOtherPod(proc, 12); got != tt.want {
				t.Errorf("%t, want %t", got, tt.want)
			}
		})
	}
}
