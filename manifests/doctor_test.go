package manifests_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/doctor"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/topology"
)

// diagnose runs quoin doctor on a cluster.
func diagnose(t *testing.T, c *kuberig.Cluster) (code int, found []show.Group) {
	t.Helper()
	program, err := programs.Build(t.Context(), programs.Quoin)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "doctor", "--only", "cluster", "-o", "json")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var r struct{ Findings []show.Group }
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return cmd.ProcessState.ExitCode(), r.Findings
}

// findingsAt are the findings of a severity, as "what: message".
func findingsAt(severity topology.Severity, all []show.Group) []string {
	var out []string
	for _, f := range all {
		if f.Severity == severity {
			out = append(out, f.Thing+": "+f.Message)
		}
	}
	return out
}

func wantFinding(t *testing.T, severity topology.Severity, all []show.Group, part string) *show.Group {
	t.Helper()
	for i := range all {
		if f := &all[i]; f.Severity == severity && strings.Contains(f.Thing+": "+f.Message, part) {
			return f
		}
	}
	t.Errorf("no %s with %q among %q", severity, part, findingsAt(severity, all))
	return &show.Group{}
}

// slinkyKinds are the kinds of slurm-operator that doctor reads, with the keys that it reads.
const slinkyKinds = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: controllers.slinky.slurm.net}
spec:
  group: slinky.slurm.net
  names: {kind: Controller, listKind: ControllerList, plural: controllers, singular: controller}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {inplaceReconfigure: {type: boolean}}}
`

// TestRealDoctor asks the doctor about a cluster without Quoin, with Quoin, and with a
// Controller of Slinky's that has every fault. It runs the commands that fix them, as they are printed, in bash and in zsh.
func TestRealDoctor(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	objects := c.Objects()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	code, found := diagnose(t, c)
	for _, part := range []string{"definition: the API server has no NodeReports", "agents: there is no DaemonSet", "publisher: there is no Deployment", "files: default: nothing is published"} {
		if f := wantFinding(t, topology.Fatal, found, part); f.Remedy == "" {
			t.Errorf("%s: no remedy", part)
		}
	}
	if code != 1 {
		t.Errorf("an empty cluster: exit %d, want 1", code)
	}

	must(objects.Apply(t.Context(), "plain/base", "plain/imex"))
	must(objects.ApplyText(t.Context(), slinkyKinds))
	agent, err := c.Token(t.Context(), "quoin-node", "quoin-agent", "node-a")
	must(err)
	waitForReportPolicy(t, objectsOf(t, c, agent))
	must(objects.ApplyText(t.Context(), `apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {name: slurm, namespace: slurm}
