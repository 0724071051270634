package manifests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/pages"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealInstallPage runs the commands of docs/install.md on a real API server: first the way with Helm to
// its end, then the way without. The registry's name is filled in, and nothing else. In between it breaks
// something, and mends it by the command that doctor prints.
func TestRealInstallPage(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	helm, err := kuberig.HelmProgram(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := pages.Read("docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(here, filepath.Join(dir, "manifests")); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var commands []string
	for _, b := range blocks {
		text := strings.ReplaceAll(b.Text, "REGISTRY/quoin", siteImage)
		first, _, _ := strings.Cut(text, "\n")
		switch {
		case b.NotRun != "":
		case b.Language == "yaml":
			write(strings.TrimPrefix(first, "# "), text)
		case b.Language == "sh":
			commands = append(commands, text)
		}
	}
	write("site/quoin.yaml", "publicationDefaults: {slurmNames: slinky, baseBlockSize: 18}\n")
	shell := func(command string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-ec", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "KUBECONFIG="+c.Kubeconfig(), "PATH="+filepath.Dir(helm)+":"+c.Programs()+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
	mend := func(fault string) { // by the command that doctor prints
		t.Helper()
		_, found := diagnose(t, c)
		fix := wantFinding(t, topology.Fatal, found, fault).Remedy
		_, command, _ := strings.Cut(fix, ": ")
		shell(command)
		_, found = diagnose(t, c)
		if left := findingsAt(topology.Fatal, found); slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, fault) }) {
			t.Errorf("after %s: %q", fix, left)
		}
	}
	var ran []string
	run := func(program string) {
		for _, command := range commands {
			fields := strings.Fields(command)
			if fields[0] != program {
				continue
			}
			out := shell(command)
			ran = append(ran, program+" "+fields[1])
			switch fields[1] {
			case "install":
				if !strings.Contains(out, "quoin doctor --only cluster") || !strings.Contains(out, "docs/jobs-and-metrics.md") {
					t.Errorf("the notes do not say what Slinky and GPU Operator need:\n%s", out)
				}
				publisherHas(t, c, `slurmVersion: "25.11"`)
				if err := c.Objects().Delete(t.Context(), "validatingadmissionpolicybindings", "", "quoin-agent-own-report"); err != nil {
					t.Fatal(err)
				}
				mend("admission policies or their bindings are missing: agent-own-report")
				publisherHas(t, c, `slurmVersion: "25.11"`)
			case "apply":
				publisherHas(t, c, "baseBlockSize: 18")
				write("site/quoin.yaml", "publicationDefaults: {slurmVersion: \"24.11\", format: yaml}\n")
				shell(command)
				write("site/quoin.yaml", "publicationDefaults: {slurmNames: slinky, baseBlockSize: 36}\n")
				mend("config: the publisher does not start: ")
				publisherHas(t, c, "baseBlockSize: 36")
			case "uninstall", "delete":
				stays(t, c, shell("kubectl kustomize site"), program == "kubectl")
			}
		}
	}
	run("helm")
	run("kubectl")
	if len(ran) != len(commands) {
		t.Errorf("%d of the page's %d blocks ran", len(ran), len(commands))
	}
	if diff := cmp.Diff([]string{"helm install", "helm upgrade", "helm uninstall", "kubectl apply", "kubectl delete"}, ran); diff != "" {
		t.Errorf("commands of the page (-want +got):\n%s", diff)
	}
}

// publisherHas holds that the publisher has the site's image and this line in its configuration.
func publisherHas(t *testing.T, c *kuberig.Cluster, line string) {
	t.Helper()
	publisher, err := c.Client().AppsV1().Deployments("quoin-system").Get(t.Context(), "quoin-publisher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if image := publisher.Spec.Template.Spec.Containers[0].Image; !strings.HasPrefix(image, siteImage+":") {
		t.Errorf("the publisher's image is %s", image)
	}
	config, err := c.Client().CoreV1().ConfigMaps("quoin-system").Get(t.Context(), "quoin-config", metav1.GetOptions{})
	if err != nil || !strings.Contains(config.Data["quoin.yaml"], line) {
		t.Errorf("no %q in the publisher's configuration: %v\n%v", line, err, config.Data)
	}
}

// stays holds that an object is still there if its label says so, and that every other object is gone. The DaemonSet
// quoin-imex counts only if the cluster had it.
func stays(t *testing.T, c *kuberig.Cluster, all string, holder bool) {
	t.Helper()
	for id, o := range objects(t, all) {
		_, err := c.Objects().Now(t.Context(), o.text)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatalf("%s: %v", id, err)
		}
		if want := o.has("labels", keep, "true") && (holder || o.at("name") != "quoin-imex"); want != (err == nil) {
			t.Errorf("%s: it is there: %t, want %t", id, err == nil, want)
		}
	}
}
