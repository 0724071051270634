package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeImage writes the archive of the image, and beside it what each architecture has.
func (s *source) writeImage(ctx context.Context, dir, work string, archs []string) (paths []string, err error) {
	index := v1.ImageIndex(empty.Index)
	for _, arch := range archs {
		img, contents, err := s.imageOf(ctx, dir, filepath.Join(work, "image", arch), arch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arch, err)
		}
		platform := &v1.Platform{OS: "linux", Architecture: arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
		paths = append(paths, contents)
	}
	path := s.archive(dir)
	return append(paths, path), s.writeArchive(path, filepath.Join(work, "image", "layout"), index)
}

// archive is the path of the image's archive.
func (s *source) archive(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("quoin-%s.tar", s.version))
}

// imageOf builds the image of an architecture, and writes what is in it.
func (s *source) imageOf(ctx context.Context, dir, work, arch string) (img v1.Image, contents string, err error) {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, "", err
	}
	packages, err := s.base(ctx, work, arch)
	if err != nil {
		return nil, "", err
	}
	own := filepath.Join(work, "own.tar")
	if err := s.layer(own, arch); err != nil {
		return nil, "", err
	}
	if img, err = s.image(arch, filepath.Join(work, "base.tar"), own); err != nil {
		return nil, "", err
	}
	contents, err = s.contents(dir, fmt.Sprintf("quoin-%s-%s", s.version, arch), arch, packages)
	return img, contents, err
}

// base writes base.tar, and returns its packages as NAME_VERSION_ARCH.
func (s *source) base(ctx context.Context, work, arch string) ([]string, error) {
	path := filepath.Join(work, "base.tar")
	cmd := exec.CommandContext(ctx, filepath.Join(s.root, "manifests/image/base.sh"), arch, path)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", s.time.Unix()))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("base.sh: %w\n%s", err, out)
	}
	text, err := os.ReadFile(path + ".packages")
	if err != nil {
		return nil, err
	}
	packages := strings.Fields(strings.ReplaceAll(string(text), ".deb", ""))
	slices.Sort(packages)
	return packages, nil
}

// compilers are C's by the architecture.
var compilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// build builds quoin, which calls NVML by cgo, and quoin-hook for each architecture.
func (s *source) build(ctx context.Context, archs []string) error {
	for _, arch := range archs {
		if compilers[arch] == "" {
			return fmt.Errorf("%s: no compiler is known: want amd64 or arm64", arch)
		}
		for name, cgo := range map[string]string{"quoin": "1", "quoin-hook": "0"} {
			cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", s.program(arch, name), "./cmd/"+name)
			cmd.Dir = s.root
			cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED="+cgo, "CC="+compilers[arch], "CGO_CFLAGS=-O2 -Wno-deprecated-declarations")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("build %s for %s: %w\n%s", name, arch, err, out)
			}
		}
	}
	return nil
}

// program is the path of a program that is built.
func (s *source) program(arch, name string) string { return filepath.Join(s.built, arch, name) }

// layer writes a tar file of the programs.
func (s *source) layer(path, arch string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	for _, name := range []string{"quoin", "quoin-hook"} {
		if err := s.add(w, "usr/bin/"+name, s.program(arch, name), 0o755); err != nil {
			return err
		}
	}
	return w.Close()
}

// image returns the image of two layers.
func (s *source) image(arch string, layers ...string) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, path := range layers {
		layer, err := tarball.LayerFromFile(path, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", arch, v1.Time{Time: s.time}
	file.Config.Entrypoint, file.Config.Env = []string{"/usr/bin/quoin"}, []string{"PATH=/usr/bin:/bin"}
	file.Config.Labels = map[string]string{
		"org.opencontainers.image.title": "quoin", "org.opencontainers.image.version": s.version, "org.opencontainers.image.revision": s.commit,
		"org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.description": "Keeps Slurm, Kubernetes and the NVIDIA stack agreed about NVLink domains",
	}
	return mutate.ConfigFile(img, file)
}

// writeArchive writes the image as an OCI layout in a tar file.
func (s *source) writeArchive(path, dir string, image v1.ImageIndex) (err error) {
	index, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	name := map[string]string{"io.containerd.image.name": "docker.io/library/quoin:" + s.version, "org.opencontainers.image.ref.name": s.version}
	if err := index.AppendIndex(image, layout.WithAnnotations(name)); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	var names []string
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, path := range names {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := s.add(w, name, path, 0o644); err != nil {
			return err
		}
	}
	return w.Close()
}

// add adds a file to a tar file. Nothing of it depends on the machine.
func (s *source) add(w *tar.Writer, name, path string, mode int64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: info.Size(), ModTime: s.time}); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}
