package machine_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/machine"
)

// held names the folder in which TestBoxHold holds a machine for another test.
const held = "QUOIN_BOX_HELD"

// TestBoxHold is the process that TestBoxEnds kills.
func TestBoxHold(t *testing.T) {
	dir := os.Getenv(held)
	if dir == "" {
		t.Skip("only for TestBoxEnds")
	}
	m, err := machine.Start(t.Context(), dir, "held")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Daemon(t.Context(), "sleep", "sh", "-c", "mkdir /sys/fs/cgroup/memory/inner && echo $$ >/sys/fs/cgroup/memory/inner/cgroup.procs && echo up >/tmp/up && exec sleep infinity"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the machine's process is in its group", func() bool { _, err := os.Stat(m.Path("/tmp/up")); return err == nil })
	_, _ = os.Stdout.WriteString("up\n")
	select {}
}

// TestBoxEnds kills a test that has a machine: nothing of the machine is left.
func TestBoxEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("needs namespaces")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBoxHold$")
	cmd.Env = append(os.Environ(), held+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Fatalf("the machine's test says %q: %v", line, err)
	}
	keeper := processes(t, filepath.Join(dir, "held"))
	if len(keeper) != 2 || len(groups(t, keeper)) == 0 {
		t.Fatalf("processes %v with groups %v", keeper, groups(t, keeper))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	await.Until(t, "the machine's folder is gone", func() bool { _, err := os.Stat(filepath.Join(dir, "held")); return os.IsNotExist(err) })
	await.Until(t, "the machine's processes are gone", func() bool { return len(processes(t, filepath.Join(dir, "held"))) == 0 })
	if diff := cmp.Diff([]string(nil), groups(t, keeper)); diff != "" {
		t.Errorf("control groups (-want +got):\n%s", diff)
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts: %v\n%s", err, mounts)
	}
}

// processes returns those with a text in an argument, other than zombies.
func processes(t *testing.T, text string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")) // it may end meanwhile
		if err == nil && slices.Contains(strings.Split(string(line), "\x00"), text) {
			out = append(out, pid)
		}
	}
	return out
}

// groups returns the control groups that the first of the processes has made.
func groups(t *testing.T, keeper []int) []string {
	t.Helper()
	if len(keeper) == 0 {
		return nil
	}
	name := "quoin-box-" + strconv.Itoa(slices.Min(keeper)) + "-"
	var out []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), name) {
			out = append(out, path)
		}
		return nil // groups of others come and go
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
