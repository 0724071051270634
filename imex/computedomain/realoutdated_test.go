package computedomain

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/test/rig/imexrig"
)

// controllerDeployment is what the driver's chart says of its controller.
const controllerDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: dra-driver-nvidia-gpu-controller, namespace: driver}
spec:
  selector: {matchLabels: {c: c}}
  template:
    metadata: {labels: {c: c}}
    spec:
      containers:
      - name: compute-domain
        image: rig/dra-driver:%[1]s
        command: ["compute-domain-controller", "-v", "$(LOG_VERBOSITY)"]
        env:
        - {name: IMAGE_NAME, value: "rig/dra-driver:%[1]s"}
        - {name: FEATURE_GATES, value: "%[2]s"}
`

// TestRealOutdated upgrades the driver under a domain, and renews its daemons rack by rack
// as the runbook says.
func TestRealOutdated(t *testing.T) {
	t.Parallel()
	const racks, nodes = 2, 3
	specs := imexrig.Racks(racks, nodes)
	cluster, _ := imexrig.StartTest(t, imexrig.Options{Driver: "0.4.1", DriverNamespace: "driver", Nodes: specs, ReadyAfter: 100 * time.Millisecond})
	r := &clusterRig{Cluster: cluster}
	must(t, r.AddNamespaces(t.Context(), "quoin-node"))
	o := &fleetTest{clusterTest: &clusterTest{clusterRig: r, c: observer(t, r.Config(), imex.Config{})}, specs: specs}
	start(t, o.c.Run)
	o.domain = domainIs(t, o.c, "made", usable)
	apply := func(text string) {
		t.Helper()
		must(t, r.Objects().ApplyText(t.Context(), text))
	}
	noteIs := func(what string, words ...string) {
		t.Helper()
		until(t, tick(t), what, func() (bool, string) {
			d := r.listed(t, o.c.config).Domain
			lacks := func(word string) bool { return !strings.Contains(d.Note.Message, word) }
			return usable(d) && (d.Note.Reason == imex.DomainOutdated) == (len(words) > 0) && !slices.ContainsFunc(words, lacks), fmt.Sprintf("%+v", d)
		})
	}
	apply(strings.ReplaceAll(holder, "default", "quoin-node"))
	apply(fmt.Sprintf(controllerDeployment, "v0", ""))
	o.reasonsAre(t, "all joined", map[string]int{imex.ReasonReady: racks * nodes})
	noteIs("up to date")

	r.StopComputeDomainController()
	r.Driver = "0.5.0"
	const gate = "CrashOnNVLinkFabricErrors=false"
	if err := r.StartComputeDomainController(t.Context(), "driver", "--image-name=rig/dra-driver:v1", "--feature-gates="+gate); err != nil {
		t.Fatal(err)
	}
	apply(fmt.Sprintf(controllerDeployment, "v1", gate+","))
	noteIs("outdated", "the image is rig/dra-driver:v0, and the driver's controller would set rig/dra-driver:v1", "the feature gate CrashOnNVLinkFabricErrors is true, and the driver's controller would set false")

	before, holders := o.podsOf(t, "driver", imex.DomainLabel), o.podsOf(t, "quoin-node", labelComponent+"="+holderComponent)
	commands := o.runbookCommands(t)
	o.shell(t, strings.Join(commands[:len(commands)-1], "\n"))
	noteIs("of an older template", "6 of 6 nodes have a pod of an older template")
	if diff := cmp.Diff(before, o.podsOf(t, "driver", imex.DomainLabel)); diff != "" {
		t.Errorf("daemons before any rack is renewed (-want +got):\n%s", diff)
	}
	for rack := range racks {
		o.shell(t, "CLIQUE="+imexrig.RackClique(rack)+"\n"+commands[0]+"\n"+commands[1]+"\n"+commands[len(commands)-1])
		o.renewed(t, before, rack+1)
		o.reasonsAre(t, "all joined again", map[string]int{imex.ReasonReady: racks * nodes})
		if rack == 0 {
			noteIs("half of it", "3 of 6 nodes have a pod of an older template")
		}
	}
	noteIs("renewed")
	if diff := cmp.Diff(holders, o.podsOf(t, "quoin-node", labelComponent+"="+holderComponent)); diff != "" || len(holders) != racks*nodes {
		t.Errorf("%d holders (-want +got):\n%s", len(holders), diff)
	}
}

// renewed waits until the daemons of the first racks are others than before, with the new
// image, and those of other racks are the same.
func (o *fleetTest) renewed(t *testing.T, before map[string]string, racks int) {
	t.Helper()
	until(t, tick(t), "renewed", func() (bool, string) {
		now := o.podsOf(t, "driver", imex.DomainLabel)
		for node, pod := range now {
			var rack int
			if _, err := fmt.Sscanf(node, "r%02d", &rack); err != nil {
				t.Fatal(err)
			}
			switch {
			case rack < racks && (pod == before[node] || !strings.HasSuffix(pod, ":v1")):
				return false, fmt.Sprint(now)
			case rack >= racks && pod != before[node]:
				t.Fatalf("the daemon of %s was %s and is %s", node, before[node], pod)
			}
		}
		return len(now) == len(before), fmt.Sprint(now)
	})
}

// podsOf are UID and image of pods that run, by node.
func (o *fleetTest) podsOf(t *testing.T, namespace, labels string) map[string]string {
	t.Helper()
	pods, err := o.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: labels})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			out[p.Spec.NodeName] = string(p.UID) + " " + p.Spec.Containers[0].Image
		}
	}
	return out
}

// runbookCommands are the commands of the runbook that renews daemons.
func (o *fleetTest) runbookCommands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../manifests/RUNBOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n# Renew the daemons of the ComputeDomain\n")
	var out []string
	for line := range strings.Lines(section) {
		if command, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "       "); is {
			out = append(out, command)
		}
	}
	if len(out) < 9 {
		t.Fatalf("the runbook has the commands %q", out)
	}
	return out
}

// shell runs commands of the runbook.
func (o *fleetTest) shell(t *testing.T, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", script)
	cmd.Env = append(os.Environ(), "PATH="+o.Programs()+":"+os.Getenv("PATH"), "KUBECONFIG="+o.Kubeconfig(), "HOME="+o.Dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
}
