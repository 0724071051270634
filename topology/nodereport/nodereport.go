// Package nodereport is the report of a node as an object of Kubernetes: its form and its
// client. A NodeReport belongs to no namespace, is named as its Node and is owned by it. It
// has the report's own keys beside metadata. The API server enforces the schema of
// manifests/plain/base/05-nodereports.yaml.
//
// A report that cannot be parsed costs its own node only: it is read as an error.
package nodereport

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
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
	// Digest is that of the facts' text. The API server writes equal facts alike.
	Digest [sha256.Size]byte
}

// UnmarshalJSON reads the object. A report that cannot be parsed goes into Err, so that a
// list with one is read all the same.
func (o *Object) UnmarshalJSON(data []byte) error {
	metadata, facts, err := split(data)
	if err != nil {
		return fmt.Errorf("read a NodeReport: %w", err)
	}
	*o = Object{}
	if err := json.Unmarshal(metadata, &o.ObjectMeta); err != nil {
		return fmt.Errorf("read metadata of a NodeReport: %w", err)
	}
	o.ManagedFields = nil
	source := "nodereport " + o.Name
	o.Node, o.Err = topology.ParseReport(source, facts)
	if o.Err == nil && o.Node.Name != o.Name {
		o.Node, o.Err = nil, fmt.Errorf("%s: report of node %q: want it in NodeReport %s", source, o.Node.Name, o.Node.Name)
	}
	if o.Err == nil {
		o.APIVersion, o.Kind = topology.APIVersion, topology.ReportKind
	}
	o.Digest = sha256.Sum256(facts)
	return nil
}

// split returns the text of an object's metadata, and that of the report: all members but
// metadata and summary. It reads the text once, because 10,000 reports are read when a
// publisher starts.
func split(data []byte) (metadata, facts []byte, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, nil, err
	}
	metadata, facts = []byte("{}"), make([]byte, 0, len(data))
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return nil, nil, err
		}
		start := len(facts)
		facts = append(append(append(facts, ','), name...), ':')
		value, err := dec.ReadValue()
		if err != nil {
			return nil, nil, err
		}
		switch key := string(facts[start+1 : len(facts)-1]); key {
		case `"metadata"`:
			metadata, facts = bytes.Clone(value), facts[:start]
		case `"summary"`:
			facts = facts[:start]
		default:
			facts = append(facts, value...)
		}
	}
	if len(facts) == 0 {
		return metadata, []byte("{}"), nil
	}
	facts[0] = '{'
	return metadata, append(facts, '}'), nil
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
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(report, &raw); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	members = make(map[string]any, len(raw)+2)
	for key, value := range raw {
		members[key] = value
	}
	members["metadata"], members["summary"] = meta, summarize(n)
	return json.Marshal(members)
}
