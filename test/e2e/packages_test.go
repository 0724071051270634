package e2e_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/test/rig/packagerig"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// packageNames are the files of a release for an architecture of Go.
func packageNames(arch string) (deb, rpm string) {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	return fmt.Sprintf("quoin_%s_%s.deb", version.Number, arch), fmt.Sprintf("quoin-%s-1.%s.rpm", version.Number, machine)
}

// contentsName is the file that says what the packages have.
func contentsName(arch string) string {
	return fmt.Sprintf("quoin-%s-%s-packages.spdx.json", version.Number, arch)
}

// makePackages makes the packages of architectures, and returns a folder with them.
func makePackages(t *testing.T, archs []string) string {
	t.Helper()
	dir := t.TempDir()
	makeParts(t, "../..", dir, "-arch", strings.Join(archs, ","), "packages")
	return dir
}

// installed are the files of both packages. Those of dpkg have the folders of the system beside them.
var installed = map[string]fs.FileMode{
	"/usr/bin/quoin":                                  0o755,
	"/usr/bin/kubectl-quoin":                          fs.ModeSymlink | 0o777,
	"/usr/lib/quoin":                                  fs.ModeDir | 0o755,
	"/usr/lib/quoin/quoin-hook":                       0o755,
	"/usr/lib/quoin/prolog":                           0o755,
	"/usr/lib/quoin/epilog":                           0o755,
	"/usr/lib/sysusers.d/quoin.conf":                  0o644,
	"/usr/lib/systemd/system/quoin-agent.service":     0o644,
	"/usr/lib/systemd/system/quoin-publisher.service": 0o644,
	"/usr/share/quoin":                                fs.ModeDir | 0o755,
	"/usr/share/quoin/quoin.yaml":                     0o644,
}

// systemFolders are those that every system has.
var systemFolders = []string{"/usr", "/usr/bin", "/usr/lib", "/usr/lib/sysusers.d", "/usr/lib/systemd", "/usr/lib/systemd/system", "/usr/share", "/usr/share/doc",
	"/usr/share/licenses", "/usr/share/lintian", "/usr/share/lintian/overrides"}

// wanted is the link of a unit that was enabled.
const wanted = "etc/systemd/system/multi-user.target.wants/quoin-agent.service"

// packagesInstall installs, upgrades and removes each package in an empty folder.
func packagesInstall(t *testing.T, dir string) {
	t.Helper()
	deb, rpm := packageNames(runtime.GOARCH)
	const restart = "systemctl daemon-reload\nsystemctl try-restart quoin-agent.service quoin-publisher.service\n"
	const afterInstall = "systemd-sysusers quoin.conf\n" + restart
	const stop = "systemctl stop quoin-agent.service quoin-publisher.service\n"
	const reload = "systemctl daemon-reload\n"
	for _, tt := range []struct {
		name, path                string
		more                      map[string]fs.FileMode
		install, upgrade, remove  func(r *packagerig.Root, path string) string
		afterUpgrade, afterRemove string
	}{
		{
			name: "deb", path: filepath.Join(dir, deb),
			more: map[string]fs.FileMode{"/usr/share/doc/quoin": fs.ModeDir | 0o755, "/usr/share/doc/quoin/copyright": 0o644, "/usr/share/doc/quoin/changelog.gz": 0o644, "/usr/share/lintian/overrides/quoin": 0o644},
			install: func(r *packagerig.Root, path string) string {
				return r.Dpkg("--install", path) + r.Dpkg("--verify", "quoin")
			},
			upgrade: func(r *packagerig.Root, path string) string { return r.Dpkg("--install", path) },
			remove:  func(r *packagerig.Root, _ string) string { return r.Dpkg("--purge", "quoin") },
			// The old release's last script runs before the new one's first.
			afterUpgrade: reload + afterInstall, afterRemove: stop + reload + reload,
		},
		{
			name: "rpm", path: filepath.Join(dir, rpm),
			more: map[string]fs.FileMode{"/usr/share/licenses/quoin": fs.ModeDir | 0o755, "/usr/share/licenses/quoin/LICENSE": 0o644},
			install: func(r *packagerig.Root, path string) string {
				return r.RPM("--nodeps", "--install", path) + r.RPM("--nodeps", "--verify", "quoin")
			},
			upgrade: func(r *packagerig.Root, path string) string {
				return r.RPM("--nodeps", "--upgrade", "--replacepkgs", path)
			},
			remove:       func(r *packagerig.Root, _ string) string { return r.RPM("--erase", "quoin") },
			afterUpgrade: afterInstall + reload, afterRemove: stop + reload,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := packagerig.New(t)
			step := func(name, said, wantCalls string) {
				t.Helper()
				t.Logf("%s: %s", name, said)
				if diff := cmp.Diff(wantCalls, r.Calls()); diff != "" {
					t.Errorf("calls of systemd's programs at the %s (-want +got):\n%s", name, diff)
				}
			}
			want := maps.Clone(installed)
			maps.Copy(want, tt.more)
			look := func() {
				t.Helper()
				got := r.Installed()
				maps.DeleteFunc(got, func(path string, _ fs.FileMode) bool {
					return slices.Contains(systemFolders, path) || strings.HasPrefix(path, "/etc/systemd")
				})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("installed (-want +got):\n%s", diff)
				}
			}
			step("installation", tt.install(r, tt.path), afterInstall)
			look()
			if out, err := exec.CommandContext(t.Context(), r.Path("usr/bin/kubectl-quoin"), "version").CombinedOutput(); err != nil || !strings.Contains(string(out), version.Number) {
				t.Errorf("kubectl-quoin version: %v\n%s", err, out)
			}
			for _, name := range []string{"prolog", "epilog"} {
				text, err := os.ReadFile(r.Path("usr/lib/quoin/" + name))
				if err != nil || !bytes.Contains(text, []byte("/usr/lib/quoin/quoin-hook")) || bytes.Contains(text, []byte("/opt/")) {
					t.Errorf("%s: %v\n%s", name, err, text)
				}
			}
			if err := os.MkdirAll(filepath.Dir(r.Path(wanted)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/usr/lib/systemd/system/quoin-agent.service", r.Path(wanted)); err != nil {
				t.Fatal(err)
			}
			step("upgrade", tt.upgrade(r, tt.path), tt.afterUpgrade)
			look()
			if _, err := os.Lstat(r.Path(wanted)); err != nil {
				t.Errorf("after an upgrade the unit is not enabled: %v", err)
			}
			step("removal", tt.remove(r, tt.path), tt.afterRemove)
			if _, err := os.Lstat(r.Path(wanted)); err == nil {
				t.Error("after the removal the unit is enabled")
			}
			for path := range want {
				if _, err := os.Lstat(r.Path(path)); err == nil {
					t.Errorf("after the removal %s is there", path)
				}
			}
		})
	}
}

