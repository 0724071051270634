// Package programs builds the repository's own programs for tests. A program is
// linked once for a state of the source, and kept in the user's cache.
package programs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/gofrs/flock"

	"github.com/quoin-hpc/quoin/test/rig/cache"
	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/put"
)

// The programs.
const (
	Quoin = "quoin"
	Hook  = "quoin-hook"
	Keep  = "keep"  // a machine of the box
	Pause = "pause" // of its pods
	IMEX  = "imex"  // of IMEX daemons, and nvidia-imex-ctl
	// Toolkit is the runtime of their containers with GPUs.
	Toolkit = "toolkit"
	Image   = "image" // which writes images and packages
)

// program says how a program is built. Static programs run in a Slurm rig, whose
// libraries are others.
type program struct {
	pkg    string
	static bool
	module string // its folder, if it is a module of its own
	box    bool   // only tests of the box run it
}

var all = map[string]program{
	Quoin:   {pkg: "./cmd/quoin"},
	Hook:    {pkg: "./cmd/quoin-hook", static: true},
	Keep:    {pkg: "./test/rig/boxrig/machine/keep", static: true, box: true},
	Pause:   {pkg: "./test/rig/boxrig/images/pause", static: true, box: true},
	IMEX:    {pkg: "./test/rig/nvidiaimex"},
	Toolkit: {pkg: "./test/rig/boxrig/images/toolkit", static: true, box: true},
	Image:   {pkg: ".", static: true, module: "manifests/image"},
}

// BuildAll builds the programs that tests outside the box run.
func BuildAll(ctx context.Context) error {
	for name, p := range all {
		if p.box {
			continue
		}
		if _, err := Build(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Built in the environment of a test says that the programs of all tests are current: who
// runs many tests builds the programs before the first of them.
const Built = "QUOIN_PROGRAMS_BUILT"

// current has the paths of the programs that this process has built.
var current struct {
	sync.Mutex
	paths map[string]string
}

// Build returns the path of a program. It is current when the process asks first.
func Build(ctx context.Context, name string) (string, error) {
	current.Lock()
	defer current.Unlock()
	if path, is := current.paths[name]; is {
		return path, nil
	}
	path, err := build(ctx, name)
	if err != nil {
		return "", err
	}
	if current.paths == nil {
		current.paths = map[string]string{}
	}
	current.paths[name] = path
	return path, nil
}

// build builds a program. Processes that ask at the same time build it one after the other.
func build(ctx context.Context, name string) (string, error) {
	p, is := all[name]
	if !is {
		return "", fmt.Errorf("build %s: no such program", name)
	}
	dir, err := Folder()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	flags := []string{"build", "-buildvcs=false", "-ldflags", "-s -w"}
	path := filepath.Join(dir, name)
	if detectsRaces && !p.static { // as the tests that run it do
		flags = append(flags, "-race")
		path += "-race"
	} else if !p.box && os.Getenv(Built) != "" {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	root, err := Root()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	lock := flock.New(path + ".lock")
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	defer lock.Unlock()
	// go build links nothing if the file at -o is current. Its flags are those of go test,
	// so that no package is compiled a second time.
	cmd := exec.CommandContext(ctx, "go", append(flags, "-o", path, p.pkg)...)
	cmd.Dir = filepath.Join(root, p.module)
	if p.static {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if _, err := process.Output(cmd); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return path, nil
}

// Folder is the folder of a checkout's programs, and of its tests.
func Folder() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(root))
	return cache.Path("programs-" + hex.EncodeToString(sum[:6])), nil
}

// Root is the checkout.
func Root() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("the source is not there")
	}
	return filepath.Join(filepath.Dir(file), "../../.."), nil
}

// Put puts a program at a path. It stays as it is if the source changes.
func Put(ctx context.Context, name, path string) error {
	from, err := Build(ctx, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	if os.Link(from, path) == nil {
		return nil
	}
	if err := copyFile(from, path); err != nil { // another file system
		return fmt.Errorf("put %s: %w", name, err)
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// PutTest puts programs into a folder for a test.
func PutTest(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := Put(t.Context(), name, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// QuoinTest puts quoin into a folder of its own for a test, and returns its path. Its memory is
// that of users, because it has no tests in it.
func QuoinTest(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	PutTest(t, dir, Quoin)
	return filepath.Join(dir, Quoin)
}

// PutIMEXCtl puts the stand-in of nvidia-imex-ctl into a folder. It refuses what the real program refuses. A shell script answers
// what it takes, by the same words, in the place of a daemon.
func PutIMEXCtl(t testing.TB, dir, script string) {
	t.Helper()
	path := filepath.Join(dir, "nvidia-imex-ctl")
	put.File(t, path+".says", script, 0o600)
	if _, err := os.Stat(path); err == nil {
		return
	}
	if err := Put(t.Context(), IMEX, path); err != nil {
		t.Fatal(err)
	}
}
