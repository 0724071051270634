// Package setup_test tests the scripts that look whether a machine can do what a make target asks.
package setup_test

import (
	"bytes"
	"errors"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// basics are the programs of the scripts that every machine has. Nothing else of the real machine is
// in the path of a test.
var basics = []string{"awk", "bash", "cat", "cut", "dirname", "du", "id", "mkdir", "mktemp", "paste", "rm", "sed", "sort", "stat", "tail", "timeout", "tr"}

// all are the tools of make setup.
var all = []string{"make", "gcc", "mmdebstrap", "nsenter", "ip", "setsid", "chromium", "zsh"}

// machine is a simulated machine: scripts in a folder that is the whole path.
type machine struct {
	t   *testing.T
	dir string
	env []string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	m.env = []string{"PATH=" + m.path("bin"), "XDG_CACHE_HOME=" + m.path("cache"), "TMPDIR=" + t.TempDir()}
	if err := os.Mkdir(m.path("bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range basics {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, m.path("bin/"+name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m.program("uname", "echo x86_64")
	m.program("id", "echo 0")
	m.program("stat", "echo tmpfs")
	m.program("df", "echo '  Avail Mounted on'; echo '100000 /disk'")
	m.program("go", `case "$*" in
"env GOCACHE") echo `+m.path("build")+`;;
"env GOMODCACHE") echo `+m.path("modules")+`;;
"env GOPROXY") echo proxy.example;;
"run "*) echo "go $*";;
esac`)
	for _, name := range all {
		m.program(name, "")
	}
	m.program("apt-get", `[ "$1" != indextargets ] || echo mirror.example
echo "apt-get $*" >>`+m.path("apt"))
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// program replaces a program by a script.
func (m *machine) program(name, script string) {
	m.t.Helper()
	m.remove(name)
	if err := os.WriteFile(m.path("bin/"+name), []byte("#!/bin/bash\n"+script+"\n"), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// without is a program that does not do one thing, and says why. It does everything else.
func (m *machine) without(name, args, why string) {
	m.t.Helper()
	text, err := os.ReadFile(m.path("bin/" + name))
	if err != nil {
		m.t.Fatal(err)
	}
	m.program(name, `case "$*" in `+args+`) echo "`+why+`" >&2; exit 1;; esac`+"\n"+string(text))
}

func (m *machine) remove(names ...string) {
	m.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(m.path("bin/" + name)); err != nil {
			m.t.Fatal(err)
		}
	}
}

// built fills the cache folder with what make setup builds.
func (m *machine) built() {
	m.t.Helper()
	for _, name := range []string{"slurm-forky-rest", "slurm-trixie", "debian-prometheus", "debian-infiniband", "debian-lldp", "debian-packages", "box-base-0123456789ab", "rig-gotestsum-0123456789ab", "rig-etcd-0123456789ab", "rig-helm-0123456789ab",
		"rig-computedomain-0123456789ab", "rig-computedomain05-0123456789ab", "rig-kubernetes-0123456789ab"} {
		if err := os.MkdirAll(m.path("cache/quoin/"+name), 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
}

// run runs a script of this repository. It returns what the script said, and whether it ended well.
func (m *machine) run(script string, args ...string) (string, bool) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), filepath.Join("..", script), args...)
	cmd.Env = m.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	return strings.ReplaceAll(out.String(), m.dir, "DIR"), err == nil
}

// asked returns what apt-get was asked for, one call a line.
func (m *machine) asked() string {
	text, _ := os.ReadFile(m.path("apt")) // which is not there if apt-get did not run
	return string(text)
}

func TestNeed(t *testing.T) {
	const install = "To install, as root: apt-get update && apt-get install -y --no-install-recommends "
	newer := "Install Go " + goVersion(t) + " or newer: https://go.dev/doc/install"
	for _, tt := range []struct {
		name, tools string
		change      func(m *machine)
		want        string
	}{
		{"all there", "go gcc git", func(m *machine) { m.program("git", "") }, ""},
		{"one", "go gcc git", nil, "make x: missing: git. " + install + "git\n"},
		{"several", "gcc aarch64-linux-gnu-gcc mmdebstrap", func(m *machine) { m.remove("gcc", "mmdebstrap") },
			"make x: missing: gcc aarch64-linux-gnu-gcc mmdebstrap. " + install + "gcc gcc-aarch64-linux-gnu libc6-dev libc6-dev-arm64-cross mmdebstrap\n"},
		{"the machine's own compiler", "x86_64-linux-gnu-gcc", nil, "make x: missing: x86_64-linux-gnu-gcc. " + install + "gcc libc6-dev\n"},
		{"gcc without headers", "gcc", func(m *machine) { m.program("gcc", "exit 1") }, "make x: missing: gcc. " + install + "gcc libc6-dev\n"},
		{"no apt-get", "git", func(m *machine) { m.remove("apt-get") }, "make x: missing: git. Debian has this in the packages git\n"},
		{"no Go", "go gofmt", func(m *machine) { m.remove("go") }, "make x: go is missing. " + newer + "\nmake x: gofmt is missing. " + newer + "\n"},
		{"Go is too old", "go", func(m *machine) {
			m.without("go", `"list -m"`, "go: go.mod requires go >= 1.26.7 (running go 1.25.0; GOTOOLCHAIN=local)")
		},
			"make x: go: go.mod requires go >= 1.26.7 (running go 1.25.0; GOTOOLCHAIN=local). " + newer + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			if tt.change != nil {
				tt.change(m)
			}
			out, ok := m.run("testdata/need.sh", append([]string{"make x"}, strings.Fields(tt.tools)...)...)
			if diff := cmp.Diff(tt.want, out); diff != "" || ok != (tt.want == "") {
				t.Errorf("ended well: %v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// TestSetup shows that make setup names what a machine lacks, and installs nothing before.
func TestSetup(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(m *machine)
		want   []string // lines, in order; * stands for anything
	}{
		{"not root", func(m *machine) { m.built(); m.program("id", "echo 1000") }, []string{"setup: this user is not root, *: run this as root. make short needs no root"}},
		{"no apt", func(m *machine) { m.built(); m.remove("apt-get", "mmdebstrap") }, []string{"setup: apt-get is missing, and it has to bring the packages *mmdebstrap: run this on a Debian machine"}},
		{"no apt, nothing built", func(m *machine) { m.remove("apt-get") }, []string{"setup: apt-get is missing, and it has to bring *two releases of Slurm, Prometheus, ibnetdiscover, lldpd, rpm, the base of Quoin's image: run this on a Debian machine"}},
		{"cache folder cannot be written", func(m *machine) { m.built(); m.env = append(m.env, "XDG_CACHE_HOME="+m.path("bin/go")) },
			[]string{"setup: cannot write in DIR/bin/go/quoin: set XDG_CACHE_HOME to a folder that this user can write in"}},
		{"full disk", func(m *machine) { m.built(); m.program("df", "echo; echo '7 /disk'") },
			[]string{"setup: /disk has 7 MB left, and * MB are needed for DIR/cache/quoin (XDG_CACHE_HOME), DIR/build (GOCACHE): make room, or *"}},
		{"small disk, nothing built", func(m *machine) { m.program("df", "echo; echo '9000 /disk'"); m.without("go", `"list -deps "*`, "") },
			[]string{"setup: /disk has 9000 MB left, and 13000 MB are needed for DIR/cache/quoin (XDG_CACHE_HOME), DIR/build (GOCACHE), DIR/modules (GOMODCACHE): make room, or *"}},
		{"no Go modules and no proxy", func(m *machine) { m.built(); m.without("go", `"list -deps "*|"list -m "*@*`, "no route") },
			[]string{"setup: cannot reach the Go module proxy (GOPROXY=proxy.example), and DIR/modules lacks modules that the tests need: no route"}},
		{"no modules of a rig and no proxy", func(m *machine) { m.without("go", `"list -deps go.etcd.io"*|"list -m "*@*`, "no route") },
			[]string{"setup: cannot reach the Go module proxy (GOPROXY=proxy.example), *: no route"}},
		{"no mirror", func(m *machine) { m.without("apt-get", `download*`, "E: cannot resolve") },
			[]string{"setup: cannot fetch from Debian's mirrors (mirror.example), which have to bring *two releases of Slurm, Prometheus, ibnetdiscover, lldpd, rpm, the base of Quoin's image: E: cannot resolve"}},
		{"two things", func(m *machine) { m.program("id", "echo 1000"); m.remove("apt-get") },
			[]string{"setup: this user is not root, *", "setup: apt-get is missing, *"}},
		{"no Go", func(m *machine) { m.remove("go") }, []string{"setup: go is missing. *"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			tt.change(m)
			out, ok := m.run("testdata/setup.sh")
			pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.Join(tt.want, "\n")+"\n"), `\*`, ".*")
			if ok || !regexp.MustCompile("^"+pattern+"$").MatchString(out) {
				t.Errorf("ended well: %v; said:\n%swant:\n%s", ok, out, strings.Join(tt.want, "\n"))
			}
			if strings.Contains(m.asked(), "install ") {
				t.Errorf("apt-get was asked to install: %s", m.asked())
			}
		})
	}
}

// TestSetupInstalls shows that a bare machine gets its packages, that no network is asked if Go's
// cache has all modules, and that the second run asks nobody.
func TestSetupInstalls(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.remove("mmdebstrap", "ip")
	m.without("go", `"list -m "*@*`, "no route")
	if out, ok := m.run("testdata/setup.sh"); !ok || out != "" {
		t.Fatalf("setup.sh: %v: %s", ok, out)
	}
	if want := regexp.MustCompile(`(?m)^apt-get install -y -qq --no-install-recommends .*iproute2 mmdebstrap$`); !want.MatchString(m.asked()) {
		t.Errorf("apt-get was asked:\n%swant %s", m.asked(), want)
	}
	if _, err := os.Stat("/usr/share/fonts/truetype/dejavu"); err != nil && testing.Short() {
		t.Skip("needs the fonts of make setup, for which the script would ask again")
	}
	m.built()
	m.program("mmdebstrap", "")
	m.program("ip", "")
	m.without("apt-get", "*", "nobody is to ask")
	if out, ok := m.run("testdata/setup.sh"); !ok || out != "" {
		t.Errorf("the second time: %v: %s", ok, out)
	}
}

// TestImage runs make image and make packages where compilers are missing: they build for the
// architectures that they can, and name the others. make release takes both, and a tree without changes.
func TestImage(t *testing.T) {
	const left = "arm64 is left out: missing: aarch64-linux-gnu-gcc. To install, as root: apt-get update && apt-get install -y --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross\n"
	const both = "x86_64-linux-gnu-gcc aarch64-linux-gnu-gcc"
	for _, tt := range []struct {
		name, compilers string
		args            []string
		ok              bool
		want            string
		changed         string // as git status says it
	}{
		{"both", both, []string{"image"}, true, "go run . -arch amd64,arm64 image\n", ""},
		{"packages", both, []string{"packages"}, true, "go run . -arch amd64,arm64 packages\n", ""},
		{"one is left out", "x86_64-linux-gnu-gcc", []string{"image"}, true, left + "go run . -arch amd64 image\n" + left, ""},
		{"the machine's own cannot be left out", "aarch64-linux-gnu-gcc", []string{"image"}, false, "make image: missing: x86_64-linux-gnu-gcc. *\n", ""},
		{"one that was asked for", both, []string{"image", "arm64"}, true, "go run . -arch arm64 image\n", ""},
		{"both were asked for", "x86_64-linux-gnu-gcc", []string{"packages", "amd64,arm64"}, false, "make packages: missing: aarch64-linux-gnu-gcc. *\n", ""},
		{"no such architecture", both, []string{"image", "riscv64"}, false, "ARCH=riscv64: want amd64, arm64, or both with a comma\n", ""},
		{"a release", both, []string{"release"}, true, "go run . -fresh -out bin/release -arch amd64,arm64 image packages programs chart manifests sums\n", ""},
		{"a release needs both", "x86_64-linux-gnu-gcc", []string{"release"}, false, "make release: missing: aarch64-linux-gnu-gcc. *\n", ""},
		{"a release of what is not committed", both, []string{"release"}, false,
			"make release: these files differ from the commit. Commit them, or put them aside:\n M README.md\n?? new.go\n", " M README.md\n?? new.go\n!! bin/"},
		{"a release with a file that git ignores", both, []string{"release"}, false,
			"make release: these files differ from the commit. Commit them, or put them aside:\n!! manifests/x.out\n", "!! bin/\n!! manifests/x.out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			for name := range strings.FieldsSeq(tt.compilers) {
				m.program(name, "")
			}
			m.program("git", "printf '%s' '"+tt.changed+"'")
			out, ok := m.run("manifests/image/make.sh", tt.args...)
			pattern := strings.ReplaceAll(regexp.QuoteMeta(tt.want), `\*`, ".*")
			if ok != tt.ok || !regexp.MustCompile("^"+pattern+"$").MatchString(out) {
				t.Errorf("ended well: %v; said:\n%swant:\n%s", ok, out, tt.want)
			}
		})
	}
}

// read returns a file of this repository.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTargets shows that pages name targets that are there, and that each target is on a page
// and in make help.
func TestTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	var targets, named []string
	for _, m := range regexp.MustCompile(`(?m)^\.PHONY: ([a-z0-9-]+)$`).FindAllStringSubmatch(makefile, -1) {
		targets = append(targets, m[1])
		if !regexp.MustCompile(`(?m)^` + m[1] + `:.*## `).MatchString(makefile) {
			t.Errorf("make help does not explain %s", m[1])
		}
	}
	for _, path := range []string{"README.md", "CONTRIBUTING.md", "test/README.md"} {
		for _, m := range regexp.MustCompile("(?m)(?:`|^    )make ([a-z0-9-]+)").FindAllStringSubmatch(read(t, path), -1) {
			if !slices.Contains(targets, m[1]) {
				t.Errorf("%s names make %s, which is no target", path, m[1])
			}
			named = append(named, m[1])
		}
	}
	for _, target := range targets {
		if !slices.Contains(named, target) {
			t.Errorf("no page names make %s", target)
		}
	}
}

// goVersion returns the Go that go.mod asks for.
func goVersion(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, "go.mod"))
	if m == nil {
		t.Fatal("go.mod has no go line")
	}
	return m[1]
}

// TestGoVersion shows that one Go is enough for everything: pages and the Dockerfile name the Go of
// go.mod, and no other module of this repository asks for a newer one.
func TestGoVersion(t *testing.T) {
	want := goVersion(t)
	for _, path := range []string{"README.md", "CONTRIBUTING.md"} {
		if !strings.Contains(read(t, path), "Go "+want+" or newer") {
			t.Errorf("%s does not say Go %s or newer, as go.mod does", path, want)
		}
	}
	release := want[:strings.LastIndex(want, ".")]
	if !strings.Contains(read(t, "manifests/image/Dockerfile"), "golang:"+release+"-") {
		t.Errorf("the Dockerfile does not begin with golang:%s, the release of go.mod", release)
	}
	modules, err := filepath.Glob("rig/*/go.mod")
	if err != nil || len(modules) == 0 {
		t.Fatalf("no modules of rigs: %v", err)
	}
	for _, path := range append(modules, "../manifests/image/go.mod") {
		text := read(t, filepath.Join("test", path))
		m := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(text)
		if m == nil || version.Compare("go"+m[1], "go"+want) > 0 {
			t.Errorf("%s asks for Go %v, and go.mod for %s", path, m, want)
		}
	}
}
