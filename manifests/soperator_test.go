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
// the chart comes with the presets, and goes. The objects of the page are YAML.
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
	objects, run := 0, 0
	for _, b := range blocks {
		switch {
		case b.NotRun != "":
		case b.Language == "yaml":
			for text := range strings.SplitSeq(b.Text, "\n---\n") {
				objects++
				if apiKind(t, text) == " " {
					t.Errorf("no object: %s", text)
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
				if _, err := c.Client().AppsV1().Deployments("quoin-system").Get(t.Context(), "quoin-publisher", metav1.GetOptions{}); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if objects != 3 || run != 2 {
		t.Errorf("%d objects were read and %d blocks of commands run, want 3 and 2", objects, run)
	}
	for _, namespace := range []string{"quoin-system", "quoin-node"} {
		if _, err := c.Client().CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err == nil {
			t.Errorf("the namespace %s stays", namespace)
		}
	}
}
