package e2e_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	"github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/process"
)

// TestBoxRelease runs make release on two copies of this source, pushes the image of the release to a
// registry, and runs the image for arm64 under qemu.
func TestBoxRelease(t *testing.T) {
	needBox(t)
	// Both copies are made before the first release, which takes minutes: people may go on working.
	sources, dirs := [2]string{t.TempDir(), t.TempDir()}, [2]string{}
	for _, source := range sources {
		copySource(t, source)
		commit(t, source)
	}
	for i, source := range sources {
		if _, err := release(t, source); err != nil {
			t.Fatal(err)
		}
		dirs[i] = filepath.Join(source, "bin/release")
		if i == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(source, "new.yaml"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := release(t, source); err == nil || !strings.Contains(out, "?? new.yaml") {
			t.Errorf("a release with a file that is not committed: %v", err)
		}
	}
	same(t, dirs)
	dir := dirs[0]
	summed(t, dir)
	var names []string
	for _, arch := range []string{"amd64", "arm64"} {
		deb, rpm := packageNames(arch)
		names = append(names, deb, rpm, contentsName(arch), "quoin-"+version.Number+"-"+arch+".spdx.json", "quoin-"+version.Number+"-linux-"+arch+".tar.gz")
	}
	for _, end := range []string{".tar", "-chart.tgz", "-manifests.tar.gz"} {
		names = append(names, "quoin-"+version.Number+end)
	}
	for _, name := range append(names, "SHA256SUMS") {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	pushes(t, dir, "amd64", "arm64")
	root := t.TempDir()
	unpack(t, filepath.Join(dir, "quoin-"+version.Number+".tar"), root, "arm64")
	onARM(t, root)
}

// copySource copies the source as it is, committed or not.
func copySource(t *testing.T, to string) {
	t.Helper()
	const script = `git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -cf - | tar -x -C "$1"`
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script, "sh", to)
	cmd.Dir = "../.."
	ran(t, cmd)
}

// commit makes a copy of the source a repository with one commit, which is the same wherever the copy is.
func commit(t *testing.T, source string) {
	t.Helper()
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "--all"}, {"commit", "--quiet", "--no-gpg-sign", "--message", "release"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = source, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=quoin", "GIT_AUTHOR_EMAIL=quoin@quoin.dev", "GIT_AUTHOR_DATE=1700000000 +0000",
			"GIT_COMMITTER_NAME=quoin", "GIT_COMMITTER_EMAIL=quoin@quoin.dev", "GIT_COMMITTER_DATE=1700000000 +0000")
		ran(t, cmd)
	}
}

// release runs make release.
func release(t *testing.T, source string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "release")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	return process.Output(cmd)
}

// descriptor names a blob of an image.
type descriptor struct {
	Digest   string
	Platform struct{ Architecture string }
}

type ociIndex struct{ Manifests []descriptor }

// of returns the digest of the image of an architecture, or "".
func (i ociIndex) of(arch string) string {
	for _, d := range i.Manifests {
		if d.Platform.Architecture == arch {
			return d.Digest
		}
	}
	return ""
}

type ociManifest struct {
	Config descriptor
	Layers []descriptor
}

// unpack unpacks the layers of an image of an architecture, and looks at its configuration.
func unpack(t *testing.T, archive, root, arch string) {
	t.Helper()
	blobs := map[string][]byte{}
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if blobs["sha256:"+filepath.Base(h.Name)], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	var index, image ociIndex
	var manifest ociManifest
	var config struct {
		Architecture string
		Config       struct {
			Entrypoint []string
			Labels     map[string]string
		}
	}
	if err := json.Unmarshal(blobs["sha256:index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("index.json: %v\n%s", err, blobs["sha256:index.json"])
	}
	if err := json.Unmarshal(blobs[index.Manifests[0].Digest], &image); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(json.Unmarshal(blobs[image.of(arch)], &manifest), json.Unmarshal(blobs[manifest.Config.Digest], &config)); err != nil {
		t.Fatal(err)
	}
	if config.Architecture != arch || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/quoin"}) || config.Config.Labels["org.opencontainers.image.version"] != version.Number {
		t.Errorf("configuration %+v", config)
	}
	for _, layer := range manifest.Layers {
		text := io.Reader(bytes.NewReader(blobs[layer.Digest]))
		if packed, err := gzip.NewReader(text); err == nil {
			text = packed
		} else {
			text = bytes.NewReader(blobs[layer.Digest])
		}
		cmd := exec.CommandContext(t.Context(), "tar", "-x", "-C", root, "--exclude=./dev/*")
		cmd.Stdin = text
		ran(t, cmd)
	}
}

// onARM runs the command line and the hook of the image, with an NVML of the same
// architecture.
func onARM(t *testing.T, root string) {
	t.Helper()
	machine := nvml.New(t, "gb200")
	library := nvml.LibraryBy(t, 580, "aarch64-linux-gnu-gcc")
	run := func(env []string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "qemu-aarch64-static", append([]string{"-L", root, filepath.Join(root, "usr/bin", args[0])}, args[1:]...)...)
		cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", nvml.Variable + "=" + machine.File}, env...)
		return ran(t, cmd)
	}
	if out := run(nil, "quoin", "version"); !strings.Contains(out, "linux/arm64") {
		t.Errorf("version: %s", out)
	}
	for _, args := range [][]string{{"quoin", "--help"}, {"quoin", "config"}, {"quoin", "demo"}, {"quoin-hook", "--version"}} {
		if out := run(nil, args...); out == "" {
			t.Errorf("%s prints nothing", strings.Join(args, " "))
		}
	}
	// The agent and discover start this one, which qemu does not do.
	if out := run(nil, "quoin", "probe", "--once", "--node", "n1", "--set", "agent.nvmlLibrary="+library); !strings.Contains(out, "GB200") {
		t.Errorf("probe: %s", out)
	}
	runDir, mapping := t.TempDir(), t.TempDir()
	job := []string{"SLURM_JOB_ID=4711", "SLURM_JOB_GPUS=0,2", "SLURM_JOB_USER=alice", "SLURM_JOB_UID=1000", "SLURMD_NODENAME=n1",
		"SLURM_CONF=" + nodedir.SlurmConf(t, "Name=gpu File=/dev/nvidia[0-3]\n")}
	run(job, "quoin-hook", "prolog", "--run-dir", runDir, "--mapping-dir", mapping)
	for file, want := range map[string]string{"0": "4711", "2": "4711"} {
		if data, err := os.ReadFile(filepath.Join(mapping, file)); err != nil || strings.TrimSpace(string(data)) != want {
			t.Errorf("mapping of GPU %s: %q, %v", file, data, err)
		}
	}
	run(job, "quoin-hook", "epilog", "--run-dir", runDir, "--mapping-dir", mapping)
	if data, err := os.ReadFile(filepath.Join(mapping, "0")); err != nil || strings.TrimSpace(string(data)) != "" {
		t.Errorf("mapping of GPU 0 after the job: %q, %v", data, err)
	}
}
