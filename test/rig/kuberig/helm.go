package kuberig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/modules"
)

var helmModule = modules.Module{Name: "helm", Programs: map[string]string{"helm": "helm.sh/helm/v4/cmd/helm"}, Env: []string{"CGO_ENABLED=0"}}

// Image is a value of the chart, which takes no image without a registry. The plain manifests have
// this image.
const Image = "image.repository=registry.example/quoin"

// HelmProgram returns the path of Helm, which is built when it is not there.
func HelmProgram(ctx context.Context) (string, error) {
	dir, err := helmModule.Folder(ctx)
	return filepath.Join(dir, "helm"), err
}

// Helm runs Helm and returns what it prints. It reads no configuration of the user. A short run skips the
// test if Helm is not installed, and another run fails.
func Helm(t testing.TB, args ...string) (string, error) {
	t.Helper()
	program, err := HelmProgram(t.Context())
	if err != nil && testing.Short() {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG=", "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_DATA_HOME=", "GOGC=off")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w: %s", args[0], err, errs.String())
	}
	return out.String(), nil
}