// listed shows that a list of contents has each module of the programs once, and nothing else.
func listed(t *testing.T, path, built string) {
	t.Helper()
	var document struct {
		Packages []struct {
			ID   string `json:"SPDXID"`
			Refs []struct {
				Locator string `json:"referenceLocator"`
			} `json:"externalRefs"`
		}
		Relationships []struct {
			From string `json:"spdxElementId"`
			To   string `json:"relatedSpdxElement"`
		}
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"quoin@v" + version.Number: 1, "stdlib@" + strings.TrimPrefix(runtime.Version(), "go"): 1}
	for _, name := range []string{programs.Quoin, programs.Hook} {
		out, err := exec.CommandContext(t.Context(), "go", "version", "-m", filepath.Join(built, name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "dep" {
				want[fields[1]+"@"+fields[2]] = 1
			}
		}
	}
	got, ids, named := map[string]int{}, map[string]int{"SPDXRef-DOCUMENT": 1}, map[string]bool{}
	for _, p := range document.Packages {
		ids[p.ID]++
		for _, ref := range p.Refs {
			name := strings.TrimPrefix(strings.TrimPrefix(ref.Locator, "pkg:golang/"), "github.com/quoin-hpc/")
			got[strings.ReplaceAll(name, "%2B", "+")]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-go version -m +listed):\n%s", path, diff)
	}
	for _, r := range document.Relationships {
		named[r.From], named[r.To] = true, true
	}
	for id, n := range ids {
		if n != 1 || !named[id] {
			t.Errorf("%s: %d components have the id %s, which relations name: %v", path, n, id, named[id])
		}
	}
	if len(named) != len(ids) {
		t.Errorf("%s: relations name %d components of %d", path, len(named), len(ids))
	}
}

// runsOn shows that a program runs with the C library that the packages ask for, which is 2.34.
func runsOn(t *testing.T, path string) {
	t.Helper()
	program, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	symbols, err := program.ImportedSymbols()
	if err != nil || len(symbols) == 0 {
		t.Fatalf("%s: %d symbols, %v", path, len(symbols), err)
	}
	for _, s := range symbols {
		minor, isLibc := strings.CutPrefix(s.Version, "GLIBC_2.")
		minor, _, _ = strings.Cut(minor, ".")
		if n, err := strconv.Atoi(minor); isLibc && (err != nil || n > 34) {
			t.Errorf("%s needs %s of %s, which the packages do not ask for", s.Name, s.Version, s.Library)
		}
	}
}
