package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// makeParts makes parts of a release of a source without git.
func makeParts(t *testing.T, root, dir string, args ...string) {
	t.Helper()
	image, err := programs.Build(t.Context(), programs.Image)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), image, append([]string{"-out", dir}, args...)...)
	cmd.Dir, cmd.Env = filepath.Join(root, "manifests/image"), append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000", "GIT_DIR="+t.TempDir(), "GOFLAGS=-buildvcs=false")
	ran(t, cmd)
}

// elsewhere copies what the parts of a release are made of, without the programs. The files of the copy
// have other times and rights.
func elsewhere(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "manifests"), os.DirFS("../../manifests")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"LICENSE", "cmd/version/version.go", "CHANGELOG.md", "FIGURES.md", "REASONS.md", "SECURITY.md", "cmd/quoin/METRICS.md", "topology/README.md"} {
		copyFile(t, filepath.Join("../..", path), filepath.Join(root, path))
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return errors.Join(os.Chmod(path, info.Mode()&0o700), os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
	})
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// maxBytes are the most bytes of a release's files, by the end of their names.
var maxBytes = map[string]int64{".deb": 18_000_000, ".rpm": 18_000_000, "amd64.tar.gz": 30_000_000, "arm64.tar.gz": 30_000_000, ".tar": 60_000_000}

// same shows that two folders have the same files, byte for byte.
func same(t *testing.T, dirs [2]string) {
	t.Helper()
	var sums [2]map[string]string
	for i, dir := range dirs {
		sums[i] = map[string]string{}
		names, err := os.ReadDir(dir)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s has %d files: %v", dir, len(names), err)
		}
		for _, f := range names {
			data, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			sums[i][f.Name()] = fmt.Sprintf("%x", sha256.Sum256(data))
			if i == 1 {
				continue
			}
			t.Logf("%s: %d bytes", f.Name(), len(data))
			for end, most := range maxBytes {
				if strings.HasSuffix(f.Name(), end) && int64(len(data)) > most {
					t.Errorf("%s has %d bytes, want at most %d", f.Name(), len(data), most)
				}
			}
		}
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Errorf("made twice, other bytes:\n%s", diff)
	}
}

// summed shows that SHA256SUMS has the sums of all other files of a release.
func summed(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	files, err := os.ReadDir(dir)
	if err != nil || bytes.Count(out, []byte(": OK\n")) != len(files)-1 {
		t.Errorf("of %d files sha256sum has looked at: %v\n%s", len(files), err, out)
	}
}

// TestRealRelease makes a release of this machine's architecture twice, on two paths, without the image,
// which TestBoxRelease makes. It installs from the files of the release alone: the chart and the plain
// YAML on an API server, and each package in an empty folder, where it upgrades and removes it too.
func TestRealRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("needs packages of Debian and an API server")
	}
	t.Parallel()
	built := t.TempDir()
	for _, name := range []string{programs.Quoin, programs.Hook} {
		if err := programs.Put(t.Context(), name, filepath.Join(built, runtime.GOARCH, name)); err != nil {
			t.Fatal(err)
		}
	}
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for i, root := range []string{"../..", elsewhere(t)} {
		makeParts(t, root, dirs[i], "-programs", built, "-arch", runtime.GOARCH, "packages", "programs", "chart", "manifests", "sums")
	}
	same(t, dirs)
	dir := dirs[0]
	summed(t, dir)
	listed(t, filepath.Join(dir, contentsName(runtime.GOARCH)), filepath.Join(built, runtime.GOARCH))
	runsOn(t, filepath.Join(built, runtime.GOARCH, programs.Quoin))
	t.Run("programs", func(t *testing.T) {
		name := "quoin-" + version.Number + "-linux-" + runtime.GOARCH
		root := unpacked(t, filepath.Join(dir, name+".tar.gz"))
		for _, args := range [][]string{{"quoin", "version"}, {"quoin-hook", "--version"}} {
			out, err := exec.CommandContext(t.Context(), filepath.Join(root, name, args[0]), args[1:]...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), version.Number) {
				t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
	})
	t.Run("chart", func(t *testing.T) {
		t.Parallel()
		chartInstalls(t, filepath.Join(dir, "quoin-"+version.Number+"-chart.tgz"))
	})
	t.Run("plain YAML", func(t *testing.T) {
		t.Parallel()
		plainInstalls(t, filepath.Join(dir, "quoin-"+version.Number+"-manifests.tar.gz"))
	})
	packagesInstall(t, dir)
}

// unpacked unpacks an archive into a folder of its own.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	root := t.TempDir()
	command(t, "tar", "-xzf", archive, "-C", root)
	return root
}

