package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// APIVersion and ReportKind head every report.
const (
	APIVersion = "quoin.dev/v1alpha1"
	ReportKind = "NodeReport"
)

type report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Node
}

// EncodeReport returns the node's report as one line of JSON without a newline.
// Equal facts give equal bytes.
func EncodeReport(n *Node) ([]byte, error) {
	if err := n.validate(); err != nil {
		return nil, fmt.Errorf("encode report of node %q: %w", n.Name, err)
	}
	data, err := json.Marshal(report{APIVersion, ReportKind, *n})
	if err != nil {
		return nil, fmt.Errorf("encode report of node %q: %w", n.Name, err)
	}
	return data, nil
}

// ParseReport reads one report. Unknown keys, another apiVersion or kind, and
// values out of range are errors that name the source, the line and what is
// allowed.
func ParseReport(source string, data []byte) (*Node, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var r report
	err := dec.Decode(&r)
	if err == nil {
		err = r.check(dec)
	}
	if err != nil {
		return nil, explain(source, data, err)
	}
	return &r.Node, nil
}

// errNotOneReport: text follows the report, or its version is another one. explain
// finds out which.
var errNotOneReport = errors.New("not one report of this version")

// check checks a report that dec has read.
func (r *report) check(dec *json.Decoder) error {
	if _, err := dec.Token(); !errors.Is(err, io.EOF) || r.APIVersion != APIVersion || r.Kind != ReportKind {
		return errNotOneReport
	}
	return r.validate()
}

// explain says where and why data is no report. err is the error of reading it.
func explain(source string, data []byte, err error) error {
	var head struct{ APIVersion, Kind string }
	var syntax *json.SyntaxError
	if errHead := json.Unmarshal(data, &head); errors.As(errHead, &syntax) {
		return fmt.Errorf("%s:%d: report is not JSON: %w", source, 1+bytes.Count(data[:syntax.Offset], []byte("\n")), errHead)
	} else if errHead == nil && (head.APIVersion != APIVersion || head.Kind != ReportKind) {
		return fmt.Errorf("%s: report of apiVersion %q, kind %q: this version reads %q, %q; run agent and publisher of one version",
			source, head.APIVersion, head.Kind, APIVersion, ReportKind)
	}
	lines, found := locate(data, reflect.TypeFor[report]())
	var field *fieldError
	switch {
	case errors.As(found, &field):
		return fmt.Errorf("%s:%d: report: %w", source, field.line, field)
	case errors.As(err, &field):
		return fmt.Errorf("%s:%d: report: %w", source, lines[field.path], err)
	}
	return fmt.Errorf("%s: report: %w", source, err)
}
