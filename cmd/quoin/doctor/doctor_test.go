package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// now is the time of the look.
var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// hard is a word that shells divide, expand and quote.
const hard = `it's $HOME *!`

// installed is a cluster on which all is well.
const installed = `nodes:
- {metadata: {name: n1, labels: {nvidia.com/gpu.present: "true"}}}
nodereports:
- {metadata: {name: n1}}
customresourcedefinitions:
- {metadata: {name: nodereports.quoin.dev}}
daemonsets:
- metadata: {name: quoin-agent, namespace: quoin-node, labels: {app.kubernetes.io/name: quoin, app.kubernetes.io/component: agent, app.kubernetes.io/managed-by: Helm}}
  spec: {template: {spec: {containers: [{image: "r/quoin:0.1.0"}]}}}
  status: {desiredNumberScheduled: 1, numberReady: 1}
deployments:
- metadata: {name: quoin-publisher, namespace: quoin-system, labels: {app.kubernetes.io/name: quoin, app.kubernetes.io/component: publisher, app.kubernetes.io/managed-by: Helm}, annotations: {meta.helm.sh/release-name: blue, meta.helm.sh/release-namespace: gpus}}
  spec: {replicas: 2, template: {spec: {containers: [{image: "r/quoin:0.1.0"}]}}}
  status: {readyReplicas: 2}
leases:
- {metadata: {name: quoin-publisher, namespace: quoin-system}, spec: {holderIdentity: a, renewTime: "2026-11-23T11:59:58.000000Z"}}
configmaps:
- metadata: {name: quoin-slurm, namespace: slurm, labels: {quoin.dev/kind: publication}, annotations: {quoin.dev/revision: "3"}}
  data: {topology.yaml: "- {topology: flat, cluster_default: true, flat: true}\n"}
- {metadata: {name: quoin-hook-prolog, namespace: slurm}}
- {metadata: {name: quoin-hook-epilog, namespace: slurm}}
controllers:
- metadata: {name: slurm, namespace: slurm}
  spec: {configFileRefs: [{name: quoin-slurm}], prologScriptRefs: [{name: quoin-hook-prolog}], epilogScriptRefs: [{name: quoin-hook-epilog}], extraConf: "GresTypes=gpu\nPrologFlags=Contain\n", slurmctld: {image: "r/slurmctld:25.11-ubuntu24.04"}}
nodesets:
- metadata: {name: gpu, namespace: slurm}
  spec:
    controllerRef: {name: slurm}
    slurmd: {volumeMounts: [{name: a, mountPath: /opt/quoin/bin}, {name: b, mountPath: /run/quoin}, {name: c, mountPath: /var/lib/dcgm-exporter/job-mapping}]}
    template: {spec: {volumes: [{name: a, hostPath: {path: /opt/quoin/bin}}, {name: b, hostPath: {path: /run/quoin}}, {name: c, hostPath: {path: /var/lib/dcgm-exporter/job-mapping}}]}}
clusterpolicies:
- {metadata: {name: cluster-policy}, spec: {dcgmExporter: {hpcJobMapping: {enabled: true, directory: /var/lib/dcgm-exporter/job-mapping}}}}
`

// clusterOf returns the cluster of a text with other words in it.
func clusterOf(t *testing.T, old, with string) *Cluster {
	t.Helper()
	if old != "" && !strings.Contains(installed, old) {
		t.Fatalf("no %q in the cluster", old)
	}
	text, err := yaml.ToJSON([]byte(strings.Replace(installed, old, with, 1)))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil { // numbers as the client has them
		t.Fatal(err)
	}
	c := &Cluster{Options: options(t), Kubernetes: "v1.36.3", Now: now, Objects: map[string][]unstructured.Unstructured{}, Missing: map[string]error{}, Forgery: nodereport.ErrOwnOnly}
	for resource, objects := range all {
		for _, o := range objects.([]any) {
			c.Objects[resource] = append(c.Objects[resource], unstructured.Unstructured{Object: o.(map[string]any)})
		}
	}
	for _, name := range policies {
		add := func(resource string, spec map[string]any) {
			o := unstructured.Unstructured{Object: map[string]any{"spec": spec}}
			o.SetName("quoin-" + name)
			o.SetLabels(map[string]string{"app.kubernetes.io/name": "quoin", "app.kubernetes.io/component": name})
			c.Objects[resource] = append(c.Objects[resource], o)
		}
		add("validatingadmissionpolicies", map[string]any{"failurePolicy": "Fail"})
		add("validatingadmissionpolicybindings", map[string]any{"validationActions": []any{"Deny"}})
	}
	return c
}

// worst are the findings that are not ok, as "severity what: message".
func worst(all []topology.Finding) []string {
	var out []string
	for _, f := range all {
		if f.Severity != topology.OK {
			out = append(out, fmt.Sprintf("%s %s: %s", f.Severity, f.Thing, f.Message))
			if f.Remedy == "" {
				out = append(out, "without a remedy")
			}
		}
	}
	return out
}

// images gives agents and publisher another image.
func images(image string) func(c *Cluster) {
	return func(c *Cluster) {
		for _, o := range []*unstructured.Unstructured{c.workload(componentAgent), c.workload(componentPublisher)} {
			_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"image": image}}, "spec", "template", "spec", "containers")
		}
	}
}

// published puts a topology.yaml into the publication's ConfigMap.
func published(c *Cluster) {
	const file = "- topology: nvl\n  cluster_default: true\n  block: {block_sizes: [1], blocks: [{block: b, nodes: n1}]}\n"
	_ = unstructured.SetNestedStringMap(c.named("configmaps", "slurm", "quoin-slurm").Object, map[string]string{"topology.yaml": file}, "data")
}

// options are those of a cluster with Slinky, whose configuration has further values.
func options(t *testing.T, values ...string) *Options {
	t.Helper()
	settings := []config.Setting{{Key: "publicationDefaults.slurmNames", Value: "slinky", Flag: "--set"}}
	for _, text := range values {
		s, err := config.ParseSetting(text)
		if err != nil {
			t.Fatal(err)
		}
		settings = append(settings, s)
	}
	conf, err := config.Load(config.Default(), "", settings)
	if err != nil {
		t.Fatal(err)
	}
	return &Options{Config: conf, Publications: conf.Clusters(), Version: "0.1.0", Commands: session.Commands{Kubectl: "kubectl" + config.Flag("--context", hard), Helm: "helm" + config.Flag("--kube-context", hard),
		Again: config.Flag("--config", "=x") + config.Flag("--set", "publications.*.format=conf") + config.Flag("--context", hard)}}
}

// revised are the annotations of a publication that has a plan.
var revised = map[string]string{plandoc.AnnotationRevision: "1"}

// addMap adds a ConfigMap with a file. One with annotations is a publication.
func addMap(c *Cluster, name string, annotations map[string]string, file string) {
	cm := unstructured.Unstructured{Object: map[string]any{"data": map[string]any{file: "- {topology: flat, cluster_default: true, flat: true}\n"}}}
	cm.SetNamespace("slurm")
	cm.SetName(name)
	if annotations != nil {
		cm.SetAnnotations(annotations)
		cm.SetLabels(map[string]string{"quoin.dev/kind": "publication"})
	}
	c.Objects["configmaps"] = append(c.Objects["configmaps"], cm)
}