spec: {configFileRefs: [{name: slurm-extra}], extraConf: "PrologFlags=Alloc\n", slurmctld: {image: "ghcr.io/slinkyproject/slurmctld:25.11-ubuntu24.04"}}
`))
	must(objects.Create(t.Context(), configMap("slurm", "slurm-extra")+"---\n"+configMap("slurm", "quoin-slurm")))
	must(objects.Patch(t.Context(), "configmaps", "slurm", "quoin-slurm", `{"data":{"topology.yaml":"- {topology: flat, cluster_default: true, flat: true}\n"}}`))
	_, found = diagnose(t, c)
	wantFinding(t, topology.OK, found, "a stolen agent token is refused")
	wantFinding(t, topology.Fatal, found, "no node gets an agent")
	wantFinding(t, topology.Fatal, found, "no publisher is ready")
	wantFinding(t, topology.Fatal, found, "leader: no publisher has ever led")
	wantFinding(t, topology.Fatal, found, "is somebody else's")
	wantFinding(t, topology.Fatal, found, "PrologFlags has no Contain")
	wantFinding(t, topology.Fatal, found, "configFileRefs does not name quoin-slurm: slurmctld does not get the published files; not yet, because ConfigMap slurm/quoin-slurm is somebody else's")
	for _, part := range []string{"files: default: ConfigMap slurm/quoin-slurm is somebody else's", "configFileRefs does not name quoin-slurm: slurmctld does not get the published files; prologScriptRefs does not name"} {
		_, found = diagnose(t, c)
		remedy := wantFinding(t, topology.Fatal, found, part).Remedy
		for _, shell := range [][]string{{"bash", "--norc"}, {"zsh", "-f"}} {
			command := exec.CommandContext(t.Context(), shell[0], shell[1], "-c", remedy)
			command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "PATH="+c.Programs()+":"+os.Getenv("PATH"))
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s", shell[0], remedy, err, out)
			}
		}
	}
	must(objects.Patch(t.Context(), "controllers.slinky.slurm.net", "slurm", "slurm", `{"spec":{"extraConf":"GresTypes=gpu\nPrologFlags=Contain\n"}}`))
	must(objects.Delete(t.Context(), "validatingadmissionpolicybindings", "", "quoin-agent-own-report"))
	node, err := c.Client().CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n5"}}, metav1.CreateOptions{})
	must(err)
	node.Status.Conditions = []corev1.NodeCondition{{Type: "QuoinFabricDegraded", Status: corev1.ConditionTrue, Reason: "FabricMissing", Message: "none has a fabric"}}
	_, err = c.Client().CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	must(err)
	_, found = diagnose(t, c)
	wantFinding(t, topology.Warning, found, "fabric: FabricMissing: 1 nodes: n5; n5: none has a fabric")
	if left := findingsAt(topology.Fatal, found); slices.ContainsFunc(left, func(s string) bool { return strings.HasPrefix(s, "slinky") || strings.HasPrefix(s, "files") }) {
		t.Errorf("after the remedies: %q", left)
	}
	wantFinding(t, topology.OK, found, "Controller slurm/slurm loads the files and calls the hook")
	wantFinding(t, topology.OK, found, "release: default: Slurm 25.11 runs, as the image of Controller slurm/slurm says")
	wantFinding(t, topology.Fatal, found, "admission policies or their bindings are missing: agent-own-report")
	wantFinding(t, topology.Warning, found, "slinky: default: Controller slurm/slurm loads the files, and slurmNames is short")

	// Taints keep an agent away before labels do. GPU Operator changes the label while it works on a node.
	const pods = `{"spec":{"template":{"spec":{"tolerations":%s,"nodeSelector":{"nvidia.com/gpu.deploy.dcgm-exporter":"true"}}}}}`
	must(objects.Patch(t.Context(), "daemonsets", "quoin-node", "quoin-agent", fmt.Sprintf(pods, `[{"operator":"Exists","effect":"NoSchedule"}]`)))
	must(objects.Patch(t.Context(), "nodes", "", "n5", `{"metadata":{"labels":{"nvidia.com/gpu.present":"true","nvidia.com/gpu.deploy.dcgm-exporter":"paused-for-driver-upgrade"}},
		"spec":{"taints":[{"key":"slinky.slurm.net/slurm","effect":"NoExecute"}]}}`))
	_, found = diagnose(t, c)
	wantFinding(t, topology.Fatal, found, "agents: 1 nodes with GPUs get no agent, because DaemonSet quoin-node/quoin-agent does not tolerate the taint slinky.slurm.net/slurm:NoExecute: n5")
	must(objects.Patch(t.Context(), "daemonsets", "quoin-node", "quoin-agent", fmt.Sprintf(pods, `[{"operator":"Exists"}]`)))
	_, found = diagnose(t, c)
	paused := wantFinding(t, topology.Warning, found, `agents: 1 nodes with GPUs get no agent, because GPU Operator works on them: their label nvidia.com/gpu.deploy.dcgm-exporter is "paused-for-driver-upgrade": n5`)
	if left := findingsAt(topology.Fatal, found); strings.Contains(paused.Remedy, "quoin.dev/agent") || slices.ContainsFunc(left, func(s string) bool { return strings.HasPrefix(s, "agents") || strings.HasPrefix(s, "reports") }) {
		t.Errorf("while GPU Operator works: %q, remedy %q", left, paused.Remedy)
	}

	// The programs say what they refuse, and doctor says it and goes on.
	must(objects.Patch(t.Context(), "configmaps", "quoin-system", "quoin-config", `{"data":{"quoin.yaml":"publicationDefaults: {slurmVersion: \"24.11\", format: yaml}\n"}}`))
	code, found = diagnose(t, c)
	wantFinding(t, topology.Fatal, found, `config: the publisher does not start: ConfigMap quoin-system/quoin-config:1: publication "default": format: "yaml": want conf with Slurm 24.11`)
	if wantFinding(t, topology.OK, found, "definition: NodeReports are defined"); code != 1 {
		t.Errorf("a configuration that the publisher refuses: exit %d, want 1", code)
	}
	controller, err := objects.Get(t.Context(), "controllers.slinky.slurm.net", "slurm", "slurm")
	must(err)
	refs, _, err := unstructured.NestedSlice(controller.Object, "spec", "configFileRefs")
	if want := []any{map[string]any{"name": "slurm-extra"}, map[string]any{"name": "quoin-slurm"}}; err != nil || !reflect.DeepEqual(refs, want) {
		t.Errorf("configFileRefs %q, %v: want the site's own too", refs, err)
	}
}

// BenchmarkDoctor looks at a cluster of 10,000 nodes that report.
func BenchmarkDoctor(b *testing.B) {
	c := kuberig.StartTest(b)
	if err := c.Objects().Apply(b.Context(), "plain/base", "plain/imex"); err != nil {
		b.Fatal(err)
	}
	reports, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		b.Fatal(err)
	}
	nodes := c.Client().CoreV1().Nodes()
	work := make(chan string)
	var making sync.WaitGroup
	for range 50 {
		making.Go(func() {
			for name := range work {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"nvidia.com/gpu.present": "true"}}}
				if _, err := nodes.Create(b.Context(), node, metav1.CreateOptions{}); err != nil {
					b.Error(err)
				}
				report := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "quoin.dev/v1alpha1", "kind": "NodeReport", "metadata": map[string]any{"name": name}, "node": name}}
				if _, err := reports.Resource(apischema.GroupVersionResource{Group: "quoin.dev", Version: "v1alpha1", Resource: "nodereports"}).Create(b.Context(), report, metav1.CreateOptions{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range 10_000 {
		work <- fmt.Sprintf("gb200-%05d", i)
	}
	close(work)
	making.Wait()
	conf, err := config.Load(config.Default(), "", nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, found, err := doctor.Look(b.Context(), &doctor.Options{Config: conf, Publications: conf.Clusters(), Cluster: c.Config(), Only: doctor.PartCluster, Version: version.Number})
		if err != nil {
			b.Fatal(err)
		}
		if !slices.ContainsFunc(found, func(f topology.Finding) bool { return f.Message == "10000 nodes report" }) {
			b.Fatalf("findings %v", found)
		}
	}
}
