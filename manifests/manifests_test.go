// Package manifests_test applies the manifests to a real API server, and holds
// the schema of reports against their Go type.
package manifests_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

func start(t *testing.T) *kuberig.Cluster {
	t.Helper()
	c := kuberig.StartTest(t)
	site := overlay(t, "base", "imex")
	for range 2 { // applying twice changes nothing
		if _, err := c.Kubectl(t.Context(), "apply", "--validate=strict", "-k", site); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"node-a", "node-b"} {
		if _, err := c.Client().CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestRealRights has a real API server say what agents, publisher and their pods may do with the
// rights of the manifests.
func TestRealRights(t *testing.T) {
	t.Parallel()
	c := start(t)
	t.Run("agent", func(t *testing.T) { agentToken(t, c) })
	t.Run("publisher", func(t *testing.T) { publisherToken(t, c) })
	t.Run("status", func(t *testing.T) { publisherStatus(t, c) })
	t.Run("publications", func(t *testing.T) { publications(t, c) })
	t.Run("pods", func(t *testing.T) { podSecurity(t, c) })
}

func agentToken(t *testing.T, c *kuberig.Cluster) {
	bound, err := c.Token(t.Context(), "quoin-node", "quoin-agent", "node-a")
	if err != nil {
		t.Fatal(err)
	}
	loose, err := c.Token(t.Context(), "quoin-node", "quoin-agent", "")
	if err != nil {
		t.Fatal(err)
	}
	report := func(name string, more ...string) string {
		text := "apiVersion: quoin.dev/v1alpha1\nkind: NodeReport\nmetadata:\n  name: " + name + "\n" + strings.Join(more, "\n") + "\n"
		if !strings.Contains(text, "\nnode: ") {
			text += "node: " + name + "\n"
		}
		return text
	}
	create := func(name string, more ...string) request { return creates(report(name, more...)) }
	replace := func(more ...string) request { return replaces(report("node-a", more...)) }
	const policy = "may write NodeReport "
	const metadata = "has no owner but its Node, no finalizers, no annotations"
	agent := objectsOf(t, c, bound)
	waitForReportPolicy(t, agent)
	for _, y := range []try{
		{"own report", create("node-a"), ""},
		{"own report again", replace("driverVersion: '580'"), ""},
		{"another node's report", create("node-b"), policy},
		{"another node's facts", replace("node: node-b"), "a NodeReport is named as its node"},
		{"an owner that is not there", replace("  ownerReferences: [{apiVersion: v1, kind: Namespace, name: gone, uid: '1'}]"), metadata},
		{"its Node as owner", replace("  ownerReferences: [{apiVersion: v1, kind: Node, name: node-a, uid: '1'}]"), ""},
		{"a finalizer", replace("  finalizers: [quoin.dev/x]"), metadata},
		{"an annotation", replace("  annotations: {team: red}"), metadata},
		{"a label", replace("  labels: {team: red}"), metadata},
		{"the label that agents write", replace("  labels: {app.kubernetes.io/managed-by: quoin}"), ""},
		{"a key that nobody knows", replace("color: red"), "unknown field"},
		{"delete its report", deletes("nodereports", "", "node-a"), noRight},
		{"list reports", lists("nodereports", ""), noRight},
		{"a ConfigMap", creates(configMap("quoin-node", "quoin-node-node-a")), noRight},
		{"the configuration", gets("configmaps", "quoin-node", "quoin-config"), noRight},
		{"secrets", lists("secrets", "quoin-node"), noRight},
		{"the publisher's Lease", gets("leases", "quoin-system", "quoin-publisher"), noRight},
		{"read a node", gets("nodes", "", "node-a"), ""},
		{"annotate a node", patches("nodes", "", "node-a", withAnnotation("x", "y")), noRight},
	} {
		y.run(t, agent)
	}
	try{"a token without a node", create("node-a2"), policy}.run(t, objectsOf(t, c, loose))
	t.Run("the dry run of quoin doctor", func(t *testing.T) { tryOther(t, c, bound) })
}

// tryOther does the dry run of an agent with the policy, without its binding, and with it again.
func tryOther(t *testing.T, c *kuberig.Cluster, kubeconfig string) {
	rc, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := nodereport.NewClient(rc)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.TryOther(t.Context()); !errors.Is(err, nodereport.ErrOwnOnly) {
		t.Errorf("with the policy: %v", err)
	}
	if err := c.Objects().Delete(t.Context(), "validatingadmissionpolicybindings", "", "quoin-agent-own-report"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "another node's report would be written", func() bool { return client.TryOther(t.Context()) == nil })
	reports, err := c.Objects().List(t.Context(), "nodereports", "")
	if err != nil || slices.ContainsFunc(reports.Items, func(r unstructured.Unstructured) bool { return strings.Contains(r.GetName(), "dry-run") }) {
		t.Errorf("the dry run has written: %v, %v", reports, err)
	}
	if err := c.Objects().Apply(t.Context(), "plain/base/30-admission.yaml"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is refused again", func() bool { return errors.Is(client.TryOther(t.Context()), nodereport.ErrOwnOnly) })
	nobody, err := c.Token(t.Context(), "quoin-system", "quoin-publisher", "")
	if err == nil {
		rc, err = clientcmd.BuildConfigFromFlags("", nobody)
	}
	if err == nil {
		client, err = nodereport.NewClient(rc)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := client.TryOther(t.Context()); err == nil || errors.Is(err, nodereport.ErrOwnOnly) {
		t.Errorf("without the right: %v, want an error that says so", err)
	}
}

func publisherToken(t *testing.T, c *kuberig.Cluster) {
	token, err := c.Token(t.Context(), "quoin-system", "quoin-publisher", "")
	if err != nil {
		t.Fatal(err)
	}
	publisher := objectsOf(t, c, token)
	waitForPolicy(t, publisher, "slurm")
	if err := c.ApplyComputeDomainCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	domain := func(metadata string) request {
		return creates("apiVersion: resource.nvidia.com/v1beta1\nkind: ComputeDomain\nmetadata: {namespace: quoin-node, " + metadata +
			"}\nspec: {numNodes: 0, channel: {resourceClaimTemplate: {name: x}}}\n")
	}
	lease := func(name string) request {
		return creates("apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: " + name + ", namespace: quoin-system}\n")
	}
	const event = "apiVersion: v1\nkind: Event\nmetadata: {name: x, namespace: quoin-node}\ninvolvedObject: {kind: ComputeDomain, namespace: quoin-node, name: quoin}\n"
	node := func(patch string) request { return patches("nodes", "", "node-a", patch) }
	place := func(value any) request { return node(withAnnotation("topology.slinky.slurm.net/spec", value)) }
	const policy = "may change the annotation topology.slinky.slurm.net/spec and the labels quoin.dev/block, quoin.dev/leaf, quoin.dev/spine, quoin.dev/clique of a Node only"
	// The garbage collector would delete a Node whose owner does not exist.
	const owner = `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"gone","uid":"1"}]}}`
	for _, y := range []try{
		{"annotate a node", place("nvl:b1"), ""},
		{"two topologies", place("nvl:b1,fabric:spine-1:leaf-2"), ""},
		{"words that are no place", place("nvl:b1 Gres=gpu:9"), "want TOPOLOGY:UNIT"},
		{"no place", place(""), "want TOPOLOGY:UNIT"},
		{"give the annotation up", place(nil), ""},
		{"a node's place as labels", node(`{"metadata":{"labels":{"quoin.dev/block":"b1","quoin.dev/leaf":"l1","quoin.dev/spine":"s1","quoin.dev/clique":"c.1"}}}`), ""},
		{"take a label back", node(withLabel("quoin.dev/block", nil)), ""},
		{"say where agents run", node(withLabel("quoin.dev/agent", "false")), policy},
		{"another Lease", lease("x"), "may create the Lease that a Role lets it update"},
		{"its Lease", lease("quoin-publisher"), ""},
		{"another domain", domain("name: other"), "may create the ComputeDomain that a Role lets it get"},
		{"a domain with an owner", domain("name: quoin, ownerReferences: [{apiVersion: v1, kind: Namespace, name: gone, uid: '1'}]"), "has no owners and no finalizers"},
		{"a domain with a finalizer", domain("name: quoin, finalizers: [quoin.dev/x]"), "has no owners and no finalizers"},
		{"its domain", domain("name: quoin"), ""},
		{"see its domain", gets("computedomains", "quoin-node", "quoin"), ""},
		{"see the domains that worker pods may claim from", lists("computedomains", ""), ""},
		{"say what happened", creates(event), ""},
		{"another annotation", node(withAnnotation("other", "1")), policy},
		{"label a node", node(withLabel("x", "y")), policy},
		{"cordon a node", node(`{"spec":{"unschedulable":true}}`), policy},
		{"taint a node", node(`{"spec":{"taints":[{"key":"x","value":"y","effect":"NoSchedule"}]}}`), policy},
		{"a node's owner", node(owner), policy},
		{"a node's finalizers", node(`{"metadata":{"finalizers":["quoin.dev/x"]}}`), policy},
		{"delete a node", deletes("nodes", "", "node-a"), noRight},
		{"kube-system", creates(configMap("kube-system", "quoin-slurm")), noRight},
		{"see whose plans are stored", lists("configmaps", "quoin-system"), ""},
		{"see other ConfigMaps", lists("configmaps", "slurm"), noRight},
		{"see who may claim", lists("pods", ""), ""},
		{"see who claims", lists("resourceclaims", ""), noRight},
		{"see what the driver runs", lists("daemonsets,deployments", ""), noRight},
		{"change what the driver runs", deletes("daemonsets", "kube-system", "x"), noRight},
		{"delete a domain", deletes("computedomains", "quoin-node", "quoin"), noRight},
		{"delete a claim", deletes("resourceclaims", "quoin-node", "x"), noRight},
		{"delete a holder", deletes("pods", "quoin-node", "x"), noRight},
		{"delete the holders", deletes("daemonsets", "quoin-node", "quoin-imex"), noRight},
		{"see all definitions", lists("customresourcedefinitions", ""), noRight},
		{"secrets", lists("secrets", ""), noRight},
		{"secrets of Slurm", lists("secrets", "slurm"), noRight},
		{"delete a Pod", deletes("pods", "quoin-system", "x"), noRight},
		{"see another Lease", gets("leases", "quoin-system", "x"), noRight},
		{"read reports", lists("nodereports", ""), ""},
		{"write a report", creates(nodeReport("node-a")), noRight},
		{"a ConfigMap of the agents", creates(configMap("quoin-node", "quoin-plan-default")), noRight},
		{"another ConfigMap of its namespace", gets("configmaps", "quoin-system", "quoin-config"), noRight},
	} {
		y.run(t, publisher)
	}
	// What others have written in a form of their own is no reason to refuse a label.
	theirs := withAnnotation("topology.slinky.slurm.net/spec", "leaf 1")
	if _, err := c.Client().CoreV1().Nodes().Patch(t.Context(), "node-a", types.MergePatchType, []byte(theirs), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, y := range []try{
		{"a label beside an annotation of others", node(withLabel("quoin.dev/leaf", "l2")), ""},
		{"another place beside an annotation of others", place("leaf 2"), "want TOPOLOGY:UNIT"},
	} {
		y.run(t, publisher)
	}
}

// publisherClient is a client with the publisher's token, once the policies hold.
func publisherClient(t *testing.T, c *kuberig.Cluster) kubernetes.Interface {
	t.Helper()
	token, err := c.Token(t.Context(), "quoin-system", "quoin-publisher", "")
	if err != nil {
		t.Fatal(err)
	}
	waitForPolicy(t, objectsOf(t, c, token), "slurm")
	config, err := clientcmd.BuildConfigFromFlags("", token)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// publisherStatus says what of a Node's status the publisher's token may write.
func publisherStatus(t *testing.T, c *kuberig.Cluster) {
	client := publisherClient(t, c)
	const refused = "may change the conditions QuoinFabricDegraded, QuoinImexNotReady, QuoinTopologyDrift of a Node's status only"
	for _, y := range []struct{ name, status, refused string }{
		{"its conditions", `"conditions":[{"type":"QuoinFabricDegraded","status":"False","reason":"A"},{"type":"QuoinTopologyDrift","status":"True","reason":"B"}]`, ""},
		{"and again", `"conditions":[{"type":"QuoinFabricDegraded","status":"True","reason":"A"}]`, ""},
		{"another's condition", `"conditions":[{"type":"Ready","status":"False","reason":"A"}]`, refused},
		{"a condition of a like name", `"conditions":[{"type":"QuoinOther","status":"True","reason":"A"}]`, refused},
		{"a node's phase", `"phase":"Pending"`, refused},
		{"a node's capacity", `"capacity":{"nvidia.com/gpu":"9"}`, refused},
		{"a node's addresses", `"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]`, refused},
		{"a label, by the way of status", `"metadata":{"labels":{"x":"y"}}`, refused},
		{"an annotation", `"metadata":{"annotations":{"x":"y"}}`, refused},
		{"an owner", `"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"gone","uid":"1"}]}`, refused},
		{"a finalizer", `"metadata":{"finalizers":["quoin.dev/x"]}`, refused},
		{"what a node is", `"nodeInfo":{"kubeletVersion":"v0"}`, refused},
	} {
		patch := `{"status":{` + y.status + `}}`
		if strings.HasPrefix(y.status, `"metadata"`) {
			patch = "{" + y.status + "}"
		}
		_, err := client.CoreV1().Nodes().Patch(t.Context(), "node-a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if (err != nil) != (y.refused != "") || err != nil && !strings.Contains(err.Error(), y.refused) {
			t.Errorf("%s: %v, want %q", y.name, err, y.refused)
		}
	}
}

// publications says which ConfigMaps the publisher's token may write.
func publications(t *testing.T, c *kuberig.Cluster) {
	// A second publication, as a site would make it.
	rbac, err := os.ReadFile("plain/base/12-rbac-publication.yaml")
	if err != nil {
		t.Fatal(err)
	}
	second := strings.NewReplacer("namespace: slurm", "namespace: slurm-b", "quoin-slurm", "topology-b").Replace(string(rbac))
	const byHand = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: slurm-b, name: topology-b}\ndata: {topology.conf: by hand, cgroup.conf: by hand}\n"
	if err := c.AddNamespaces(t.Context(), "slurm-b"); err != nil {
		t.Fatal(err)
	}
	if err := c.Objects().ApplyText(t.Context(), second+"\n---\n"+byHand); err != nil {
		t.Fatal(err)
	}
	token, err := c.Token(t.Context(), "quoin-system", "quoin-publisher", "")
	if err != nil {
		t.Fatal(err)
	}
	publisher := objectsOf(t, c, token)
	waitForPolicy(t, publisher, "slurm")
	create := func(metadata, data string) request {
		return creates("apiVersion: v1\nkind: ConfigMap\nmetadata: {" + metadata + "}\n" + data + "\n")
	}
	patch := func(namespace, name, patch string) request { return patches("configmaps", namespace, name, patch) }
	const (
		labelled = ", labels: {quoin.dev/kind: publication}"
		own      = "namespace: slurm, name: quoin-slurm"
		files    = `data: {topology.yaml: "# x", gres.conf: "# x"}`
		plan     = "namespace: quoin-system, name: quoin-plan-default"
		byPlan   = "may write plan.json.gz of a stored plan only"
		byName   = "when a Role lets it patch that one"
		byLabel  = "is not labelled quoin.dev/kind=publication"
		byFile   = "may write topology.conf, topology.yaml, gres.conf of a ConfigMap only"
		byLine   = "a line of gres.conf begins with NodeName, Name or AutoDetect"
		byOwner  = "may not change owners, finalizers and labels of a ConfigMap"
	)
	for _, y := range []try{
		{"another name", create("namespace: slurm, name: slurm-prolog"+labelled, files), byName},
		{"a made-up name", create("namespace: slurm, generateName: quoin-slurm"+labelled, files), byName},
		{"the other namespace's name", create("namespace: slurm, name: topology-b"+labelled, files), byName},
		{"a namespace without a Role", create("namespace: default, name: quoin-slurm"+labelled, files), noRight},
		{"no label", create(own, files), byLabel},
		{"another kind", create(own+", labels: {quoin.dev/kind: node-report}", files), byLabel},
		{"another file", create(own+labelled, `data: {topology.yaml: "# x", plugstack.conf: x}`), byFile},
		{"another file in bytes", create(own+labelled, `binaryData: {plugstack.conf: eA==}`), byFile},
		{"publish", create(own+labelled, files), ""},
		{"publish again", patch("slurm", "quoin-slurm", `{"metadata":{"annotations":{"quoin.dev/revision":"2"}},"data":{"topology.yaml":null,"topology.conf":"# y"}}`), ""},
		{"one more file", patch("slurm", "quoin-slurm", `{"data":{"plugstack.conf":"x"}}`), byFile},
		{"one more file in bytes", patch("slurm", "quoin-slurm", `{"binaryData":{"plugstack.conf":"eA=="}}`), byFile},
		{"its label", patch("slurm", "quoin-slurm", `{"metadata":{"labels":null}}`), byLabel},
		{"another label", patch("slurm", "quoin-slurm", `{"metadata":{"labels":{"team":"red"}}}`), byOwner},
		{"an owner", patch("slurm", "quoin-slurm", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"gone","uid":"1"}]}}`), byOwner},
		{"a finalizer", patch("slurm", "quoin-slurm", `{"metadata":{"finalizers":["quoin.dev/x"]}}`), byOwner},
		{"lines of gres.conf", patch("slurm", "quoin-slurm", `{"data":{"gres.conf":"# x\nNodeName=n1 Name=gpu File=/dev/nvidia0\nAutoDetect=nvidia\n\n"}}`), ""},
		{"an Include in gres.conf", patch("slurm", "quoin-slurm", `{"data":{"gres.conf":"# x\nInclude /etc/passwd\n"}}`), byLine},
		{"an include after blanks", patch("slurm", "quoin-slurm", `{"data":{"gres.conf":"\t include /etc/passwd\n"}}`), byLine},
		{"an include as a continued line", patch("slurm", "quoin-slurm", `{"data":{"gres.conf":"Name=gpu \\\nINCLUDE /etc/passwd\n"}}`), byLine},
		{"an Include in topology.conf", patch("slurm", "quoin-slurm", `{"data":{"topology.conf":"BlockSizes=2\ninclude /etc/passwd\n"}}`), byLine},
		{"a plain key in topology.yaml", patch("slurm", "quoin-slurm", `{"data":{"topology.yaml":"include: /etc/passwd\n"}}`), byLine},
		{"all lines of a topology.yaml", patch("slurm", "quoin-slurm", `{"data":{"topology.conf":null,"topology.yaml":"# x\n---\n- topology: nvl\n  block:\n    blocks: []\n"}}`), ""},
		{"the hook's script", patch("slurm", "quoin-hook-prolog", `{"data":{"x":"y"}}`), noRight},
		{"delete its own", deletes("configmaps", "slurm", "quoin-slurm"), noRight},
		{"somebody's of its name", patch("slurm-b", "topology-b", `{"data":{"topology.conf":"y"}}`), byLabel},
		{"a plan", create(plan+", labels: {quoin.dev/kind: plan}", `binaryData: {plan.json.gz: eA==}`), ""},
		{"the plan again", patch("quoin-system", "quoin-plan-default", `{"binaryData":{"plan.json.gz":"eQ=="}}`), ""},
		{"the plan of a publication without a name in the Role", create("namespace: quoin-system, name: quoin-plan-b, labels: {quoin.dev/kind: plan}", `binaryData: {plan.json.gz: eA==}`), byName},
		{"a plan that is a report", create("namespace: quoin-system, name: quoin-node-a, labels: {quoin.dev/kind: node-report}", `data: {report.json: x}`), byName},
		{"files into the plan", patch("quoin-system", "quoin-plan-default", `{"data":{"topology.yaml":"x"}}`), byPlan},
		{"another key of the plan", patch("quoin-system", "quoin-plan-default", `{"binaryData":{"x":"eA=="}}`), byPlan},
		{"the plan's label", patch("quoin-system", "quoin-plan-default", `{"metadata":{"labels":{"quoin.dev/kind":"publication"}}}`), "is not labelled quoin.dev/kind=plan"},
		{"delete the plan", deletes("configmaps", "quoin-system", "quoin-plan-default"), noRight},
		{"take that over", patch("slurm-b", "topology-b", `{"metadata":{"labels":{"quoin.dev/kind":"publication"}},"data":{"topology.conf":"y"}}`), byLabel},
	} {
		y.run(t, publisher)
	}
	if err := c.Objects().Patch(t.Context(), "configmaps", "slurm-b", "topology-b", withLabel("quoin.dev/kind", "publication")); err != nil {
		t.Fatal(err)
	}
	for _, y := range []try{
		{"what was handed over", patch("slurm-b", "topology-b", `{"data":{"topology.conf":"# y"}}`), ""},
		{"a site's file beside its own", patch("slurm-b", "topology-b", `{"data":{"cgroup.conf":"y"}}`), byFile},
		{"remove a site's file", patch("slurm-b", "topology-b", `{"data":{"cgroup.conf":null}}`), byFile},
	} {
		y.run(t, publisher)
	}
}

// podSecurity holds that the publisher's pods keep to the Pod Security level of their
// namespace, and agents and holders to that of theirs.
func podSecurity(t *testing.T, c *kuberig.Cluster) {
	apps := c.Client().AppsV1()
	templates := map[string]corev1.PodTemplateSpec{}
	publisher, err := apps.Deployments("quoin-system").Get(t.Context(), "quoin-publisher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	templates["quoin-system/publisher"] = publisher.Spec.Template
	for _, name := range []string{"quoin-agent", "quoin-imex"} {
		set, err := apps.DaemonSets("quoin-node").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		templates["quoin-node/"+name] = set.Spec.Template
	}
	for place, template := range templates {
		namespace, name, _ := strings.Cut(place, "/")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: template.Labels}, Spec: template.Spec}
		if _, err := c.Client().CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// TestRealRenamed holds the policies after kustomize has given all objects other names and
// one namespace: they go by what a token may do and not by how its account is called.
func TestRealRenamed(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	dir := t.TempDir()
	files, err := filepath.Glob("plain/*/[0-9][0-9]-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("namespace: gpu\nnamePrefix: site-\nresources:\n")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		name = filepath.Base(name)
		if name == "00-namespace.yaml" { // kustomize wants one namespace once
			data = []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: quoin-node}\n")
		}
		if name == "20-config.yaml" { // of the same name as the agents' in the one namespace
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		text.WriteString("- " + name + "\n")
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.AddNamespaces(t.Context(), "gpu"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "apply", "-k", dir); err != nil {
		t.Fatal(err)
	}
	if err := c.Objects().Create(t.Context(), "apiVersion: v1\nkind: Node\nmetadata: {name: node-a}\n"); err != nil {
		t.Fatal(err)
	}
	agentToken, err := c.Token(t.Context(), "gpu", "site-quoin-agent", "node-a")
	if err != nil {
		t.Fatal(err)
	}
	publisherToken, err := c.Token(t.Context(), "gpu", "site-quoin-publisher", "")
	if err != nil {
		t.Fatal(err)
	}
	agent, publisher := objectsOf(t, c, agentToken), objectsOf(t, c, publisherToken)
	waitForReportPolicy(t, agent)
	try{"its own report", creates(nodeReport("node-a")), ""}.run(t, agent)
	try{"another node's report", creates(nodeReport("node-b")), "may write NodeReport"}.run(t, agent)
	await.Until(t, "the publisher's policy is in force", func() bool {
		err := publisher.Patch(t.Context(), "nodes", "", "node-a", withLabel("x", "y"), metav1.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "of a Node only")
	})
	try{"another ConfigMap", creates(configMap("gpu", "x")), "may write ConfigMap"}.run(t, publisher)
}

// TestHookScripts runs the scripts as slurmd would.
func TestHookScripts(t *testing.T) {
	data, err := os.ReadFile("plain/base/50-hook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fake := filepath.Join(t.TempDir(), "hook")
	if err := os.WriteFile(fake, []byte("#!/bin/bash\necho called $1\nexit $RC\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, doc := range strings.Split(string(data), "\n---\n") {
		verb := []string{"prolog", "epilog"}[i]
		key, file := verb+"-90-quoin.sh", filepath.Join("slinky/vendor", verb, "quoin.sh")
		_, script, ok := strings.Cut(doc, key+": |\n")
		if !ok {
			t.Fatalf("no %s", key)
		}
		path := filepath.Join(t.TempDir(), verb)
		script = strings.TrimRight(strings.ReplaceAll(script, "\n    ", "\n")[4:], "\n") + "\n"
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if same, err := os.ReadFile(file); err != nil || string(same) != script {
			t.Errorf("%s is not the ConfigMap's script: %v\n%s", file, err, same)
		}
		for _, of := range []struct{ hook, rc, want string }{
			{fake, "0", "called " + verb}, {fake, "1", "called " + verb}, {fake, "2", "ended with 2"}, {fake, "137", "ended with 137"}, {fake + ".missing", "0", "is not there"},
		} {
			cmd := exec.CommandContext(t.Context(), path)
			cmd.Env = []string{"QUOIN_HOOK=" + of.hook, "RC=" + of.rc}
			out, err := cmd.CombinedOutput()
			refused := verb == "prolog" && of.rc == "1" // by the gate
			if (err != nil) != refused || refused && cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), of.want) {
				t.Errorf("%s with %s that ends with %s: %v, %s", verb, of.hook, of.rc, err, out)
			}
		}
	}
}
