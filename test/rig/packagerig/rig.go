// Package packagerig installs packages into an empty folder by Debian's real dpkg and rpm, for tests.
// It runs as root, because both programs change the root folder for the scripts of packages.
package packagerig

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/debian"
	"github.com/quoin-hpc/quoin/test/rig/need"
	"github.com/quoin-hpc/quoin/test/rig/process"
)

// Build returns the folder with rpm and a shell, and fetches them when they are not there.
func Build(ctx context.Context) (string, error) {
	return debian.Unpack(ctx, "packages", "rpm", "busybox-static")
}

// Root is a folder that packages are installed into. It has a shell for their scripts, and in place
// of systemd's programs some that write down how they were called.
type Root struct {
	Dir  string
	t    *testing.T
	tree string
	own  map[string]bool // the files that no package has
}

// calls is the file of a root that has the calls of systemd's programs.
const calls = "calls"

// New returns a root where nothing is installed.
func New(t *testing.T) *Root {
	t.Helper()
	need.Rig(t, "rpm", Build)
	need.Root(t)
	tree, err := Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &Root{Dir: t.TempDir(), t: t, tree: tree}
	for _, dir := range []string{"bin", "dev", "etc", "var/tmp", "run/systemd/system", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/rpm"} {
		if err := os.MkdirAll(r.Path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	shell, err := os.ReadFile(filepath.Join(tree, "bin/busybox"))
	if err != nil {
		t.Fatal(err)
	}
	const record = "#!/bin/sh\necho ${0##*/} \"$@\" >>/" + calls + "\n"
	for name, text := range map[string]string{"bin/sh": string(shell), "bin/rm": string(shell), "bin/systemctl": record, "bin/systemd-sysusers": record,
		"var/lib/dpkg/status": "", "var/lib/dpkg/available": "", "etc/passwd": "root:x:0:0::/:/bin/sh\n", "etc/group": "root:x:0:\n", "dev/null": "", calls: ""} {
		if err := os.WriteFile(r.Path(name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.own = map[string]bool{}
	for path := range r.walk() {
		r.own[path] = true
	}
	return r
}

// Path is the path of a file of the root on this machine.
func (r *Root) Path(name string) string { return filepath.Join(r.Dir, name) }

// Dpkg runs dpkg on the root, where the packages that others depend on are missing.
func (r *Root) Dpkg(args ...string) string {
	r.t.Helper()
	// A machine that is a container may leave out documentation.
	return r.run(nil, "dpkg", append([]string{"--root=" + r.Dir, "--log=" + os.DevNull, "--force-depends", "--path-include=/*"}, args...)...)
}

// RPM runs rpm on the root, where the packages that others depend on are missing.
func (r *Root) RPM(args ...string) string {
	r.t.Helper()
	return r.run([]string{"LD_LIBRARY_PATH=" + debian.Libraries(r.tree), "RPM_CONFIGDIR=" + filepath.Join(r.tree, "usr/lib/rpm")},
		filepath.Join(r.tree, "usr/bin/rpm"), append([]string{"--root", r.Dir, "--dbpath", "/var/lib/rpm"}, args...)...)
}

func (r *Root) run(env []string, name string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), name, args...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	out, err := process.Output(cmd)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// Calls returns how systemd's programs were called since the last time.
func (r *Root) Calls() string {
	r.t.Helper()
	text, err := os.ReadFile(r.Path(calls))
	if err == nil {
		err = os.Truncate(r.Path(calls), 0)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// Installed returns what packages have installed: the mode of each file and folder.
func (r *Root) Installed() map[string]fs.FileMode {
	r.t.Helper()
	all := r.walk()
	for path := range all {
		if r.own[path] || strings.HasPrefix(path, "/var/lib/dpkg/") || strings.HasPrefix(path, "/var/lib/rpm/") {
			delete(all, path)
		}
	}
	return all
}

func (r *Root) walk() map[string]fs.FileMode {
	r.t.Helper()
	all := map[string]fs.FileMode{}
	err := filepath.WalkDir(r.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all[strings.TrimPrefix(path, r.Dir)] = info.Mode()
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}
