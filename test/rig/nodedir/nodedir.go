// Package nodedir gives the agent and the hook of a test a folder in place of the machine:
// no test reads or writes /run/quoin, DCGM Exporter's job mapping, or the processes, control
// groups and slurmd of the machine on which it runs.
package nodedir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Dir is the folder of one node.
type Dir string

const bootFile = "proc/sys/kernel/random/boot_id"

// New makes the folder of a node on which no slurmd runs. Its boot is the machine's, because
// the hook reads that one.
func New(t testing.TB, path string) Dir {
	t.Helper()
	d, err := Make(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Make is New outside a test.
func Make(path string) (Dir, error) {
	d := Dir(path)
	boot, err := os.ReadFile(filepath.Join("/", bootFile))
	if err != nil {
		return "", err
	}
	for _, dir := range []string{d.Mapping(), filepath.Join(d.Root(), "sys/fs/cgroup"), filepath.Join(d.Root(), "sys/class"), filepath.Dir(filepath.Join(d.Root(), bootFile))} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	return d, os.WriteFile(filepath.Join(d.Root(), bootFile), boot, 0o600)
}

// Run is the run directory, in which agent and hook meet. The agent makes it.
func (d Dir) Run() string { return filepath.Join(string(d), "run") }

// Mapping is DCGM Exporter's job mapping directory.
func (d Dir) Mapping() string { return filepath.Join(string(d), "map") }

// Root has the machine's proc and sys.
func (d Dir) Root() string { return filepath.Join(string(d), "root") }

// Config is the text of a configuration file for all of the machine.
func (d Dir) Config() string {
	return fmt.Sprintf("agent: {runDir: %s, mappingDir: %s, hostRoot: %s}\n", d.Run(), d.Mapping(), d.Root())
}

// Files are the settings of a quoin for the files that agent and hook share. They are for a
// machine that has a root of its own already, such as one of a loaded NVML.
func (d Dir) Files() []string {
	return []string{"--set", "agent.runDir=" + d.Run(), "--set", "agent.mappingDir=" + d.Mapping()}
}

// Settings are the settings of a quoin for all of the machine. A setting that comes after one
// of them takes its place.
func (d Dir) Settings() []string { return append(d.Files(), "--set", "agent.hostRoot="+d.Root()) }

// Hook are the flags of a quoin-hook.
func (d Dir) Hook() []string { return []string{"--run-dir", d.Run(), "--mapping-dir", d.Mapping()} }

// SlurmConf writes a gres.conf with these lines beside a slurm.conf, as a slurmd has them that got
// both from slurmctld, and returns what SLURM_CONF of its Prolog is.
func SlurmConf(t testing.TB, lines string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "conf-cache")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"slurm.conf": "GresTypes=gpu\n", "gres.conf": lines} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "slurm.conf")
}
