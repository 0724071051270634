package e2e_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-hpc/quoin/cmd/version"
)

// registry is a registry of images in memory, as far as a push needs one. It refuses a manifest that
// names what it does not have.
type registry struct {
	mu    sync.Mutex
	blobs map[string][]byte // by digest
	tags  map[string]string // digests
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	digest, last := fmt.Sprintf("sha256:%x", sha256.Sum256(body)), path.Base(req.URL.Path)
	w.Header().Set("Docker-Content-Digest", digest)
	switch isManifest := strings.Contains(req.URL.Path, "/manifests/"); {
	case req.URL.Path == "/v2/":
	case req.Method == http.MethodHead || req.Method == http.MethodGet:
		if tagged := r.tags[last]; tagged != "" {
			last = tagged
		}
		if r.blobs[last] == nil {
			http.NotFound(w, req)
		}
	case req.Method == http.MethodPost:
		w.Header().Set("Location", req.URL.Path+"upload")
		w.WriteHeader(http.StatusAccepted)
	case req.Method == http.MethodPatch:
		r.blobs[digest] = body
		w.Header().Set("Location", req.URL.Path)
		w.WriteHeader(http.StatusAccepted)
	case isManifest:
		var names struct {
			ociIndex
			ociManifest
		}
		if err := json.Unmarshal(body, &names); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, d := range append(append(names.Manifests, names.Layers...), names.Config) {
			if d.Digest != "" && r.blobs[d.Digest] == nil {
				http.Error(w, "no blob "+d.Digest, http.StatusNotFound)
				return
			}
		}
		r.blobs[digest], r.tags[last] = body, digest
		w.WriteHeader(http.StatusCreated)
	default: // the end of an upload
		w.WriteHeader(http.StatusCreated)
	}
}

// pushes pushes the image of a folder, and looks for its architectures in the registry.
func pushes(t *testing.T, dir string, archs ...string) {
	t.Helper()
	r := &registry{blobs: map[string][]byte{}, tags: map[string]string{}}
	server := httptest.NewServer(r)
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/site/quoin"
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", "-out", dir, "-push", repository)
	cmd.Dir = "../../manifests/image"
	if out := ran(t, cmd); !strings.Contains(out, repository+":"+version.Number) {
		t.Fatalf("push: %s", out)
	}
	var index ociIndex
	if err := json.Unmarshal(r.blobs[r.tags[version.Number]], &index); err != nil {
		t.Fatal(err)
	}
	for _, arch := range archs {
		if index.of(arch) == "" {
			t.Errorf("the registry has no image for %s: %+v", arch, index)
		}
	}
	if len(index.Manifests) != len(archs) {
		t.Errorf("the registry has %d images, want %d", len(index.Manifests), len(archs))
	}
}
