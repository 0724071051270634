// Package promrig runs a real Prometheus and its promtool for tests: Debian's
// packages, unpacked into the user's cache and installed nowhere. It needs apt and
// Debian's package mirrors the first time. Everything it starts ends with the
// test process.
package promrig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"github.com/quoin-hpc/quoin/testdata/rig/cache"
)

// Build returns the folder with the programs, and fetches the package when none is
// there. A version that was fetched once stays; who wants another removes its
// folder. Processes that ask at the same time wait for one.
func Build(ctx context.Context) (string, error) {
	folder := cache.Path()
	if dir, ok := find(folder); ok {
		return dir, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("fetch Prometheus: %w", err)
	}
	lock := flock.New(cache.Path("prometheus.lock"))
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("fetch Prometheus: %w", err)
	}
	defer lock.Unlock()
	if dir, ok := find(folder); ok {
		return dir, nil
	}
	return fetch(ctx, folder)
}

// find returns the folder that was fetched last by name.
func find(folder string) (string, bool) {
	found, err := filepath.Glob(filepath.Join(folder, "prometheus-*", "usr/bin/promtool"))
	if err != nil || len(found) == 0 {
		return "", false
	}
	return filepath.Dir(slices.Max(found)), true
}

// fetch downloads and unpacks the packages of the machine's Debian release: one has
// both programs up to bookworm, each has its own since.
func fetch(ctx context.Context, folder string) (string, error) {
	work, err := os.MkdirTemp(folder, "fetch-")
	if err != nil {
		return "", fmt.Errorf("fetch Prometheus: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	tree := filepath.Join(work, "tree")
	version, err := unpack(ctx, work, tree, "prometheus")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(tree, "usr/bin/promtool")); errors.Is(err, fs.ErrNotExist) {
		if _, err := unpack(ctx, work, tree, "promtool"); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"prometheus", "promtool"} { // its libraries are there too
		if err := run(ctx, work, filepath.Join(tree, "usr/bin", name), "--version"); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(folder, "prometheus-"+version)
	if err := os.Rename(tree, dir); err != nil {
		return "", fmt.Errorf("fetch Prometheus: %w", err)
	}
	return filepath.Join(dir, "usr/bin"), nil
}

// unpack downloads a package into work and unpacks it into tree. It returns the
// package's version.
func unpack(ctx context.Context, work, tree, name string) (string, error) {
	if err := download(ctx, work, name); err != nil {
		return "", err
	}
	packages, err := filepath.Glob(filepath.Join(work, name+"_*.deb"))
	if err != nil || len(packages) != 1 {
		return "", fmt.Errorf("fetch Prometheus: apt-get download %s left %d packages in %s, want 1", name, len(packages), work)
	}
	if err := run(ctx, work, "dpkg", "-x", packages[0], tree); err != nil {
		return "", err
	}
	version, err := exec.CommandContext(ctx, "dpkg-deb", "-f", packages[0], "Version").Output()
	if err != nil {
		return "", fmt.Errorf("fetch Prometheus: read the version of %s: %w", packages[0], err)
	}
	return strings.TrimSpace(string(version)), nil
}

// download fetches a package; a bare machine has no package lists yet.
func download(ctx context.Context, dir, name string) error {
	fetch := []string{"-o", "APT::Sandbox::User=root", "download", name}
	first := run(ctx, dir, "apt-get", fetch...)
	if first == nil {
		return nil
	}
	if err := run(ctx, dir, "apt-get", "update", "-qq"); err != nil {
		return errors.Join(first, err)
	}
	return run(ctx, dir, "apt-get", fetch...)
}

func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch Prometheus: %s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