// without takes an object away.
func without(resource, name string) func(c *Cluster) {
	return func(c *Cluster) {
		c.Objects[resource] = slices.DeleteFunc(c.Objects[resource], func(o unstructured.Unstructured) bool { return o.GetName() == name })
	}
}

// forbidden is the error of somebody who may not list a resource.
func forbidden(resource string) error {
	return fmt.Errorf("list %s: %w", resource, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no")))
}

// What the chart gives the agents: by its preset for GPU Operator, and always.
const (
	gpuOperatorSelector = `nodeSelector: {nvidia.com/gpu.deploy.dcgm-exporter: "true"}`
	chartAffinity       = `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` +
		`{matchExpressions: [{key: nvidia.com/gpu.present, operator: In, values: ["true"]}, {key: quoin.dev/agent, operator: NotIn, values: ["false"]}]}, ` +
		`{matchExpressions: [{key: quoin.dev/agent, operator: In, values: ["true"]}]}]}}}`
)

// keeping gives the node a label and a spec, and the agents' pods a spec.
func keeping(label, pod, node string) func(c *Cluster) {
	return func(c *Cluster) {
		n, set := &c.Objects["nodes"][0], c.workload(componentAgent)
		labels := n.GetLabels()
		maps.Copy(labels, read[string](label))
		n.SetLabels(labels)
		n.Object["spec"] = read[any](node)
		for key, value := range read[any](pod) {
			_ = unstructured.SetNestedField(set.Object, value, "spec", "template", "spec", key)
		}
	}
}

// read reads YAML of one object.
func read[V any](text string) (object map[string]V) {
	data, err := yaml.ToJSON([]byte(text))
	if err == nil {
		err = json.Unmarshal(data, &object)
	}
	if err != nil {
		panic(err)
	}
	return object
}

// twoControllers adds a Controller that loads the files of publication b.
func twoControllers(c *Cluster) {
	second := c.Objects["controllers"][0].DeepCopy()
	second.SetName("slurm-b")
	_ = unstructured.SetNestedSlice(second.Object, []any{map[string]any{"name": "quoin-slurm-b"}}, "spec", "configFileRefs")
	c.Objects["controllers"] = append(c.Objects["controllers"], *second)
}

// inplace gives the kind Controller the key inplaceReconfigure.
func inplace(c *Cluster) {
	crd := unstructured.Unstructured{Object: map[string]any{}}
	crd.SetName(controllersDefinition)
	_ = unstructured.SetNestedSlice(crd.Object, []any{map[string]any{"schema": map[string]any{"openAPIV3Schema": map[string]any{"properties": map[string]any{"spec": map[string]any{
		"properties": map[string]any{"inplaceReconfigure": map[string]any{}}}}}}}}, "spec", "versions")
	c.Objects["customresourcedefinitions"] = append(c.Objects["customresourcedefinitions"], crd)
}

// unloaded are the keys of a publication that no Slurm loads.
func unloaded(name string) []string {
	return []string{"publications." + name + ".slurmNames=short", "publications." + name + ".annotate=false"}
}

// clusterCase is a cluster that differs from the installed one, and what is found.
type clusterCase struct {
	name, old, with string
	change          func(c *Cluster)
	set             []string // values of the configuration
	want            []string // parts
}

func (tt *clusterCase) findings(t *testing.T) []topology.Finding {
	t.Helper()
	c := clusterOf(t, tt.old, tt.with)
	if tt.change != nil {
		tt.change(c)
	}
	c.Options = options(t, tt.set...)
	return c.Findings()
}

// asChartMakesIt is the case whose fix the page for Slinky shows.
const asChartMakesIt = "a Controller as Slinky's chart makes it, before Quoin"

func clusterCases() []clusterCase {
	return []clusterCase{
		{name: "all is well"},
		{name: "an agent is not ready", old: "numberReady: 1", with: "numberReady: 0", want: []string{"fatal agents: 0 of 1 agents are ready"}},
		{name: "no node gets an agent", old: "{desiredNumberScheduled: 1, numberReady: 1}", with: "{}", want: []string{"fatal agents: no node gets an agent"}},
		{name: "a taint that agents do not tolerate", change: keeping("", "tolerations: [{operator: Exists, effect: NoSchedule}]", "taints: [{key: slinky.slurm.net/slurm, effect: NoExecute}]"),
			want: []string{"fatal agents: 1 nodes with GPUs get no agent, because DaemonSet quoin-node/quoin-agent does not tolerate the taint slinky.slurm.net/slurm:NoExecute: n1"}},
		{name: "a taint before a label", change: keeping("nvidia.com/gpu.deploy.dcgm-exporter: paused-for-driver-upgrade", gpuOperatorSelector, "taints: [{key: sunk.coreweave.com/lock, value: a, effect: NoExecute}]"),
			want: []string{"fatal agents: 1 nodes with GPUs get no agent, because DaemonSet quoin-node/quoin-agent does not tolerate the taint sunk.coreweave.com/lock=a:NoExecute: n1"}},
		{name: "a taint that agents tolerate", change: keeping("", "tolerations: [{operator: Exists}]", "taints: [{key: slinky.slurm.net/slurm, effect: NoExecute}]")},
		{name: "taints that keep nobody away, or are a state of the node", change: keeping("", "", "taints: [{key: a, effect: PreferNoSchedule}, {key: node.kubernetes.io/not-ready, effect: NoSchedule}]")},
		{name: "a taint, and no agent anywhere", old: "{desiredNumberScheduled: 1, numberReady: 1}", with: "{}", change: keeping("", "", "taints: [{key: slinky.slurm.net/slurm, effect: NoExecute}]"),
			want: []string{"fatal agents: 1 nodes with GPUs get no agent, because DaemonSet quoin-node/quoin-agent does not tolerate the taint slinky.slurm.net/slurm:NoExecute: n1"}},
		{name: "GPU Operator works on the node", change: keeping("nvidia.com/gpu.deploy.dcgm-exporter: paused-for-driver-upgrade", gpuOperatorSelector, ""),
			want: []string{`warning agents: 1 nodes with GPUs get no agent, because GPU Operator works on them: their label nvidia.com/gpu.deploy.dcgm-exporter is "paused-for-driver-upgrade": n1`}},
		{name: "GPU Operator does not manage the node", change: keeping("", gpuOperatorSelector, ""),
			want: []string{`warning agents: 1 nodes with GPUs get no agent, because they have no label nvidia.com/gpu.deploy.dcgm-exporter, and DaemonSet quoin-node/quoin-agent asks for "true": n1`}},
		{name: "somebody resets a GPU", change: keeping(`nvidia.com/gpu.deploy.dcgm-exporter: "false"`, gpuOperatorSelector, ""),
			want: []string{`warning agents: 1 nodes with GPUs get no agent, because their label nvidia.com/gpu.deploy.dcgm-exporter is "false", and DaemonSet quoin-node/quoin-agent asks for "true": n1`}},
		{name: "another nodeSelector, and no agent anywhere", old: "{desiredNumberScheduled: 1, numberReady: 1}", with: "{}", change: keeping("pool: b", "nodeSelector: {pool: a}", ""),
			want: []string{`fatal agents: 1 nodes with GPUs get no agent, because their label pool is "b", and DaemonSet quoin-node/quoin-agent asks for "a": n1`}},
		{name: "a node whose GPUs are taken out of use", change: keeping(`quoin.dev/agent: "false"`, chartAffinity, ""),
			want: []string{`warning agents: 1 nodes with GPUs get no agent, because their label quoin.dev/agent is "false": n1`}},
		{name: "an affinity of the site's own", change: keeping("", "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Exists}]}]}}}", ""),
			want: []string{"warning agents: 1 nodes with GPUs get no agent, because their labels match no term in the affinity of DaemonSet quoin-node/quoin-agent: n1"}},
		{name: "a node that the affinity takes, and a taint", change: func(c *Cluster) {
			keeping("", chartAffinity, "taints: [{key: a, effect: NoSchedule}]")(c)
			c.Objects["nodes"][0].SetLabels(map[string]string{"quoin.dev/agent": "true"})
		}, want: []string{"fatal agents: 1 nodes with GPUs get no agent, because DaemonSet quoin-node/quoin-agent does not tolerate the taint a:NoSchedule: n1"}},
		{name: "GPU Operator's label is asked for, and there is no GPU Operator", old: "{desiredNumberScheduled: 1, numberReady: 1}", with: "{}", change: func(c *Cluster) {
			keeping("", gpuOperatorSelector, "")(c)
			keeping("", chartAffinity, "")(c)
			c.Objects["nodes"][0].SetLabels(map[string]string{"quoin.dev/agent": "true"})
		}, want: []string{`fatal agents: 1 nodes with GPUs get no agent, because they have no label nvidia.com/gpu.deploy.dcgm-exporter, and DaemonSet quoin-node/quoin-agent asks for "true": n1`}},
		{name: "a nodeSelector alone, and a taint", change: func(c *Cluster) {
			keeping("", "nodeSelector: {pool: a}", "taints: [{key: a, effect: NoSchedule}]")(c)
			c.Objects["nodes"][0].SetLabels(map[string]string{"pool": "a"})
		}, want: []string{"fatal agents: 1 nodes with GPUs get no agent, because DaemonSet quoin-node/quoin-agent does not tolerate the taint a:NoSchedule: n1"}},
		{name: "a cordoned node that is not ready", change: keeping("", "tolerations: []", "taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}, {key: node.kubernetes.io/unreachable, effect: NoExecute}]")},
		{name: "a node without GPUs, and a taint", change: func(c *Cluster) {
			keeping("", chartAffinity, "taints: [{key: a, effect: NoSchedule}]")(c)
			c.Objects["nodes"][0].SetLabels(nil)
		}},
		{name: "a node without a report", old: "- {metadata: {name: n1}}", with: "- {metadata: {name: n2}}", want: []string{"fatal reports: 1 nodes with GPUs have no report: n1"}},
		{name: "one publisher", old: "readyReplicas: 2", with: "readyReplicas: 1", want: []string{"warning publisher: 1 of 2"}},
		{name: "a publisher in another namespace", old: "{name: quoin-publisher, namespace: quoin-system", with: "{name: quoin-publisher, namespace: mine", want: []string{"unknown config: the publisher runs in namespace mine, and its configuration was looked for in quoin-system", "fatal leader: no publisher has ever led: there is no Lease mine/quoin-publisher"}},
		{name: "nobody leads", old: "11:59:58", with: "11:58:00", want: []string{"fatal leader: no publisher leads: the Lease was last renewed 2m0s ago"}},
		{name: "two releases", old: "r/quoin:0.1.0\"}]}}}\n  status: {desired", with: "r/quoin:0.0.9\"}]}}}\n  status: {desired", want: []string{"warning version: the agents run r/quoin:0.0.9"}},
		{name: "held", old: `quoin.dev/revision: "3"`, with: `quoin.dev/revision: "3", quoin.dev/held-reason: "BigChange: 5 nodes\nKindChange: x"`, want: []string{"fatal files: default: changes are held: BigChange: 5 nodes; KindChange: x"}},
		{name: "load not known", old: `quoin.dev/revision: "3"`, with: `quoin.dev/revision: "3", quoin.dev/pending: "` + plandoc.LoadNotKnown + `", quoin.dev/asked: "2026-11-23T11:59:20Z"`, want: []string{"unknown files: default: " + plandoc.LoadNotKnown + " (asked 40 s ago; later answers are noted only if they differ)"}},
		{name: "never loaded", old: `quoin.dev/revision: "3"`, with: `quoin.dev/revision: "3", quoin.dev/pending: "The file was never loaded", quoin.dev/asked: "2026-11-23T11:59:20Z"`, want: []string{"fatal files: default: The file was never loaded (asked 40 s ago; later answers are noted only if they differ)"}},
		{name: "Slurm cannot be asked", old: `quoin.dev/revision: "3"`, with: `quoin.dev/revision: "3", quoin.dev/pending: "Slurm cannot be asked; the publisher's log says why"`, want: []string{"unknown files: default: whether Slurm has loaded the files: Slurm cannot be asked; the publisher's log says why (never answered)"}},
		{name: "a seed", old: `quoin.dev/revision: "3"`, with: `quoin.dev/seed: "x"`, want: []string{"warning files: default: no plan is published yet"}},
		{name: "the first publication waits", old: `quoin.dev/revision: "3"`, with: `quoin.dev/seed: "x", quoin.dev/waits: "settleTime, until 2026-11-23T12:03:30Z: the first publication waits for node n2"`,
			want: []string{"warning files: default: no plan is published yet, so no node has a place; waits: settleTime, until 2026-11-23 12:03:30Z (in 3 min): the first publication waits for node n2"}},
		{name: "another's ConfigMap", old: "{quoin.dev/kind: publication}", with: "{}", want: []string{"fatal files: default: ConfigMap slurm/quoin-slurm is somebody else's"}},
		{name: "Alloc alone", old: "PrologFlags=Contain", with: "PrologFlags=Alloc", want: []string{"fatal slinky: Controller slurm/slurm: PrologFlags has no Contain"}},
		{name: "the operator's own flags", old: "GresTypes=gpu\\nPrologFlags=Contain\\n", with: "TaskPlugin=task/none\\n"},
		{name: "reconfigure is off", old: "spec: {configFileRefs", with: "spec: {inplaceReconfigure: false, configFileRefs", want: []string{"fatal slinky: Controller slurm/slurm: inplaceReconfigure is off"}},
		{name: "no prolog", old: "[{name: quoin-hook-prolog}]", with: "[]", want: []string{"prologScriptRefs does not name quoin-hook-prolog"}},
		{name: "no prolog to name", old: "[{name: quoin-hook-prolog}]", with: "[]", change: without("configmaps", "quoin-hook-prolog"), want: []string{"prologScriptRefs does not name quoin-hook-prolog: no job is in the exporter's mapping; there is no such ConfigMap"}},
		{name: "a folder of the pod and not of the host", old: "{name: b, hostPath: {path: /run/quoin}}", with: "{name: b, emptyDir: {}}", want: []string{"fatal slinky: NodeSet slurm/gpu does not mount the host's /run/quoin"}},
		{name: "Slinky, and the Nodes' names", set: []string{"publicationDefaults.slurmNames=short"},
			want: []string{"fatal slinky: default: Controller slurm/slurm loads the files, and slurmNames is short: Slurm calls the pods of slurm/gpu otherwise than their Nodes"}},
		{name: "Slinky, and parts of the Nodes' names, of one of two", set: []string{"publications.a.slurmNames=s/n(.*)/\\1/", "publications.b.namespace=other", "publications.b.configMap=x"},
			want: []string{"fatal files: a: nothing is published", "fatal slinky: a: Controller slurm/slurm loads the files, and slurmNames is s/n(.*)/\\1/: ", "fatal slinky: Controller slurm/slurm: configFileRefs names quoin-slurm, which has files of another publication; configFileRefs does not name quoin-slurm-a: slurmctld does not get the published files; not yet, because slurmNames of a is wrong", "fatal files: b: nothing is published", "warning release: b: no release of Slurm is seen", "warning slinky: b: slurmNames is slinky, and namespace other has no Controller"}},
		{name: "Slinky, a pod for each Node, and the Nodes' names", old: "controllerRef: {name: slurm}", with: "scalingMode: DaemonSet\n    controllerRef: {name: slurm}", set: []string{"publicationDefaults.slurmNames=full"},
			want: []string{"warning slinky: default: Controller slurm/slurm loads the files, and slurmNames is full: the files have each Node"}},
		{name: "Slinky, pods on the hosts' network, and the Nodes' names", old: "template: {spec: {volumes", with: "template: {spec: {hostNetwork: true, volumes", set: []string{"publicationDefaults.slurmNames=short"},
			want: []string{"warning slinky: default: Controller slurm/slurm loads the files, and slurmNames is short: the files have each Node"}},
		{name: "Slinky, and names by a label", set: []string{"publicationDefaults.slurmNames=label:slinky.slurm.net/slurm-nodename"}},
		{name: asChartMakesIt, old: "{configFileRefs: [{name: quoin-slurm}], prologScriptRefs: [{name: quoin-hook-prolog}], epilogScriptRefs: [{name: quoin-hook-epilog}],", with: "{configFileRefs: [{name: slurm-config-extra}],",
			change: func(c *Cluster) { addMap(c, "slurm-config-extra", nil, "cgroup.conf"); inplace(c) },
			want: []string{"fatal slinky: Controller slurm/slurm: configFileRefs does not name quoin-slurm: slurmctld does not get the published files; prologScriptRefs does not name quoin-hook-prolog: no job is in the exporter's mapping; " +
				"epilogScriptRefs does not name quoin-hook-epilog: jobs keep their labels until the agent sees their end; inplaceReconfigure is off"}},
		{name: "the site's own files are not named", change: func(c *Cluster) { addMap(c, "slurm-config-extra", nil, "cgroup.conf") },
			want: []string{"fatal slinky: Controller slurm/slurm: configFileRefs does not name slurm-config-extra"}},
		{name: "one file twice", old: "[{name: quoin-slurm}]", with: "[{name: slurm-config-extra}, {name: quoin-slurm}]", change: func(c *Cluster) { addMap(c, "slurm-config-extra", nil, "topology.conf") },
			want: []string{"fatal slinky: Controller slurm/slurm: topology.yaml is in ConfigMap quoin-slurm, and topology.conf in ConfigMap slurm-config-extra: slurmctld loads one of the two"}},
		{name: "one file twice if the refs were as they should be", old: "[{name: quoin-slurm}]", with: "[{name: mine}]", change: func(c *Cluster) { addMap(c, "mine", nil, "topology.yaml") },
			want: []string{"topology.yaml is in ConfigMap quoin-slurm, and topology.yaml in ConfigMap mine", "fatal slinky: Controller slurm/slurm: configFileRefs does not name quoin-slurm"}},
		{name: "a renamed publication", old: "[{name: quoin-slurm}]", with: "[{name: mine}, {name: quoin-slurm}]", set: []string{"publications.gb.removeAfter=20m"}, change: func(c *Cluster) {
			addMap(c, "mine", nil, "cgroup.conf")
			addMap(c, "quoin-slurm-gb", revised, "topology.yaml")
		},
			want: []string{"fatal slinky: Controller slurm/slurm: configFileRefs names quoin-slurm, which has files of another publication; configFileRefs does not name quoin-slurm-gb: slurmctld does not get the published files"}},
		{name: "a ConfigMap that does not exist", old: "[{name: quoin-slurm}]", with: "[{name: gone}, {name: quoin-slurm}]", want: []string{"fatal slinky: Controller slurm/slurm: configFileRefs names gone, which does not exist"}},
		{name: "the site's own files are not named, and changes are held", old: `quoin.dev/revision: "3"`, with: `quoin.dev/revision: "3", quoin.dev/held-reason: "x"`, change: func(c *Cluster) { addMap(c, "slurm-config-extra", nil, "cgroup.conf") },
			want: []string{"fatal files: default: changes are held", "fatal slinky: Controller slurm/slurm: configFileRefs does not name slurm-config-extra: slurmctld does not get configFiles of Slinky's chart"}},
		{name: "a renamed publication, and a file of the site's own in the old ConfigMap", old: "data: {topology.yaml:", with: "data: {cgroup.conf: x, topology.yaml:", set: []string{"publications.gb.removeAfter=20m"}, change: func(c *Cluster) { addMap(c, "quoin-slurm-gb", revised, "topology.yaml") },
			want: []string{"not yet, because cgroup.conf of the site is in ConfigMap quoin-slurm: put it into another one"}},
		{name: "a renamed publication without a plan", set: []string{"publications.gb.removeAfter=20m"}, change: func(c *Cluster) {
			addMap(c, "quoin-slurm-gb", map[string]string{plandoc.AnnotationSeed: "x"}, "topology.yaml")
		},
			want: []string{"warning files: gb: no plan is published yet", "not yet, because ConfigMap slurm/quoin-slurm-gb has no plan yet, and slurmctld does not start without the blocks of its nodes"}},
		{name: "files that slurmctld would not load", old: "[{name: quoin-slurm}]", with: "[]", change: func(c *Cluster) {
			_ = unstructured.SetNestedField(c.named("configmaps", "slurm", "quoin-slurm").Object, "- {topology: x}\n", "data", "topology.yaml")
		},
			want: []string{"not yet, because slurmctld would not load ConfigMap slurm/quoin-slurm: topology.yaml:"}},
		{name: "a ConfigMap without files", old: "[{name: quoin-slurm}]", with: "[]", change: func(c *Cluster) { delete(c.named("configmaps", "slurm", "quoin-slurm").Object, "data") },
			want: []string{"not yet, because ConfigMap slurm/quoin-slurm has no files"}},
		{name: "ConfigMaps that nobody may read", old: "[{name: quoin-slurm}]", with: "[]", change: func(c *Cluster) { c.Missing["configmaps"] = forbidden("configmaps") },
			want: []string{"unknown unseen: 3 things cannot be seen: configmaps, exporter, slinky; the first: list configmaps: configmaps is forbidden: no"}},
		{name: "two Controllers, and none is named", change: twoControllers, want: []string{"warning release: default: no release of Slurm is seen", "unknown slinky: default: it is not known which Controller loads the files, because namespace slurm has several"}},
		{name: "two Controllers, each named by nodes.slinky, with the preset's names", change: func(c *Cluster) { twoControllers(c); addMap(c, "quoin-slurm-b", revised, "topology.yaml") },
			set: []string{"publications.default.nodes.slinky=slurm", "publications.b.nodes.slinky=slurm-b"}},
		{name: "a Controller that loads the files of another one's publication too", change: func(c *Cluster) {
			twoControllers(c)
			addMap(c, "quoin-slurm-b", revised, "topology.yaml")
			_ = unstructured.SetNestedSlice(c.Objects["controllers"][1].Object, []any{map[string]any{"name": "quoin-slurm-b"}, map[string]any{"name": "quoin-slurm"}}, "spec", "configFileRefs")
		}, set: []string{"publications.default.nodes.slinky=slurm", "publications.b.nodes.slinky=slurm-b"}, want: []string{"fatal slinky: Controller slurm/slurm-b: configFileRefs names quoin-slurm, which has files of another publication"}},
		{name: "a Controller that does not exist", set: []string{"publications.default.nodes.slinky=x"}, want: []string{"warning release: default: no release of Slurm is seen", "warning slinky: default: nodes.slinky or slurmNames names Controller slurm/x, which does not exist"}},
		{name: "a Controller of another namespace than the files", set: []string{"publicationDefaults.namespace=other", "publicationDefaults.nodes.slinky=slurm/slurm"},
			want: []string{"fatal files: default: nothing is published", "fatal slinky: Controller slurm/slurm: default publishes in namespace other, and a Controller loads ConfigMaps of its own namespace"}},
		{name: "two publications for one Controller", set: []string{"publications.a.configMap=quoin-slurm", "publications.b.configMap=quoin-hook-prolog"},
			want: []string{"fatal slinky: a: publications a, b are all for Controller slurm/slurm, which loads the files of one", "fatal files: b: ", "fatal slinky: b: publications"}},
		{name: "a publication that no Slurm loads", set: append(unloaded("kubernetes"), "publications.default.labels=true"), change: func(c *Cluster) { addMap(c, "quoin-slurm-kubernetes", revised, "topology.yaml") }},
		{name: "a Controller that no publication is for", set: unloaded("default"), want: []string{"unknown slinky: default: it is not known whether Controller slurm/slurm loads the files: annotate is false, no Slurm is asked, and slurmNames is short"}},
		{name: "no Controller, and the Nodes' names", change: func(c *Cluster) { delete(c.Objects, "controllers"); delete(c.Objects, "nodesets") }, set: []string{"publicationDefaults.slurmNames=short"},
			want: []string{"warning release: default: no release of Slurm is seen: the files are for 25.05 and newer"}},
		{name: "no Controller, and a Slurm that is asked", change: func(c *Cluster) { delete(c.Objects, "controllers"); delete(c.Objects, "nodesets") }, set: []string{"publicationDefaults.slurmNames=short", "publicationDefaults.slurm.url=http://slurmrestd:6820"}},
		{name: "an image that names no release", old: "slurmctld:25.11-ubuntu24.04", with: "slurmctld:latest", want: []string{"warning release: default: no release of Slurm is seen: the files are for 25.05 and newer"}},
		{name: "an image that names no release, and one that is typed", old: "slurmctld:25.11-ubuntu24.04", with: "slurmctld:latest", set: []string{"publicationDefaults.slurmVersion=25.11"}},
		{name: "the same release typed", set: []string{"publicationDefaults.slurmVersion=25.11.2"}},
		{name: "another release typed, and no files yet", set: []string{"publicationDefaults.slurmVersion=26.05"}, want: []string{"warning release: default: slurmVersion is 26.05, and Slurm 25.11 runs"}},
		{name: "another release typed, whose files load", change: published, set: []string{"publicationDefaults.slurmVersion=26.05"},
			want: []string{"warning release: default: slurmVersion is 26.05, and Slurm 25.11 runs, which loads the files too"}},
		{name: "another release typed, whose files do not load", old: "slurmctld:25.11-ubuntu24.04", with: "slurmctld:24.11.5", change: published, set: []string{"publicationDefaults.slurmVersion=26.05"},
			want: []string{"fatal release: default: slurmVersion is 26.05, and Slurm 24.11 runs, which would not load the files: Slurm 24.11 does not read topology.yaml"}},
		{name: "another release typed, whose files do not load, and a Controller that lacks them", old: "[{name: quoin-slurm}]", with: "[]", set: []string{"publicationDefaults.slurmVersion=26.05"}, change: func(c *Cluster) {
			published(c)
			_ = unstructured.SetNestedField(c.Objects["controllers"][0].Object, "slurmctld:24.11.5", "spec", "slurmctld", "image")
		},
			want: []string{"fatal release: ", "not yet, because slurmVersion is 26.05, and Slurm 24.11 runs, which would not load the files"}},
		{name: "a configuration that agents refuse", old: "configmaps:\n", with: "configmaps:\n- {metadata: {name: quoin-config, namespace: quoin-node}, data: {quoin.yaml: \"agent: {x: y}\"}}\n",
			want: []string{`fatal config: the agents do not start: ConfigMap quoin-node/quoin-config:1: unknown key "x"`, "unknown exporter: it is not known which directory the hook writes"}},
		{name: "the exporter's mapping is off", old: "enabled: true", with: "enabled: false", want: []string{"fatal exporter: ClusterPolicy cluster-policy: hpcJobMapping is off"}},
		{name: "the exporter reads elsewhere", old: "enabled: true, directory: /var/lib/dcgm-exporter/job-mapping", with: "enabled: true, directory: /x", want: []string{"the exporter reads /x, and the hook writes"}},
		{name: "an old Kubernetes", change: func(c *Cluster) { c.Kubernetes = "v1.28.1" }, want: []string{"fatal kubernetes: the API server is Kubernetes v1.28.1: Quoin needs 1.30, for admission policies"}},
		{name: "before ComputeDomains", change: func(c *Cluster) { c.Kubernetes = "v1.33.0-eks-1" }, want: []string{"warning kubernetes: the API server is v1.33.0-eks-1"}},
		{name: "the first with ComputeDomains", change: func(c *Cluster) { c.Kubernetes = "v1.34.0" }},
		{name: "a Kubernetes of its own", change: func(c *Cluster) { c.Kubernetes = "main" }, want: []string{"unknown kubernetes: the API server is Kubernetes main: it is not known whether this is 1.30 or newer"}},
		{name: "another release than this program", change: images("r/quoin:0.0.9"), want: []string{"warning version: this is quoin 0.1.0, and the cluster runs 0.0.9"}},
		{name: "an image of no release", change: images("r/quoin:latest")},
		{name: "an image by digest", change: images("r/quoin@sha256:0")},
		{name: "clocks", change: func(c *Cluster) { c.Ahead, c.Now = -2*time.Minute, now.Add(2*time.Minute) }, want: []string{"warning clock: the clock here differs by -2m0s", "fatal leader"}},
		{name: "a token that nobody may try", change: func(c *Cluster) { c.Forgery = errNotTried }, want: []string{"unknown admission: 6 policies deny; whether they refuse a stolen agent token was not tried (not tried)"}},
		{name: "a stolen token", change: func(c *Cluster) { c.Forgery = nil }, want: []string{"fatal admission: an agent's token may write another node's report"}},
		{name: "a policy that warns only", change: func(c *Cluster) {
			_ = unstructured.SetNestedStringSlice(c.Objects["validatingadmissionpolicybindings"][0].Object, []string{"Warn"}, "spec", "validationActions")
		}, want: []string{"fatal admission: admission policies do not deny: quoin-agent-own-report"}},
		{name: "a right that is missing", change: func(c *Cluster) {
			c.Rights = []right{{component: "publisher", verb: "list", resource: "nodes", must: true}}
		},
			want: []string{"fatal permissions: rights are missing (publisher: list nodes)"}},
		{name: "a right too many", change: func(c *Cluster) { c.Rights = []right{{component: "agent", verb: "get", resource: "secrets", is: true}} },
			want: []string{"warning permissions: accounts have rights that Quoin does not need (agent: get secrets)"}},
		{name: "rights that nobody may ask for", change: func(c *Cluster) { c.Rights = []right{{component: "agent", err: errors.New("forbidden")}} },
			want: []string{"unknown permissions: ask what the agent may do: forbidden"}},
		{name: "no right", change: func(c *Cluster) {
			delete(c.Objects, "leases")
			c.Missing["leases"] = forbidden("leases")
		}, want: []string{"unknown leases: list leases: leases is forbidden: no"}},
		{name: "device classes that nobody may list", change: func(c *Cluster) { c.Missing["deviceclasses"] = forbidden("deviceclasses") },
			want: []string{"unknown unseen: 2 things cannot be seen: deviceclasses, imex; the first: list deviceclasses: deviceclasses is forbidden: no"}},
		{name: "an API server that does not answer, and rights that are missing", change: func(c *Cluster) {
			c.Missing["leases"], c.Missing["clusterpolicies"], c.Missing["computedomains"] = errors.New("list leases: timeout"), errors.New("list clusterpolicies: timeout"), forbidden("computedomains")
		}, want: []string{"unknown unseen: 2 things cannot be seen: clusterpolicies, leases; the first: list clusterpolicies: timeout", "unknown unseen: 2 things cannot be seen: computedomains, imex; the first: list computedomains: computedomains is forbidden: no"}},
		{name: "renamed policies", change: func(c *Cluster) {
			for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
				for i := range c.Objects[resource] {
					c.Objects[resource][i].SetName(strings.Replace(c.Objects[resource][i].GetName(), "quoin", "site", 1))
				}
			}
		}},
	}
}

