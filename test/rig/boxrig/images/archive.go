package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// image is what an archive has one of, or several.
type image struct {
	name       string
	entrypoint []string
	env        []string
	layers     []string // tar files, not compressed
}

// descriptor points to a blob, by the OCI image specification.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// archive writes images as an OCI layout in a tar file, for `ctr images import`. Layers
// that several images have are in it once.
func archive(path string, images ...image) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	a := &archiver{tar: tar.NewWriter(file), layers: map[string]descriptor{}}
	var index []descriptor
	for _, i := range images {
		d, err := a.image(i)
		if err != nil {
			return fmt.Errorf("write image %s: %w", i.name, err)
		}
		d.Annotations = map[string]string{"io.containerd.image.name": i.name}
		index = append(index, d)
	}
	text, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": index})
	if err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	return errors.Join(a.add("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)), a.add("index.json", text), a.tar.Close())
}

type archiver struct {
	tar    *tar.Writer
	layers map[string]descriptor // by path
}

// image adds an image and returns its manifest.
func (a *archiver) image(i image) (descriptor, error) {
	var layers []descriptor
	var ids []string
	for _, path := range i.layers {
		d, err := a.layer(path)
		if err != nil {
			return descriptor{}, err
		}
		layers, ids = append(layers, d), append(ids, d.Digest)
	}
	config, err := a.blob("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": i.entrypoint, "Env": i.env},
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
	})
	if err != nil {
		return descriptor{}, err
	}
	const manifest = "application/vnd.oci.image.manifest.v1+json"
	return a.blob(manifest, map[string]any{"schemaVersion": 2, "mediaType": manifest, "config": config, "layers": layers})
}

// layer adds a layer's tar file.
func (a *archiver) layer(path string) (descriptor, error) {
	if d, ok := a.layers[path]; ok {
		return d, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return descriptor{}, err
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return descriptor{}, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return descriptor{}, err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	if err := a.tar.WriteHeader(&tar.Header{Name: "blobs/sha256/" + digest, Mode: 0o644, Size: size}); err != nil {
		return descriptor{}, err
	}
	d := descriptor{MediaType: "application/vnd.oci.image.layer.v1.tar", Digest: "sha256:" + digest, Size: size}
	a.layers[path] = d
	_, err = io.Copy(a.tar, file)
	return d, err
}

// blob adds a document.
func (a *archiver) blob(kind string, document any) (descriptor, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return descriptor{}, err
	}
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	return descriptor{MediaType: kind, Digest: "sha256:" + digest, Size: int64(len(text))}, a.add("blobs/sha256/"+digest, text)
}

func (a *archiver) add(name string, data []byte) error {
	if err := a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := a.tar.Write(data)
	return err
}

// layer writes a layer with programs: the file on this machine by its path in the image.
func layer(path string, programs map[string]string) error {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	folders := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		data, err := os.ReadFile(programs[name])
		if err != nil {
			return fmt.Errorf("write layer: %w", err)
		}
		if err := addFolders(w, folders, filepath.Dir(name)); err != nil {
			return fmt.Errorf("write layer: %w", err)
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}); err != nil {
			return fmt.Errorf("write layer: %w", err)
		}
		if _, err := w.Write(data); err != nil {
			return fmt.Errorf("write layer: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// addFolders adds a folder after its parent folders.
func addFolders(w *tar.Writer, have map[string]bool, dir string) error {
	if have[dir] {
		return nil
	}
	have[dir] = true
	if err := addFolders(w, have, filepath.Dir(dir)); err != nil {
		return err
	}
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
}
