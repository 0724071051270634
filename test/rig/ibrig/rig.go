package ibrig

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/test/rig/cache"
	"github.com/quoin-hpc/quoin/test/rig/debian"
)

//go:embed discover.sh
var discoverScript string

// Build returns the folder with the programs, and fetches them when they are not there.
func Build(ctx context.Context) (string, error) {
	return debian.Unpack(ctx, "infiniband", "ibsim-utils", "infiniband-diags")
}

// maxPorts is the most ports that InfiniBand knows.
const maxPorts = 254

// discoverTime bounds a simulation.
const discoverTime = 3 * time.Minute

// Discover lets the real ibsim simulate a fabric, and returns what the real ibnetdiscover says in it: at
// one node of each part that cables join, in the order of the nodes. It works in dir.
func Discover(ctx context.Context, dir string, f *Fabric) ([]string, error) {
	tree, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	fail := func(err error) ([]string, error) { return nil, fmt.Errorf("simulate a fabric: %w", err) }
	if err := os.WriteFile(filepath.Join(dir, "net"), f.net(), 0o600); err != nil {
		return fail(err)
	}
	ports := 0
	for _, e := range f.ends {
		if e.ports > maxPorts {
			return fail(fmt.Errorf("%s has %d ports, want %d at most", e.description, e.ports, maxPorts))
		}
		ports += e.ports + 1
	}
	hosts := f.hosts()
	args := append([]string{"-c", discoverScript, "discover.sh", tree, dir, strconv.Itoa(len(f.ends)), strconv.Itoa(len(f.Switches)), strconv.Itoa(ports)}, hosts...)
	ctx, cancel := context.WithTimeout(ctx, discoverTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", args...)
	cmd.Dir = dir // ibnetdiscover makes a folder there, by its process id
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+debian.Libraries(tree))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fail(fmt.Errorf("%w\n%s", err, said.Bytes()))
	}
	texts := make([]string, len(hosts))
	for i := range texts {
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return fail(err)
		}
		texts[i] = string(text)
	}
	return texts, nil
}

// DiscoverTest is Discover for a test. A short run skips the test; a simulation that fails fails it.
func DiscoverTest(t testing.TB, f *Fabric) []string {
	t.Helper()
	cache.NeedTest(t, "ibnetdiscover", Build)
	cache.NeedRoot(t)
	texts, err := Discover(t.Context(), t.TempDir(), f)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
