package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/dcgm"
)

// call runs the hook in this process.
func call(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, func(k string) string { return env[k] }, &out, &errs)
	return code, out.String(), errs.String()
}

func mapped(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			out[e.Name()] = string(text)
		}
	}
	return out
}

func TestPrologAndEpilog(t *testing.T) {
	run, dir := t.TempDir(), t.TempDir()
	flags := []string{"--run-dir", run, "--mapping-dir", dir}
	prolog, epilog := append([]string{"prolog"}, flags...), append([]string{"epilog"}, flags...)
	first := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1", "SLURM_JOB_START_TIME": "100"}
	second := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1,2", "SLURM_JOB_START_TIME": "200"}
	check := func(step string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, mapped(t, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	if code, _, said := call(t, first, prolog...); code != 0 || !strings.Contains(said, "no inventory") {
		t.Errorf("exit %d, said %q", code, said)
	}
	check("prolog", map[string]string{"0": "7\n", "1": "7\n"})
	call(t, second, prolog...)
	check("a requeued run with other GPUs", map[string]string{"0": "", "1": "7\n", "2": "7\n"})
	if _, _, said := call(t, first, epilog...); !strings.Contains(said, "left alone") {
		t.Errorf("late Epilog said %q", said)
	}
	check("the first run's late Epilog", map[string]string{"0": "", "1": "7\n", "2": "7\n"})
	call(t, second, epilog...)
	check("epilog", map[string]string{"0": "", "1": "", "2": ""})
	if code, _, said := call(t, second, epilog...); code != 0 || said != "" {
		t.Errorf("an Epilog without a record: exit %d, said %q", code, said)
	}
}

func TestHookConfig(t *testing.T) {
	run, dir := t.TempDir(), filepath.Join(t.TempDir(), "map")
	if err := dcgm.WriteHookConfig(run, dcgm.HookConfig{MappingDir: dir, Unlink: true}); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "3"}
	call(t, env, "prolog", "--run-dir", run)
	if diff := cmp.Diff(map[string]string{"3": "7\n"}, mapped(t, dir)); diff != "" {
		t.Error(diff)
	}
	call(t, env, "epilog", "--run-dir", run)
	if diff := cmp.Diff(map[string]string{}, mapped(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// TestNeverFailsAJob has everything wrong that can be: the job goes on.
func TestNeverFailsAJob(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, dcgm.InventoryFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		env  map[string]string
		said string
	}{
		{"run directory is a file", []string{"prolog", "--run-dir", file, "--mapping-dir", t.TempDir()}, nil, "run directory"},
		{"mapping directory is a file", []string{"prolog", "--run-dir", t.TempDir(), "--mapping-dir", file}, nil, "mapping directory"},
		{"malformed inventory", []string{"prolog", "--run-dir", broken, "--mapping-dir", t.TempDir()}, nil, "taken as the exporter's ids"},
		{"wrong flag", []string{"prolog", "--nonsense"}, nil, "nonsense"},
		{"wrong command", []string{"start"}, nil, `command "start": want prolog or epilog`},
		{"bad job id", []string{"prolog"}, map[string]string{"SLURM_JOB_ID": "7\n8"}, "job id"},
		{"bad GPU list", []string{"prolog", "--run-dir", t.TempDir(), "--mapping-dir", t.TempDir()}, map[string]string{"SLURM_JOB_GPUS": "x"}, "GPU indices"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0"}
			maps.Copy(env, tt.env)
			if code, _, said := call(t, env, tt.args...); code != 0 || !strings.Contains(said, tt.said) {
				t.Errorf("exit %d, said %q, want %q", code, said, tt.said)
			}
		})
	}
	if code, _, _ := call(t, nil, "prolog", "--nonsense"); code != 2 {
		t.Errorf("by hand a wrong flag exits %d, want 2", code)
	}
	if code, out, _ := call(t, nil, "--help"); code != 0 || !strings.HasPrefix(out, "usage: quoin-hook") {
		t.Errorf("--help exits %d and prints %q", code, out)
	}
}

// TestKilledAnywhere kills hooks at random points; the next ones must find
// everything in order.
func TestKilledAnywhere(t *testing.T) {
	hook := filepath.Join(t.TempDir(), "quoin-hook")
	buildHook(t, hook)
	run, dir := t.TempDir(), t.TempDir()
	start := func(verb, job string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), hook, verb, "--run-dir", run, "--mapping-dir", dir)
		cmd.Env = []string{"SLURM_JOB_ID=" + job, "SLURM_JOB_GPUS=0-7", "SLURM_JOB_START_TIME=1"}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	for i := range 200 {
		cmd := start([]string{"prolog", "epilog"}[i%2], "7")
		time.Sleep(time.Duration(i*15) * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for name, text := range mapped(t, dir) {
			if text != "" && text != "7\n" {
				t.Fatalf("after a kill file %s holds %q", name, text)
			}
		}
	}
	for _, verb := range []string{"prolog", "epilog"} {
		if err := start(verb, "7").Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range mapped(t, dir) {
		if text != "" {
			t.Errorf("after the last Epilog file %s holds %q", name, text)
		}
	}
}

// bashHook does what sites' scripts do: one file per GPU.
const bashHook = `#!/bin/bash
dir=$1
mkdir -p "$dir"
IFS=, read -ra gpus <<<"$SLURM_JOB_GPUS"
for gpu in "${gpus[@]}"; do
  printf '%s\n' "$SLURM_JOB_ID" >"$dir/$gpu"
done
exit 0
`

// BenchmarkHook compares whole processes on a job with 8 GPUs.
func BenchmarkHook(b *testing.B) {
	tmp := b.TempDir()
	hook, script := filepath.Join(tmp, "quoin-hook"), filepath.Join(tmp, "hook.sh")
	buildHook(b, hook)
	if err := os.WriteFile(script, []byte(bashHook), 0o755); err != nil {
		b.Fatal(err)
	}
	for name, args := range map[string][]string{
		"quoin": {hook, "prolog", "--run-dir", filepath.Join(tmp, "run"), "--mapping-dir", filepath.Join(tmp, "map")},
		"bash":  {script, filepath.Join(tmp, "bashmap")},
	} {
		b.Run(name, func(b *testing.B) {
			job := 0
			for b.Loop() {
				job++
				cmd := exec.CommandContext(b.Context(), args[0], args[1:]...)
				cmd.Env = []string{fmt.Sprintf("SLURM_JOB_ID=%d", job%64), "SLURM_JOB_GPUS=0,1,2,3,4,5,6,7", "PATH=/usr/bin:/bin"}
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
			}
		})
	}
}
