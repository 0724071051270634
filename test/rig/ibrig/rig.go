package ibrig

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/debian"
	"github.com/quoin-hpc/quoin/test/rig/need"
)

//go:embed discover.sh
var discoverScript string

// Build returns the folder with the programs, and fetches them when they are not there.
func Build(ctx context.Context) (string, error) {
	return debian.Unpack(ctx, "infiniband", "ibsim-utils", "infiniband-diags")
}

// maxPorts is the most ports that InfiniBand knows.
const maxPorts = 254

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
	args := append([]string{strconv.Itoa(len(f.ends)), strconv.Itoa(len(f.Switches)), strconv.Itoa(ports)}, hosts...)
	if err := debian.Script(ctx, discoverScript, tree, dir, 0, args...); err != nil {
		return fail(err)
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
	need.Rig(t, "ibnetdiscover", Build)
	need.Root(t)
	texts, err := Discover(t.Context(), t.TempDir(), f)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
