package doctor

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

// Objects are what the API server has, by resource, such as controllers. Of NodeReports and Nodes they have names,
// labels, taints and conditions only. A resource that it does not know is absent.
type Objects map[string][]unstructured.Unstructured

// The components of Quoin that run. workloads has the resource of each one's workload.
const (
	componentAgent     = "agent"
	componentPublisher = "publisher"
)

var workloads = map[string]string{componentAgent: "daemonsets", componentPublisher: "deployments"}

// workload returns the workload of a component, or nil.
func (all Objects) workload(component string) *unstructured.Unstructured {
	return all.own(workloads[component], component)
}

// own returns Quoin's own object of a component, or nil.
func (all Objects) own(resource, component string) *unstructured.Unstructured {
	return all.first(resource, func(o *unstructured.Unstructured) bool {
		l := o.GetLabels()
		return l["app.kubernetes.io/name"] == "quoin" && l["app.kubernetes.io/component"] == component
	})
}

// named returns the object of a namespace and a name, or nil. A cluster's object has no
// namespace.
func (all Objects) named(resource, namespace, name string) *unstructured.Unstructured {
	return all.first(resource, func(o *unstructured.Unstructured) bool { return o.GetNamespace() == namespace && o.GetName() == name })
}

func (all Objects) first(resource string, is func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	for i := range all[resource] {
		if o := &all[resource][i]; is(o) {
			return o
		}
	}
	return nil
}

// knows reports whether the API server knows a kind.
func (all Objects) knows(resource string) bool {
	_, listed := all[resource]
	return listed
}

// nodesOf are the Nodes, with what is kept of them.
func (all Objects) nodesOf() []*corev1.Node {
	nodes := make([]*corev1.Node, len(all["nodes"]))
	for i := range nodes {
		n, _ := part[corev1.Node](&all["nodes"][i]) // as the API server gave it
		nodes[i] = &n
	}
	return nodes
}

// controllers are all Controllers.
func (all Objects) controllers() (read []inputs.Controller) {
	for i := range all["controllers"] {
		o := &all["controllers"][i]
		read = append(read, inputs.ReadController(o.GetNamespace(), o.GetName(), o.Object))
	}
	return read
}

// filesOf are the files of a ConfigMap.
func (all Objects) filesOf(namespace, name string) map[string]string {
	cm := all.named("configmaps", namespace, name)
	if cm == nil {
		return nil
	}
	files, _, _ := unstructured.NestedStringMap(cm.Object, "data")
	return files
}

// hasKey reports whether the definition of a kind has a key of spec. Operator 1.1 always
// reconfigures and has no inplaceReconfigure.
func (all Objects) hasKey(definition, key string) bool {
	crd := all.named("customresourcedefinitions", "", definition)
	if crd == nil {
		return false
	}
	for _, version := range objectsAt(crd.Object, "spec", "versions") {
		if _, there, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", key); there {
			return true
		}
	}
	return false
}

// text returns a string of an object, or "".
func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// number returns a number of an object, or 0.
func number(o *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return n
}

// objectsAt returns a list of objects of an object.
func objectsAt(o map[string]any, path ...string) []map[string]any {
	all, _, _ := unstructured.NestedSlice(o, path...)
	var out []map[string]any
	for _, item := range all {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// pods is where a workload has the spec of its pods.
var pods = []string{"spec", "template", "spec"}

// part reads a part of an object as its type.
func part[T any](o *unstructured.Unstructured, path ...string) (typed T, err error) {
	fields, _, err := unstructured.NestedMap(o.Object, path...)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &typed)
	}
	return typed, err
}

// imageOf returns the image of a workload's first container.
func imageOf(workload *unstructured.Unstructured) string {
	if pod, _ := part[corev1.PodSpec](workload, pods...); len(pod.Containers) > 0 {
		return pod.Containers[0].Image
	}
	return ""
}

// agentsConfig returns the configuration that the agents' pods mount. Without such a ConfigMap the configuration is
// ours, and nil if nobody knows.
func (c *Cluster) agentsConfig() (*config.Config, error) {
	agents := c.workload(componentAgent)
	switch {
	case c.Missing["configmaps"] != nil || c.Missing["daemonsets"] != nil:
		return nil, nil
	case agents == nil:
		return c.Config, nil
	}
	cm := c.named("configmaps", agents.GetNamespace(), session.ConfigName)
	if cm == nil {
		return c.Config, nil
	}
	return config.Parse(config.Default(), "ConfigMap "+agents.GetNamespace()+"/"+session.ConfigName, []byte(text(cm, "data", session.ConfigKey)), nil)
}

// mappingDir is the exporter's directory as the agents know it, or none. Empty: not known.
func (c *Cluster) mappingDir() string {
	conf, err := c.agentsConfig()
	if err != nil || conf == nil {
		return ""
	}
	return conf.Agent.MappingDir
}