// byYAML makes a cluster on which kubectl has applied the YAML. Nothing marks that.
func byYAML(c *Cluster) {
	for _, o := range []*unstructured.Unstructured{c.workload(componentAgent), c.workload(componentPublisher)} {
		labels := o.GetLabels()
		delete(labels, "app.kubernetes.io/managed-by")
		o.SetLabels(labels)
		o.SetAnnotations(nil)
	}
}

// TestInstallation holds that no remedy is for another installation than the one that is there, whatever is
// wrong, and what the remedies for Quoin's own objects are.
func TestInstallation(t *testing.T) {
	for _, tt := range clusterCases() {
		for _, how := range []struct {
			name, never string
			change      func(*Cluster)
		}{{"Helm", "apply -k", func(*Cluster) {}}, {"YAML", "helm", byYAML}} {
			c := clusterOf(t, tt.old, tt.with)
			if tt.change != nil {
				tt.change(c)
			}
			how.change(c)
			c.Options = options(t, tt.set...)
			for _, f := range c.Findings() {
				if strings.Contains(f.Remedy, how.never) {
					t.Errorf("%s, installed by %s: remedy %q", tt.name, how.name, f.Remedy)
				}
			}
		}
	}
	without := func(c *Cluster) { delete(c.Objects, "daemonsets"); delete(c.Objects, "deployments") }
	for _, tt := range []struct {
		name   string
		change func(*Cluster)
		want   []string // apply, correct, change
	}{
		{"by Helm", func(*Cluster) {}, []string{
			"in a checkout of this release: helm upgrade blue manifests/chart -n gpus --reset-then-reuse-values",
			"correct the value in the file of values, in a checkout of this release: helm upgrade blue manifests/chart -n gpus --reset-then-reuse-values -f site.yaml",
			"in a checkout of this release: helm upgrade blue manifests/chart -n gpus --reset-then-reuse-values --set config.publications.a.slurmNames=slinky"}},
		{"by Helm, and no publisher", func(c *Cluster) { delete(c.Objects, "deployments") }, []string{
			"in a checkout of this release: helm upgrade quoin manifests/chart -n quoin-system --reset-then-reuse-values",
			"correct the value in the file of values, in a checkout of this release: helm upgrade quoin manifests/chart -n quoin-system --reset-then-reuse-values -f site.yaml",
			"in a checkout of this release: helm upgrade quoin manifests/chart -n quoin-system --reset-then-reuse-values --set config.publications.a.slurmNames=slinky"}},
		{"by YAML", byYAML, []string{
			"apply Quoin's YAML again (3b in manifests/docs/install.md; with Argo CD or Flux, change its repository instead): kubectl apply -k site",
			"correct the value in the quoin.yaml that your kustomization gives to ConfigMap quoin-node/quoin-config (3b in manifests/docs/install.md; with Argo CD or Flux, change its repository instead): " +
				"kubectl apply -k site && kubectl -n quoin-node rollout restart daemonsets/quoin-agent",
			"write publications.a.slurmNames: slinky in the quoin.yaml that your kustomization gives to ConfigMap quoin-system/quoin-config (3b in manifests/docs/install.md; with Argo CD or Flux, change its repository instead): " +
				"kubectl apply -k site && kubectl -n quoin-system rollout restart deployments/quoin-publisher"}},
		{"not at all", without, []string{
			"choose presets and write site.yaml (manifests/docs/install.md); in a checkout of this release: helm install quoin manifests/chart -n quoin-system --create-namespace" +
				" -f manifests/chart/presets/slinky.yaml -f manifests/chart/presets/gpu-operator.yaml -f site.yaml",
			"correct the value", "set publications.a.slurmNames to slinky"}},
		{"nobody knows", func(c *Cluster) { without(c); c.Missing["deployments"] = errors.New("forbidden") }, []string{
			moreRights, "correct the value", "set publications.a.slurmNames to slinky"}},
	} {
		c := clusterOf(t, "", "")
		c.Kubectl, c.Helm = "kubectl", "helm"
		tt.change(c)
		if diff := cmp.Diff(tt.want, []string{c.apply(), c.installed().correct(componentAgent), c.installed().change("publications.a.slurmNames", "slinky")}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestHookDir looks for the hook where Quoin was installed.
func TestHookDir(t *testing.T) {
	for _, tt := range []struct {
		name, given, store, want string
		packaged                 bool
	}{
		{"in a pod", "", "", "/opt/quoin/bin", false},
		{"on a machine of the package", "", "/shared/quoin", "/usr/lib/quoin", true},
		{"as somebody says", "/x", "/shared/quoin", "/x", false},
		{"as the package has it, and somebody says it", "/usr/lib/quoin", "", "/usr/lib/quoin", true},
	} {
		conf := config.Default()
		conf.Agent.Store = tt.store
		if n := (&Options{Config: conf, HookDir: tt.given}).node(); n.hookDir != tt.want || n.packaged != tt.packaged {
			t.Errorf("%s: %s, of a package: %t; want %s, %t", tt.name, n.hookDir, n.packaged, tt.want, tt.packaged)
		}
	}
}

func TestCluster(t *testing.T) {
	for _, tt := range clusterCases() {
		t.Run(tt.name, func(t *testing.T) {
			got := worst(tt.findings(t))
			if len(got) != len(tt.want) {
				t.Fatalf("findings %q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.Contains(got[i], tt.want[i]) {
					t.Errorf("finding %q, want %q", got[i], tt.want[i])
				}
			}
		})
	}
}

// TestUnseen holds that what may not be listed is not known, and is no fault.
func TestUnseen(t *testing.T) {
	for _, p := range paths {
		c := clusterOf(t, "", "")
		delete(c.Objects, p.resource)
		c.Missing[p.resource] = forbidden(p.resource)
		found := c.Findings()
		if topology.Has(found, topology.Fatal) || topology.Has(found, topology.Warning) || !topology.Has(found, topology.Unknown) {
			t.Errorf("%s: %q", p.resource, worst(found))
		}
	}
}

// TestOnePublication looks at one publication of two. The other one's Controller is known all the same.
func TestOnePublication(t *testing.T) {
	c := clusterOf(t, "", "")
	addMap(c, "quoin-slurm-kubernetes", revised, "topology.yaml")
	o := options(t, append(unloaded("kubernetes"), "publications.default.labels=true")...)
	o.Publications = slices.DeleteFunc(slices.Clone(o.Publications), func(p *publication.Cluster) bool { return p.Name != "kubernetes" })
	c.Options = o
	if found := worst(c.Findings()); len(found) > 0 {
		t.Errorf("findings %q", found)
	}
}

func TestHead(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(c *Cluster)
	}{
		{"all is well", "nodes: 1, of which 1 are labelled as nodes with GPUs; leader: a, renewed 2026-11-23T11:59:58.000000Z", func(*Cluster) {}},
		{"no publisher", "nodes: 1, of which 1 are labelled as nodes with GPUs; leader: nobody", func(c *Cluster) { delete(c.Objects, "deployments") }},
		{"nothing may be listed", "nodes: not known; leader: not known", func(c *Cluster) {
			c.Objects, c.Missing = nil, map[string]error{"nodes": forbidden("nodes"), "leases": forbidden("leases")}
		}},
	} {
		c := clusterOf(t, "", "")
		if tt.change(c); c.Head() != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, c.Head(), tt.want)
		}
	}
}

