package hook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// call runs the hook in this process.
func call(t *testing.T, env map[string]string, args ...string) (code int, stderr string) {
	t.Helper()
	var errs bytes.Buffer
	code = run(t.Context(), args, func(k string) string { return env[k] }, &errs)
	return code, errs.String()
}

// noNames resolves nothing, so that no test asks a name server.
func noNames(context.Context, string) []string { return nil }

// configlessConf is a slurm.conf beside a gres.conf of which no slurmd has loaded another version:
// place N is /dev/nvidiaN.
var configlessConf, _ = filepath.Abs("testdata/conf-cache/slurm.conf")

// testBoot is the boot in which the tests run the hook: programs among them read it.
var testBoot, _ = rundir.BootID("/")

// run runs the hook in this process as its program would with these arguments.
func run(ctx context.Context, args []string, env func(string) string, stderr io.Writer) int {
	o := Options{Verb: args[0], BootID: testBoot, Env: func(key string) string {
		if value := env(key); value != "" || key != "SLURM_CONF" {
			return value
		}
		return configlessConf
	}, Stderr: stderr, LookUp: noNames}
	for rest := args[1:]; len(rest) > 0; rest = rest[2:] {
		switch rest[0] {
		case "--run-dir":
			o.RunDir = rundir.Dir(rest[1])
		case "--mapping-dir":
			o.MappingDir = rest[1]
		case "--wait":
			o.Wait, _ = time.ParseDuration(rest[1])
		}
	}
	return Run(ctx, o)
}

// allGPUs is a gres.conf in which place N is /dev/nvidiaN.
const allGPUs = "Name=gpu File=/dev/nvidia[0-63]\n"

// confOf writes a gres.conf and an empty slurm.conf into a new folder of this name, and returns the
// path of slurm.conf.
func confOf(t testing.TB, folder, gresConf string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), folder)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"slurm.conf": "", "gres.conf": gresConf} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "slurm.conf")
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

