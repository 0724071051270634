package doctor

import (
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
)

// versionOf reads the answer of /version.
func versionOf(r io.Reader) (string, error) {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.NewDecoder(io.LimitReader(r, 1<<20)).Decode(&v); err != nil {
		return "", err
	}
	if v.GitVersion == "" {
		return "", fmt.Errorf("the answer has no gitVersion")
	}
	return v.GitVersion, nil
}

// own returns Quoin's own object of a component, or nil.
func (c *Cluster) own(resource, component string) *unstructured.Unstructured {
	for i := range c.Objects[resource] {
		o := &c.Objects[resource][i]
		if l := o.GetLabels(); l["app.kubernetes.io/name"] == "quoin" && l["app.kubernetes.io/component"] == component {
			return o
		}
	}
	return nil
}

// named returns the object of a namespace and a name, or nil. A cluster's object has no
// namespace.
func (c *Cluster) named(resource, namespace, name string) *unstructured.Unstructured {
	for i := range c.Objects[resource] {
		if o := &c.Objects[resource][i]; o.GetNamespace() == namespace && o.GetName() == name {
			return o
		}
	}
	return nil
}

// knows reports whether the API server knows a kind.
func (c *Cluster) knows(resource string) bool {
	_, listed := c.Objects[resource]
	return listed
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

// nodesOf are the Nodes, with what is kept of them.
func (c *Cluster) nodesOf() []*corev1.Node {
	all := make([]*corev1.Node, len(c.Objects["nodes"]))
	for i := range all {
		n, _ := part[corev1.Node](&c.Objects["nodes"][i]) // as the API server gave it
		all[i] = &n
	}
	return all
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
	agents := c.own("daemonsets", "agent")
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