// goodNode makes a node on which all is well.
func goodNode(t *testing.T) *node {
	t.Helper()
	root := filepath.Join(t.TempDir(), hard)
	for name, text := range map[string]string{"proc/sys/kernel/random/boot_id": "11111111-0000-4000-8000-000000000000\n",
		"opt/quoin-hook": "#!/bin/sh\necho 'quoin-hook 0.1.0 (go1, linux/amd64)'\n"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	conf := config.Default()
	agent := &conf.Agent
	agent.HostRoot, agent.RunDir, agent.MappingDir = root, filepath.Join(root, "run"), filepath.Join(root, "mapping")
	dir := rundir.Dir(agent.RunDir)
	if err := errors.Join(os.Mkdir(agent.MappingDir, 0o755), dir.WriteHookConfig(rundir.HookConfig{MappingDir: agent.MappingDir}),
		dir.WriteInventory(rundir.Inventory{Node: "n1", BootID: "11111111-0000-4000-8000-000000000000", Entries: []rundir.Entry{{UUID: "GPU-1"}}}),
		os.MkdirAll(dir.SummaryDir(), 0o755), os.WriteFile(filepath.Join(dir.SummaryDir(), "1.json"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return (&Options{Config: conf, Node: "n1", HookDir: filepath.Join(root, "opt"), Version: "0.1.0", Commands: session.Commands{Kubectl: "kubectl" + config.Flag("--context", hard), Again: config.Flag("--context", hard)}}).node()
}

// nodeCase is a node that differs from the good one, and what is found.
type nodeCase struct {
	name   string
	change func(t *testing.T, n *node)
	want   []string
}

func (tt *nodeCase) findings(t *testing.T) []topology.Finding {
	t.Helper()
	n := goodNode(t)
	tt.change(t, n)
	return n.findings(context.WithoutCancel(t.Context()))
}

func nodeCases() []nodeCase {
	remove := func(name string) func(*testing.T, *node) {
		return func(t *testing.T, n *node) {
			if err := os.RemoveAll(filepath.Join(n.agent.HostRoot, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return []nodeCase{
		{"all is well", func(*testing.T, *node) {}, nil},
		{"no hook", remove("opt"), []string{"fatal hook: the hook does not run"}},
		{"an old hook", func(_ *testing.T, n *node) { n.Version = "0.2.0" }, []string{"warning hook: the hook has release 0.1.0"}},
		{"never called", remove("run/summaries"), []string{"warning calls: no job has called the hook"}},
		{"no agent", remove("run/hook.json"), []string{"fatal agent: the agent has not written"}},
		{"a machine of the package on which nothing runs", func(t *testing.T, n *node) {
			n.agent.Store, n.packaged = "/shared", true
			remove("opt")(t, n)
			remove("run/hook.json")(t, n)
			remove("run/summaries")(t, n)
			n.agent.DCGMExporter = "http://127.0.0.1:1/metrics"
		}, []string{"fatal hook: the hook does not run", "warning calls: no job has called the hook", "fatal agent: the agent has not written", "fatal exporter: DCGM Exporter does not answer"}},
		{"a machine of the package without a mapping", func(t *testing.T, n *node) {
			n.agent.Store = "/shared"
			remove("mapping")(t, n)
		}, []string{"fatal mapping: the exporter's directory is not there"}},
		{"no inventory", remove("run/inventory.json"), []string{"fatal inventory: there is no inventory of GPUs"}},
		{"GPUs in no order", func(t *testing.T, n *node) {
			if err := rundir.Dir(n.agent.RunDir).WriteInventory(rundir.Inventory{Node: "n1", Unordered: true}); err != nil {
				t.Fatal(err)
			}
		}, []string{"warning inventory: the order of the GPUs is not known"}},
		{"faults", func(t *testing.T, n *node) {
			inv := rundir.Inventory{Node: "n1", Faults: []rundir.Fault{{Text: "FabricInProgress: 8 of 8 GPUs have not registered"}, {UUID: "GPU-1", Text: "GPU GPU-1 had Xid 119"}}}
			if err := rundir.Dir(n.agent.RunDir).WriteInventory(inv); err != nil {
				t.Fatal(err)
			}
		}, []string{"warning hardware: FabricInProgress: 8 of 8 GPUs have not registered", "warning hardware: GPU GPU-1 had Xid 119"}},
		{"an earlier boot", func(t *testing.T, n *node) {
			if err := os.WriteFile(filepath.Join(n.agent.HostRoot, "proc/sys/kernel/random/boot_id"), []byte("22222222-0000-4000-8000-000000000000\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"fatal inventory: the inventory was written before this boot"}},
		{"no mapping", remove("mapping"), []string{"fatal mapping: the exporter's directory is not there"}},
		{"the gate is shut", func(t *testing.T, n *node) {
			if err := gate.Write(n.agent.RunDir, gate.State{Node: "n1", Clique: "c", Reason: "NotReady", Message: "the daemon starts"}); err != nil {
				t.Fatal(err)
			}
		}, []string{"fatal imex: NotReady: the daemon starts"}},
		{"a peer is not connected", func(t *testing.T, n *node) {
			if err := gate.Write(n.agent.RunDir, gate.State{Node: "n1", Clique: "c", Ready: true, Reason: "Ready", Message: "it has no connection to 10.0.0.2", Remedy: "look at it"}); err != nil {
				t.Fatal(err)
			}
		}, []string{"warning imex: ready in clique c: it has no connection to 10.0.0.2"}},
		{"nothing is known of the peers", func(t *testing.T, n *node) {
			if err := gate.Write(n.agent.RunDir, gate.State{Node: "n1", Clique: "c", Ready: true, Reason: "Ready", PeersUnknown: "no answer"}); err != nil {
				t.Fatal(err)
			}
		}, []string{"warning imex: ready in clique c, but it is not known to which nodes this one is connected: no answer"}},
		{"the exporter does not answer", func(_ *testing.T, n *node) { n.agent.DCGMExporter = "http://127.0.0.1:1/metrics" }, []string{"fatal exporter: DCGM Exporter does not answer"}},
		{"the exporter has trouble", func(t *testing.T, n *node) {
			server := httptest.NewServer(http.NotFoundHandler())
			t.Cleanup(server.Close)
			n.agent.DCGMExporter = server.URL
		}, []string{"fatal exporter: DCGM Exporter answers with status 404"}},
	}
}

func TestNode(t *testing.T) {
	for _, tt := range nodeCases() {
		t.Run(tt.name, func(t *testing.T) {
			got := worst(tt.findings(t))
			if len(got) != len(tt.want) {
				t.Fatalf("findings %q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.Contains(got[i], tt.want[i]) {
					t.Errorf("finding %q, want %q", got[i], tt.want[i])
				}
			}
		})
	}
}

// TestClasses says whether the driver serves what nodes join by.
func TestClasses(t *testing.T) {
	class := func(name string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	}
	c := clusterOf(t, "", "")
	for join, want := range map[string]int{"none": 0, "host": 0, "holder": 1, "slurmd": 1} {
		c.Config.IMEX.Join = join
		var f findings
		c.classes(&f)
		if len(f) != want || want > 0 && f[0].Severity != topology.Fatal {
			t.Errorf("%s: %v", join, f)
		}
	}
	c.Objects["deviceclasses"] = []unstructured.Unstructured{class("compute-domain-daemon.nvidia.com"), class("compute-domain-default-channel.nvidia.com")}
	c.Config.IMEX.Join = imex.JoinHolder
	var f findings
	c.classes(&f)
	if len(f) != 1 || f[0].Severity != topology.OK {
		t.Errorf("with both: %v", f)
	}
}

// TestNodes names the nodes on which a condition of the publisher reports a fault.
func TestNodes(t *testing.T) {
	c := clusterOf(t, "", "")
	node := func(name, of, status, reason string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "status": map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady"}, map[string]any{"type": of, "status": status, "reason": reason, "message": "what is seen"}}}}}
	}
	c.Objects["nodes"] = []unstructured.Unstructured{node("n04", "QuoinFabricDegraded", "False", "FabricHealthy"), node("n05", "QuoinFabricDegraded", "True", "FabricMissing"),
		node("n06", "QuoinFabricDegraded", "True", "FabricMissing"), node("n07", "QuoinFabricDegraded", "True", "LinksDown"), node("n08", "QuoinImexNotReady", "True", "NotReady"), node("n09", "QuoinTopologyDrift", "True", "CliqueDiffers"),
		node("n04", "QuoinFabricDegraded", "False", "FabricInProgress"), node("n03", "QuoinFabricDegraded", "False", "FabricNotReady")}
	var f findings
	c.nodes(&f)
	var got []string
	for _, found := range f {
		got = append(got, found.Thing+": "+found.Message)
		if found.Severity != topology.Warning || !strings.Contains(found.Remedy, "describe node n0") {
			t.Errorf("%+v", found)
		}
	}
	want := []string{"fabric: FabricMissing: 2 nodes: n[05-06]; n05: what is seen", "fabric: FabricNotReady: 1 nodes: n03; n03: what is seen", "fabric: LinksDown: 1 nodes: n07; n07: what is seen",
		"imex: NotReady: 1 nodes: n08; n08: what is seen", "places: CliqueDiffers: 1 nodes: n09; n09: what is seen"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f = nil
	c.Now = now.Add(time.Hour)
	c.nodes(&f)
	if want := "LinksDown: 1 nodes: n07; n07: what is seen (no publisher leads: this may be over)"; len(f) != len(got) || f[2].Message != want {
		t.Errorf("nobody leads: %v, want %s", f, want)
	}
	f = nil
	c.Config.Publisher.NodeConditions = false
	c.nodes(&f)
	if len(f) != 1 || f[0].Severity != topology.Unknown {
		t.Errorf("without conditions: %v", f)
	}
}

// TestAdoptedDomain has the domain that a NodeSet's pods are to claim from, with or without pods.
func TestAdoptedDomain(t *testing.T) {
	object := func(text string) unstructured.Unstructured {
		t.Helper()
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return u
	}
	c := &Cluster{Options: options(t), Objects: map[string][]unstructured.Unstructured{
		"deviceclasses": {object(`{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"compute-domain-default-channel.nvidia.com"}}`),
			object(`{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"compute-domain-daemon.nvidia.com"}}`)},
		"computedomains": {object(`{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","metadata":{"name":"workers","namespace":"slurm","uid":"u1"},"spec":{"numNodes":0,"channel":{"resourceClaimTemplate":{"name":"workers-channel"}}}}`)},
		"nodesets":       {object(`{"apiVersion":"slinky.slurm.net/v1beta1","kind":"NodeSet","metadata":{"name":"gpu","namespace":"slurm"},"spec":{"template":{"spec":{"resourceClaims":[{"name":"channel","resourceClaimTemplateName":"workers-channel"}]}}}}`)},
	}}
	if s := c.membership(); s.Join != imex.JoinSlurmd || s.Domain.Problem.Reason != "" || !strings.Contains(s.Why, "ComputeDomain slurm/workers") {
		t.Errorf("%s (%s), %+v", s.Join, s.Why, s.Domain)
	}
	domains := c.Objects["computedomains"]
	c.Objects["computedomains"] = append(domains[:1:1], object(`{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","metadata":{"name":"quoin","namespace":"quoin-node","uid":"u2"}}`))
	var f findings
	c.imex(&f)
	if len(f) != 1 || f[0].Severity != topology.Warning || !strings.HasSuffix(f[0].Remedy, "kubectl -n quoin-node delete computedomain quoin") {
		t.Errorf("with Quoin's own beside it: %+v", f)
	}
	c.Objects["computedomains"], c.Objects["nodesets"] = domains, nil
	f = nil
	c.imex(&f)
	if len(f) != 1 || f[0].Severity != topology.Fatal || !strings.Contains(f[0].Message, "nodes join as holder") || !strings.Contains(f[0].Message, "NoDomain: ") || !strings.Contains(f[0].Message, "because there is another ComputeDomain") || f[0].Remedy == "" {
		t.Errorf("without the NodeSet: %+v", f)
	}
}
