package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/cmd/version"
)

// builder runs Dockerfiles without a daemon, a registry or a user's settings.
type builder struct {
	t   *testing.T
	dir string
}

func (b *builder) run(args ...string) string {
	b.t.Helper()
	args = append([]string{"--root", b.dir + "/images", "--runroot", b.dir + "/run", "--storage-driver", "vfs"}, args...)
	cmd := exec.CommandContext(b.t.Context(), "buildah", args...)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("buildah %s: %v\n%s\n%s", strings.Join(args, " "), err, out, log.String())
	}
	return strings.TrimSpace(string(out))
}

// golang makes the image that the Dockerfile begins with, of Debian's packages. This machine's Go
// and its modules come in by mounts.
func (b *builder) golang() {
	b.t.Helper()
	root := filepath.Join(b.dir, "golang.tar")
	command(b.t, "mmdebstrap", "--quiet", "--variant=apt", "--include=gcc,libc6-dev,git,ca-certificates", "bookworm", root)
	container := b.run("from", "scratch")
	b.run("add", container, root, "/")
	b.run("config", "--env", "PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--env", "GOPROXY=off", "--env", "GOTOOLCHAIN=local",
		"--env", "GOMODCACHE=/go/mod", "--env", "GOCACHE=/go/cache", container)
	b.run("commit", "--rm", container, "localhost/golang:1.26-bookworm")
	if err := os.Remove(root); err != nil {
		b.t.Fatal(err)
	}
}

// build runs the Dockerfile for an architecture, and returns the folder of the image's files.
func (b *builder) build(context, arch string) string {
	b.t.Helper()
	goenv := func(name string) string {
		out, err := exec.CommandContext(b.t.Context(), "go", "env", name).Output()
		if err != nil {
			b.t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	// BuildKit sets BUILDPLATFORM itself.
	b.run("bud", "--isolation", "chroot", "--pull-never", "--platform", "linux/"+arch, "--build-arg", "BUILDPLATFORM=linux/"+runtime.GOARCH, "-v", goenv("GOROOT")+":/usr/local/go:ro", "-v", goenv("GOMODCACHE")+":/go/mod:ro",
		"-v", goenv("GOCACHE")+":/go/cache", "-f", filepath.Join(context, "manifests/image/Dockerfile"), "-t", arch, context)
	const form = "{{.OCIv1.Architecture}} {{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Env}}"
	if got, want := b.run("inspect", "--type", "image", "--format", form, "localhost/"+arch), arch+" [/usr/bin/quoin] [PATH=/usr/bin:/bin]"; got != want {
		b.t.Errorf("configuration %s, want %s", got, want)
	}
	return b.run("mount", b.run("from", "--pull-never", "localhost/"+arch))
}

// files returns what an image has: its paths with mode, owner and contents. A runtime brings /dev.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if name == "dev" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		owner, _ := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprintf("%v %d:%d", info.Mode(), owner.Uid, owner.Gid)
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			out[name] = text + " -> " + target
			return err
		}
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %x", sha256.Sum256(data))
		}
		out[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBoxDockerfile runs the Dockerfile, and compares its images with the images of make image, file by
// file. Neither has the revision of the source, because the Dockerfile gets no repository here.
func TestBoxDockerfile(t *testing.T) {
	needBox(t)
	context := t.TempDir()
	copySource(t, context)
	archives := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", "-out", archives, "image")
	cmd.Dir, cmd.Env = "../../manifests/image", append(os.Environ(), "GOFLAGS=-buildvcs=false")
	ran(t, cmd)
	b := &builder{t, t.TempDir()}
	b.golang()
	for _, arch := range []string{"amd64", "arm64"} {
		root := t.TempDir()
		unpack(t, filepath.Join(archives, "quoin-"+version.Number+".tar"), root, arch)
		want := files(t, root)
		if diff := cmp.Diff(want, files(t, b.build(context, arch))); diff != "" || want["usr/bin/quoin"] == "" {
			t.Errorf("%s: the Dockerfile's image differs (-make image +Dockerfile):\n%s", arch, diff)
		}
		t.Logf("%s: %d files are the same", arch, len(want))
	}
	b.run("umount", "--all")
}