func TestHookConfig(t *testing.T) {
	run, dir := t.TempDir(), filepath.Join(t.TempDir(), "map")
	if err := rundir.Dir(run).WriteHookConfig(rundir.HookConfig{MappingDir: dir}); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "3"}
	call(t, env, "prolog", "--run-dir", run)
	if diff := cmp.Diff(map[string]string{"3": "7\n"}, mapped(t, dir)); diff != "" {
		t.Error(diff)
	}
	call(t, env, "epilog", "--run-dir", run)
	if diff := cmp.Diff(map[string]string{"3": "\n"}, mapped(t, dir)); diff != "" {
		t.Error(diff)
	}
	// A newer agent's gate may wait longer than this hook takes.
	newer := fmt.Sprintf(`{"apiVersion":%q,"kind":"HookConfig","mappingDir":%q,"gate":{"wait":"2h"}}`, topology.APIVersion, dir)
	if err := os.WriteFile(filepath.Join(run, rundir.HookConfigFile), []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, said := call(t, env, "prolog", "--run-dir", run); !strings.Contains(said, "gate.wait 2h0m0s: want") {
		t.Errorf("said %q", said)
	}
	if diff := cmp.Diff(map[string]string{"3": "7\n"}, mapped(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// TestNotRegular has a named pipe wherever the hook reads: it must not wait for
// a writer.
func TestNotRegular(t *testing.T) {
	for _, tt := range []struct{ name, said string }{
		{"map/0", "regular file"},
		{"map/.quoin/boot", ""},
		{"run/inventory.json", "regular file"},
		{"run/hook.json", "regular file"},
		{"run/jobs/7.json", "regular file"},
		{"run/marks/0-7-.json", "regular file"},
		{"run/lock", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			pipe := filepath.Join(dir, tt.name)
			if err := os.MkdirAll(filepath.Dir(pipe), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(pipe, 0o644); err != nil {
				t.Fatal(err)
			}
			env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1"}
			var said string
			for _, verb := range []string{"prolog", "epilog"} {
				done := make(chan string, 1)
				go func() {
					_, s := call(t, env, verb, "--run-dir", filepath.Join(dir, "run"), "--mapping-dir", filepath.Join(dir, "map"))
					done <- s
				}()
				select {
				case s := <-done:
					said += s
				case <-time.After(3 * time.Minute):
					t.Fatalf("%s hangs", verb)
				}
				want := map[string]string{"prolog": "7\n", "epilog": "\n"}[verb]
				if text, err := os.ReadFile(filepath.Join(dir, "map/1")); string(text) != want {
					t.Errorf("after the %s the other GPU's file holds %q, %v", verb, text, err)
				}
			}
			if !strings.Contains(said, tt.said) {
				t.Errorf("said %q, want %q", said, tt.said)
			}
		})
	}
}

// TestBoot has labels from before a boot, and two slurmds with run directories
// of their own over one mapping directory.
func TestBoot(t *testing.T) {
	dir, one, two := t.TempDir(), t.TempDir(), t.TempDir()
	hook := func(verb, run, job, gpus string) string {
		_, said := call(t, map[string]string{"SLURM_JOB_ID": job, "SLURM_JOB_GPUS": gpus}, verb, "--run-dir", run, "--mapping-dir", dir)
		return said
	}
	hook("prolog", one, "7", "0,1")
	hook("prolog", two, "8", "2")
	if diff := cmp.Diff(map[string]string{"0": "7\n", "1": "7\n", "2": "8\n"}, mapped(t, dir)); diff != "" {
		t.Fatalf("before the boot (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(filepath.Join(dir, ".quoin/boot"), []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := hook("prolog", t.TempDir(), "9", "1"); !strings.Contains(said, "released GPUs 0, 1, 2 of earlier jobs") {
		t.Errorf("said %q", said)
	}
	if diff := cmp.Diff(map[string]string{"0": "\n", "1": "9\n", "2": "\n"}, mapped(t, dir)); diff != "" {
		t.Errorf("after the boot (-want +got):\n%s", diff)
	}
	// An Epilog of a job without GPUs makes no mapping directory.
	missing := filepath.Join(dir, "missing")
	call(t, map[string]string{"SLURM_JOB_ID": "7"}, "epilog", "--run-dir", one, "--mapping-dir", missing)
	if _, err := os.Stat(missing); err == nil {
		t.Error("an Epilog has made a mapping directory")
	}
}

// TestSlurmUpgraded has a Slurm between Prolog and Epilog that says more.
func TestSlurmUpgraded(t *testing.T) {
	run, dir := t.TempDir(), t.TempDir()
	env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "SLURM_JOB_START_TIME": "100"}
	call(t, env, "prolog", "--run-dir", run, "--mapping-dir", dir)
	env["SLURM_JOB_SLUID"] = "s1"
	call(t, env, "epilog", "--run-dir", run, "--mapping-dir", dir)
	if diff := cmp.Diff(map[string]string{"0": "\n"}, mapped(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestUmask(t *testing.T) {
	tmp := t.TempDir()
	buildHook(t, filepath.Join(tmp, "quoin-hook"))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `umask 077; cd "$1"; SLURM_JOB_ID=7 SLURM_JOB_GPUS=0 SLURM_CONF="$2" ./quoin-hook prolog --run-dir a/run --mapping-dir b/map`, "sh", tmp, configlessConf)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]os.FileMode{"a": 0o755, "a/run": 0o755, "a/run/jobs": 0o750, "a/run/jobs/7.json": 0o640, "b": 0o755, "b/map": 0o755, "b/map/.quoin": 0o755, "b/map/0": 0o644} {
		info, err := os.Stat(filepath.Join(tmp, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s: mode %s, want %s", name, info.Mode(), want)
		}
	}
}

// TestSize keeps the hook quick to load on nodes that boot from a network.
func TestSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quoin-hook")
	buildHook(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 3.3e6 {
		t.Errorf("quoin-hook has %d bytes, want 3.3 MB at most", info.Size())
	}
}

// TestNeverFailsAJob has everything wrong that can be: the job goes on.
func TestNeverFailsAJob(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, rundir.InventoryFile), []byte("{"), 0o600); err != nil {
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
		{"bad job id", []string{"prolog", "--run-dir", t.TempDir()}, map[string]string{"SLURM_JOB_ID": "7\n8"}, "job id"},
		{"bad GPU list", []string{"prolog", "--run-dir", t.TempDir(), "--mapping-dir", t.TempDir()}, map[string]string{"SLURM_JOB_GPUS": "x"}, "GPU indices"},
		{"what older Slurm says of a job without device files", []string{"prolog", "--run-dir", t.TempDir(), "--mapping-dir", t.TempDir()}, map[string]string{"SLURM_JOB_GPUS": "NoDevFiles"}, "GPU indices"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0"}
			maps.Copy(env, tt.env)
			if code, said := call(t, env, tt.args...); code != 0 || !strings.Contains(said, tt.said) {
				t.Errorf("exit %d, said %q, want %q", code, said, tt.said)
			}
		})
	}
}