// chartInstalls shows that the chart of a release has the files that helm package would give it, and
// installs it.
func chartInstalls(t *testing.T, chart string) {
	t.Helper()
	helms := t.TempDir()
	if _, err := kuberig.Helm(t, "package", "../../manifests/chart", "--destination", helms); err != nil {
		t.Fatal(err)
	}
	want, got := textsOf(t, unpacked(t, filepath.Join(helms, "quoin-"+version.Number+".tgz"))), textsOf(t, unpacked(t, chart))
	// helm writes this file again, and not as it was
	const meta = "quoin/Chart.yaml"
	delete(want, meta)
	if text := got[meta]; !strings.Contains(text, "\nversion: "+version.Number+"\n") || !strings.Contains(text, "\nappVersion: \""+version.Number+"\"\n") {
		t.Errorf("%s:\n%s", meta, text)
	}
	delete(got, meta)
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 10 {
		t.Errorf("%d files (-helm package +release):\n%s", len(got), diff)
	}
	c := kuberig.StartTest(t)
	if _, err := kuberig.Helm(t, "install", "quoin", chart, "--namespace", "quoin-system", "--create-namespace", "--set", kuberig.Image, "--kubeconfig", c.Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	imageOf(t, c)
}

// plainInstalls applies the plain YAML of a release, and builds each kustomization.
func plainInstalls(t *testing.T, archive string) {
	t.Helper()
	root := unpacked(t, archive)
	plain := filepath.Join(root, "quoin-"+version.Number, "manifests/plain")
	kustomizations, err := filepath.Glob(filepath.Join(plain, "*/kustomization.yaml"))
	if err != nil || len(kustomizations) < 8 {
		t.Fatalf("kustomizations %q: %v", kustomizations, err)
	}
	linksOf(t, root)
	c := kuberig.StartTest(t)
	if out, err := c.Kubectl(t.Context(), "apply", "--validate=strict", "-k", filepath.Join(plain, "base")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	imageOf(t, c)
	olderDefinition(t, c, filepath.Join(plain, "base/05-nodereports.yaml"))
	image := regexp.MustCompile(`(?m)^ *-? *image: (.*)$`)
	for _, file := range kustomizations {
		dir := filepath.Dir(file)
		out, err := c.Kubectl(t.Context(), "kustomize", dir)
		if err != nil || out == "" {
			t.Errorf("%s: %v\n%s", dir, err, out)
		}
		for _, m := range image.FindAllStringSubmatch(out, -1) {
			if m[1] != "registry.example/quoin:"+version.Number {
				t.Errorf("%s has the image %s of another release than %s", dir, m[1], version.Number)
			}
		}
	}
}

// linksOf holds that the links of the pages in manifests lead to files of the archive.
func linksOf(t *testing.T, root string) {
	t.Helper()
	link, count := regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`), 0
	for path, text := range textsOf(t, root) {
		if !strings.Contains(path, "/manifests/") || filepath.Ext(path) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			count++
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if count < 20 {
		t.Errorf("%d links in the pages of the archive, want 20 or more", count)
	}
}

// olderDefinition writes a report with a field of a later release's definition, and puts this release's definition back:
// the API server then leaves the field out, so this release can read the report.
func olderDefinition(t *testing.T, c *kuberig.Cluster, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const at = "\n          properties:\n"
	later := strings.Replace(string(text), at, at+"            ofLater: {type: string}\n", 1)
	report := "apiVersion: quoin.dev/v1alpha1\nkind: NodeReport\nmetadata: {name: n1}\nnode: n1\nofLater: x\n"
	field := func() (value string, is bool) {
		u, err := c.Objects().Now(t.Context(), report)
		if err != nil || u.Object["node"] != "n1" {
			t.Fatalf("%v: %v", u, err)
		}
		value, is, _ = unstructured.NestedString(u.Object, "ofLater")
		return value, is
	}
	if err := c.Objects().ApplyText(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the API server takes the later field", func() bool { return c.Objects().ApplyText(t.Context(), report) == nil })
	if value, _ := field(); value != "x" {
		t.Errorf("the later field is %q", value)
	}
	if err := c.Objects().ApplyText(t.Context(), string(text)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the API server leaves the later field out", func() bool { _, is := field(); return !is })
}

// imageOf shows that the agents of a cluster are of this release.
func imageOf(t *testing.T, c *kuberig.Cluster) {
	t.Helper()
	out, err := c.Kubectl(t.Context(), "-n", "quoin-node", "get", "daemonset", "quoin-agent", "-o=jsonpath={.spec.template.spec.containers[*].image}")
	if want := "registry.example/quoin:" + version.Number; err != nil || out != want {
		t.Errorf("the agents have the image %s, want %s: %v", out, want, err)
	}
}

// textsOf returns the files below a folder.
func textsOf(t *testing.T, root string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		texts[strings.TrimPrefix(path, root+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
