// Package modules builds programs of others from their Go modules, once, and keeps them
// in the user's cache. Each module is a folder beside this package's that has a go.mod
// and nothing else, so that this repository's own go.mod stays as it is.
package modules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/quoin-hpc/quoin/test/rig/cache"
)

// Kubernetes is the release that programs of Kubernetes say they are.
const Kubernetes = "v1.37.0"

// Module says what is built from a go.mod.
type Module struct {
	// Name is that of the folder.
	Name string
	// Programs has the package by the program's name.
	Programs map[string]string
	// Main is the source of a program of the module's own, whose package is ".".
	Main string
	// Env is for go build.
	Env []string
	// Source is the module whose files and folders Keep are kept too.
	Source string
	Keep   []string
}

// Folder returns the folder of the cache with the module's programs and files.
func (m Module) Folder(ctx context.Context) (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", fmt.Errorf("build %s: the source is not there", m.Name)
	}
	from := filepath.Join(filepath.Dir(filepath.Dir(file)), m.Name)
	key, err := m.key(from)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", m.Name, err)
	}
	return cache.Folder("rig-"+m.Name+"-"+key, func(staging string) error {
		if err := m.build(ctx, from, staging); err != nil {
			return fmt.Errorf("build %s: %w", m.Name, err)
		}
		return nil
	})
}

// key is of all that decides what is built.
func (m Module) key(from string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, Kubernetes, m.Programs, m.Env, m.Keep) // maps print sorted
	sum.Write([]byte(m.Main))
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return "", err
		}
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
}

func (m Module) build(ctx context.Context, from, staging string) error {
	work := from
	if m.Main != "" {
		var err error
		if work, err = m.ownProgram(from); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(work) }()
	}
	for name, pkg := range m.Programs {
		fmt.Fprintf(os.Stderr, "building %s (once)\n", name)
		if _, err := m.run(ctx, work, "build", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+Kubernetes,
			"-o", filepath.Join(staging, name), pkg); err != nil {
			return err
		}
	}
	return m.copySource(ctx, from, staging)
}

// ownProgram returns a folder with the go.mod and the source of the module's own program.
func (m Module) ownProgram(from string) (string, error) {
	dir, err := os.MkdirTemp("", "rig-"+m.Name+"-")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return "", err
		}
	}
	return dir, os.WriteFile(filepath.Join(dir, "main.go"), []byte(m.Main), 0o600)
}

// copySource copies what is kept of a module's source.
func (m Module) copySource(ctx context.Context, from, to string) error {
	if m.Source == "" {
		return nil
	}
	out, err := m.run(ctx, from, "mod", "download", "-json", m.Source)
	if err != nil {
		return err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return fmt.Errorf("read where %s is: %w", m.Source, err)
	}
	for _, name := range m.Keep {
		if err := os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(downloaded.Dir, name))); err != nil {
			return err
		}
	}
	return nil
}

func (m Module) run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off"), m.Env...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, exit.Stderr)
	} else if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	return out, nil
}
