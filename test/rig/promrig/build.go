// Package promrig runs a real Prometheus and its promtool for tests: Debian's
// packages, unpacked into the user's cache and installed nowhere. It needs apt and
// Debian's package mirrors the first time. Everything it starts ends with the
// test process.
package promrig

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quoin-hpc/quoin/test/rig/debian"
)

// Build returns the folder with the programs, and fetches them when they are not there. Debian's package
// prometheus has both up to bookworm. Later releases have promtool in a package of its own.
func Build(ctx context.Context) (string, error) {
	tree, err := debian.Unpack(ctx, "prometheus", "prometheus")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(tree, "usr/bin")
	if _, err := os.Stat(filepath.Join(bin, "promtool")); !errors.Is(err, fs.ErrNotExist) {
		return bin, err
	}
	if tree, err = debian.Unpack(ctx, "promtool", "prometheus", "promtool"); err != nil {
		return "", err
	}
	return filepath.Join(tree, "usr/bin"), nil
}
