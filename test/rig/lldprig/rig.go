// Package lldprig lets Debian's real lldpd say what a node is told by its switches, for tests: each
// has an lldpd in a network namespace of its own.
package lldprig

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/test/rig/cache"
	"github.com/quoin-hpc/quoin/test/rig/debian"
)

//go:embed neighbours.sh
var neighboursScript string

// Build returns the folder with the programs, and fetches them when they are not there.
func Build(ctx context.Context) (string, error) {
	return debian.Unpack(ctx, "lldp", "lldpd")
}

// Cable is one between the node and a switch.
type Cable struct {
	// Interface is the node's. Two cables at one interface meet in a hub.
	Interface string
	// Switch is the name that the switch says, MAC and Port the address and the name of its port.
	// The address of the switch's first port is its chassis id.
	Switch, MAC, Port string
}

// neighboursTime bounds the time until the node has been told of all its cables.
const neighboursTime = 3 * time.Minute

// Neighbours returns what lldpcli -f json show neighbors prints on a node with some cables, when it
// has been told of each. It works in dir.
func Neighbours(ctx context.Context, dir string, cables ...Cable) ([]byte, error) {
	tree, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{"-c", neighboursScript, "neighbours.sh", tree, dir}
	for _, c := range cables {
		args = append(args, c.Interface, c.Switch, c.MAC, c.Port)
	}
	ctx, cancel := context.WithTimeout(ctx, neighboursTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+debian.Libraries(tree))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("ask lldpd for its neighbours: %w\n%s", err, said.Bytes())
	}
	return os.ReadFile(filepath.Join(dir, "neighbours.json"))
}

// NeighboursTest is Neighbours for a test. A short run skips the test; an lldpd that does not start
// fails it.
func NeighboursTest(t testing.TB, cables ...Cable) []byte {
	t.Helper()
	cache.NeedTest(t, "lldpd", Build)
	cache.NeedRoot(t)
	out, err := Neighbours(t.Context(), t.TempDir(), cables...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
