package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push pushes the image of all architectures that the archive has to a registry, with the release as
// its tag. It logs in as docker, podman and skopeo do: with ~/.docker/config.json or REGISTRY_AUTH_FILE.
func (s *source) push(ctx context.Context, dir, repository string) (err error) {
	to, err := name.NewRepository(repository)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "quoin-push-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if out, err := exec.CommandContext(ctx, "tar", "-xf", s.archive(dir), "-C", work).CombinedOutput(); err != nil {
		return fmt.Errorf("read the image, which make image writes: %w: %s", err, out)
	}
	archive, err := layout.ImageIndexFromPath(work)
	if err != nil {
		return err
	}
	manifest, err := archive.IndexManifest()
	if err != nil {
		return err
	}
	image, err := archive.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(to.Tag(s.version), image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	fmt.Printf("%s:%s\n", to, s.version)
	return nil
}
