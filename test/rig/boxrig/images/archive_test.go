package images

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestArchive reads an archive of two images as a runtime does: from the index to the
// files of their layers.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	common, own, path := filepath.Join(dir, "common.tar"), filepath.Join(dir, "own.tar"), filepath.Join(dir, "images.tar")
	if err := errors.Join(layer(common, map[string]string{"usr/bin/common": program}), layer(own, map[string]string{"own": program})); err != nil {
		t.Fatal(err)
	}
	if err := archive(path, image{name: "a:1", entrypoint: []string{"/own"}, layers: []string{common, own}}, image{name: "b:1", env: []string{"K=V"}, layers: []string{common}}); err != nil {
		t.Fatal(err)
	}
	files := readTar(t, path)
	var index struct{ Manifests []descriptor }
	decode(t, files["index.json"], &index)
	got := map[string][]string{}
	for _, d := range index.Manifests {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		decode(t, blob(t, files, d), &manifest)
		var config struct {
			Config struct{ Entrypoint, Env []string }
		}
		decode(t, blob(t, files, manifest.Config), &config)
		says := append(config.Config.Entrypoint, config.Config.Env...)
		for i, l := range manifest.Layers {
			name := filepath.Join(dir, d.Annotations["io.containerd.image.name"]+string(rune('0'+i)))
			if err := os.WriteFile(name, []byte(blob(t, files, l)), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"usr/bin/common", "own"} {
				if readTar(t, name)[file] == "text" {
					says = append(says, file)
				}
			}
		}
		got[d.Annotations["io.containerd.image.name"]] = says
	}
	if diff := cmp.Diff(map[string][]string{"a:1": {"/own", "usr/bin/common", "own"}, "b:1": {"K=V", "usr/bin/common"}}, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

// blob returns a blob whose digest and size are right.
func blob(t *testing.T, files map[string]string, d descriptor) string {
	t.Helper()
	name := d.Digest[len("sha256:"):]
	text := files["blobs/sha256/"+name]
	if sum := sha256.Sum256([]byte(text)); hex.EncodeToString(sum[:]) != name || int64(len(text)) != d.Size {
		t.Fatalf("blob %s has %d bytes, want %d", name, len(text), d.Size)
	}
	return text
}

func decode(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// readTar returns the files of a tar file. No file is in it twice.
func readTar(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := map[string]string{}
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := out[h.Name]; ok {
			t.Fatalf("%s is in %s twice", h.Name, path)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(data)
	}
}
