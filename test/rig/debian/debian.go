// Package debian unpacks Debian's packages into the user's cache, for rigs whose programs need no
// installation. It needs apt and Debian's package mirrors the first time.
package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/test/rig/cache"
	"github.com/quoin-hpc/quoin/test/rig/process"
)

// Unpack returns the folder that has the files, but for usr/share, of some packages of the machine's Debian
// release, and of all that they depend on and the machine lacks. What was fetched once under a name stays:
// who wants it again removes the folder.
func Unpack(ctx context.Context, name string, packages ...string) (string, error) {
	return cache.Folder("debian-"+name, func(staging string) error {
		if err := fetch(ctx, staging, packages); err != nil {
			return fmt.Errorf("fetch %s: %w", strings.Join(packages, ", "), err)
		}
		return nil
	})
}

// fetch downloads packages, with those that they depend on and that are not installed, and unpacks
// them into a tree.
func fetch(ctx context.Context, tree string, packages []string) error {
	work, err := os.MkdirTemp("", "debian-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.Mkdir(filepath.Join(work, "partial"), 0o755); err != nil {
		return err
	}
	// Nothing is installed, so there is no reason to wait for who installs something.
	args := append([]string{"install", "-qq", "-y", "--no-install-recommends", "--reinstall", "--download-only", "-o", "Debug::NoLocking=true",
		"-o", "APT::Sandbox::User=root", "-o", "Dir::Cache::archives=" + work}, packages...)
	if first := run(ctx, "apt-get", args...); first != nil { // a bare machine has no package lists yet
		if err := run(ctx, "apt-get", "update", "-qq"); err != nil {
			return errors.Join(first, err)
		}
		if err := run(ctx, "apt-get", args...); err != nil {
			return err
		}
	}
	found, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(found) < len(packages) {
		return fmt.Errorf("apt-get left %d packages in %s, want %d or more", len(found), work, len(packages))
	}
	for _, path := range found {
		if err := run(ctx, "dpkg", "-x", path, tree); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(tree, "usr/share")) // no rig reads it, and it may be large
}

func run(ctx context.Context, name string, args ...string) error {
	_, err := process.Output(exec.CommandContext(ctx, name, args...))
	return err
}

// scriptTime bounds a script.
const scriptTime = 3 * time.Minute

// Script runs a script of bash in dir. It is the first process of new namespaces, for the network, for
// processes and for what flags name, so all that it starts ends with it. Its programs find the libraries of
// the tree. Its first two arguments are the tree and dir.
func Script(ctx context.Context, script, tree, dir string, flags uintptr, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, scriptTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", script, "bash", tree, dir}, args...)...)
	cmd.Dir = dir // programs such as ibnetdiscover make folders where they run
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+Libraries(tree))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags | unix.CLONE_NEWNET | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// Libraries returns the folders of a tree that have libraries, as LD_LIBRARY_PATH has them.
func Libraries(tree string) string {
	var folders []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*"} {
		found, _ := filepath.Glob(filepath.Join(tree, pattern)) // the pattern is well-formed
		folders = append(folders, found...)
	}
	return strings.Join(folders, ":")
}
