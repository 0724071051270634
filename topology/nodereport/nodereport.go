// Package nodereport is the report of a node as an object of Kubernetes: its form and its
// client. A NodeReport belongs to no namespace, is named as its Node and is owned by it. It
// has the report's own keys beside metadata. The API server enforces the schema of
// manifests/plain/base/05-nodereports.yaml.
//
// A report that cannot be parsed costs its own node only: it is read as an error.
package nodereport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quoin-hpc/quoin/topology"
)

// Resource is the name of NodeReports in requests.
const Resource = "nodereports"

// Object is a NodeReport as it is read. Its text is not kept.
type Object struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	// Node is the parsed report, nil if Err says why there is none.
	Node *topology.Node
	Err  error
}

// UnmarshalJSON reads the object. A report that cannot be parsed goes into Err, so that a
// list with one is read all the same.
func (o *Object) UnmarshalJSON(data []byte) error {
	var head struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("read metadata of a NodeReport: %w", err)
	}
	*o = Object{ObjectMeta: head.Metadata}
	o.ManagedFields = nil
	source := "nodereport " + o.Name
	o.Node, o.Err = topology.ParseObject(source, data)
	if o.Err == nil && o.Node.Name != o.Name {
		o.Node, o.Err = nil, fmt.Errorf("%s: report of node %q: want it in NodeReport %s", source, o.Node.Name, o.Node.Name)
	}
	if o.Err == nil {
		o.APIVersion, o.Kind = topology.APIVersion, topology.ReportKind
	}
	return nil
}

// DeepCopyObject implements runtime.Object. Facts are not changed after they were read, so
// the copy shares them.
func (o *Object) DeepCopyObject() runtime.Object {
	c := *o
	o.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// List is a list of NodeReports.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Object `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	c := *l
	l.DeepCopyInto(&c.ListMeta)
	c.Items = slices.Clone(l.Items)
	return &c
}

// Summary is what kubectl get nodereports shows beside facts that are single values. It is
// for people: Quoin never reads it.
type Summary struct {
	GPUs     int    `json:"gpus"`
	Fabric   string `json:"fabric,omitempty" max:"64"`
	Adapters int    `json:"adapters,omitempty"`
	Problems int    `json:"problems"`
}

// worstFirst are the words for a GPU's fabric.
var worstFirst = []string{string(topology.HealthUnhealthy), string(topology.HealthLimitedCapacity), string(topology.FabricNotStarted),
	string(topology.FabricInProgress), string(topology.HealthHealthy), string(topology.FabricCompleted), string(topology.FabricNotSupported)}

// summarize returns the summary of a node. Its fabric is that of the GPU with the worst one.
func summarize(n *topology.Node) Summary {
	s := Summary{GPUs: len(n.GPUs), Adapters: len(n.Adapters), Problems: len(n.Problems)}
	worst := len(worstFirst)
	for i := range n.GPUs {
		f := &n.GPUs[i].Fabric
		word := string(f.Health)
		if word == "" || f.State != topology.FabricCompleted {
			word = string(f.State)
		}
		if at := slices.Index(worstFirst, word); at >= 0 && at < worst {
			worst, s.Fabric = at, word
		}
	}
	return s
}

// encode returns the text of a NodeReport that has the facts of report.
func encode(report []byte, meta metav1.ObjectMeta) ([]byte, error) {
	n, err := topology.ParseReport("report", report)
	if err != nil {
		return nil, err
	}
	var members map[string]any
	dec := json.NewDecoder(bytes.NewReader(report))
	dec.UseNumber() // large numbers stay as they are
	if err := dec.Decode(&members); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	members["metadata"], members["summary"] = meta, summarize(n)
	return json.Marshal(members)
}
