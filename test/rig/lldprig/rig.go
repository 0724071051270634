// Package lldprig lets Debian's real lldpd say what a node is told by its switches, for tests: each
// has an lldpd in a network namespace of its own.
package lldprig

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/test/rig/debian"
	"github.com/quoin-hpc/quoin/test/rig/need"
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

// Neighbours returns what lldpcli -f json show neighbors prints on a node with some cables, when it
// has been told of each. It works in dir.
func Neighbours(ctx context.Context, dir string, cables ...Cable) ([]byte, error) {
	tree, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, c := range cables {
		args = append(args, c.Interface, c.Switch, c.MAC, c.Port)
	}
	if err := debian.Script(ctx, neighboursScript, tree, dir, unix.CLONE_NEWNS, args...); err != nil {
		return nil, fmt.Errorf("ask lldpd for its neighbours: %w", err)
	}
	return os.ReadFile(filepath.Join(dir, "neighbours.json"))
}

// NeighboursTest is Neighbours for a test. A short run skips the test; an lldpd that does not start
// fails it.
func NeighboursTest(t testing.TB, cables ...Cable) []byte {
	t.Helper()
	need.Rig(t, "lldpd", Build)
	need.Root(t)
	out, err := Neighbours(t.Context(), t.TempDir(), cables...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
