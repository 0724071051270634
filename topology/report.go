package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("%s:%d: report is not JSON: %w", source, lineOf(data, err), err)
	}
	if head.APIVersion != APIVersion || head.Kind != ReportKind {
		return nil, fmt.Errorf("%s: report of apiVersion %q, kind %q: this version reads %q, %q; run agent and publisher of one version",
			source, head.APIVersion, head.Kind, APIVersion, ReportKind)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var r report
	if err := dec.Decode(&r); err != nil {
		line := lineOf(data, err)
		if line == 0 {
			line = 1 + bytes.Count(data[:dec.InputOffset()], []byte("\n"))
		}
		return nil, fmt.Errorf("%s:%d: report: %w", source, line, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: text after the report's end: want one JSON document", source)
	}
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("%s: report of node %q: %w", source, r.Name, err)
	}
	return &r.Node, nil
}

// lineOf returns the line at which a JSON error happened, 0 when unknown.
func lineOf(data []byte, err error) int {
	var offset int64
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &typ):
		offset = typ.Offset
	default:
		return 0
	}
	return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n"))
}
