package e2e_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
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
	"github.com/quoin-hpc/quoin/testdata/nvml"
	"github.com/quoin-hpc/quoin/testdata/rig/nodedir"
)

// maxImage is the most bytes of the image of both architectures.
const maxImage = 60_000_000

// TestBoxImage makes the image of both architectures, twice, pushes it to a registry, and runs the one
// for arm64 under qemu.
func TestBoxImage(t *testing.T) {
	needBox(t)
	var digests [2]map[string][32]byte
	var dir string
	for i := range digests {
		dir = t.TempDir()
		cmd := exec.CommandContext(t.Context(), "go", "run", ".", "-out", dir)
		cmd.Dir = "../../manifests/image"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		digests[i] = map[string][32]byte{}
		for _, file := range []string{".tar", "-amd64.spdx.json", "-arm64.spdx.json"} {
			data, err := os.ReadFile(filepath.Join(dir, "quoin-"+version.Number+file))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d bytes", file, len(data))
			if len(data) > maxImage {
				t.Errorf("%s has %d bytes, want at most %d", file, len(data), maxImage)
			}
			digests[i][file] = sha256.Sum256(data)
		}
	}
	for file, digest := range digests[0] {
		if digests[1][file] != digest {
			t.Errorf("%s: made twice, other bytes", file)
		}
	}
	pushes(t, dir, "amd64", "arm64")
	root := t.TempDir()
	unpack(t, filepath.Join(dir, "quoin-"+version.Number+".tar"), root, "arm64")
	onARM(t, root)
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
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
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
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
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
