package manifests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/pages"
)

// TestRealSoperatorPage runs the commands of docs/soperator.md that need no operator on a real API server:
// the chart comes with the presets, and goes. The page and the chart's notes name the same objects.
func TestRealSoperatorPage(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	if err := c.StartControllerManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.AddNamespaces(t.Context(), "soperator"); err != nil {
		t.Fatal(err)
	}
	helm, err := kuberig.HelmProgram(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := pages.Read("docs/soperator.md")
	if err != nil {
		t.Fatal(err)
	}
	notes, objects, run := "", 0, 0
	for _, b := range blocks {
		switch {
		case b.NotRun != "":
		case b.Language == "yaml":
			objects++
			for line := range strings.Lines(b.Text) {
				if !strings.Contains(notes, line) {
					t.Errorf("the notes of the chart have no line %q", line)
				}
			}
		default:
			run++
			start := time.Now()
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(b.Text, "REGISTRY", "registry.example"))
			cmd.Dir = ".."
			cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "HOME="+t.TempDir(), "PATH="+filepath.Dir(helm)+":"+c.Programs()+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("line %d: %v\n%s", b.Line, err, out)
			}
			t.Logf("%.1f s  %s: %s", time.Since(start).Seconds(), b.Heading, strings.Split(b.Text, "\n")[0])
			if strings.HasPrefix(b.Text, "helm install") {
				notes = strings.ReplaceAll(string(out), "\n    ", "\n")
				if _, err := c.Client().AppsV1().Deployments("quoin-system").Get(t.Context(), "quoin-publisher", metav1.GetOptions{}); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if objects != 1 || run != 2 {
		t.Errorf("%d blocks of objects were compared and %d of commands run, want 1 and 2", objects, run)
	}
	for _, namespace := range []string{"quoin-system", "quoin-node"} {
		if _, err := c.Client().CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err == nil {
			t.Errorf("the namespace %s stays", namespace)
		}
	}
}
