package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
// Equal facts give equal bytes. Problems that are too long or too many are cut.
func EncodeReport(n *Node) ([]byte, error) {
	n = n.bounded()
	if err := n.validate(); err != nil {
		return nil, fmt.Errorf("encode report of node %q: %w", n.Name, err)
	}
	data, err := json.Marshal(report{APIVersion, ReportKind, *n})
	if err == nil && len(data) > MaxReport {
		err = errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("encode report of node %q: %w", n.Name, err)
	}
	return data, nil
}

// ParseReport reads one report. Another apiVersion or kind, and values out of range or out
// of bounds are errors that name the source and the key. Keys that nobody knows are left
// out: agent and publisher may be of two versions.
func ParseReport(source string, data []byte) (*Node, error) {
	if len(data) > MaxReport {
		return nil, fmt.Errorf("%s: report: %w", source, errTooLarge)
	}
	return ParseObject(source, data)
}

// maxObject is the most bytes of a report with metadata and line breaks.
const maxObject = 8 * MaxReport

// ParseObject reads a report that may be an object of Kubernetes, with metadata and a
// summary. The limit of a report's bytes is that of its facts.
func ParseObject(source string, data []byte) (*Node, error) {
	if len(data) > maxObject {
		return nil, fmt.Errorf("%s: report: %w", source, errTooLarge)
	}
	var r report
	err := json.Unmarshal(data, &r)
	if err == nil && r.isOfThisVersion() {
		if err = r.validate(); err == nil && len(data) > MaxReport {
			_, err = EncodeReport(&r.Node) // without all else
		}
		if err == nil {
			return &r.Node, nil
		}
	}
	if err = explain(source, data, err); len(err.Error()) > MaxMessage {
		err = errors.New(Cut(err.Error(), MaxMessage)) // it quotes the report
	}
	return nil, err
}

var errTooLarge = fmt.Errorf("larger than %d bytes", MaxReport)

func (r *report) isOfThisVersion() bool { return r.APIVersion == APIVersion && r.Kind == ReportKind }

// explain says where and why data is no report. err is nil if its version is another one.
func explain(source string, data []byte, err error) error {
	var head report
	var syntax *json.SyntaxError
	var value *json.UnmarshalTypeError
	errHead := json.Unmarshal(data, &struct{ APIVersion, Kind *string }{&head.APIVersion, &head.Kind})
	switch {
	case errors.As(errHead, &syntax):
		return fmt.Errorf("%s:%d: report is not JSON: %w", source, lineAt(data, syntax.Offset), errHead)
	case errHead == nil && !head.isOfThisVersion():
		return fmt.Errorf("%s: report of apiVersion %q, kind %q: this version reads %q, %q; run agent and publisher of one version",
			source, head.APIVersion, head.Kind, APIVersion, ReportKind)
	case errors.As(err, &value):
		key := strings.TrimPrefix(value.Field, "Node.")
		return fmt.Errorf("%s:%d: report: found %s, want %s for key %q", source, lineAt(data, value.Offset), value.Value, value.Type, key)
	}
	return fmt.Errorf("%s: report: %w", source, err)
}

// lineAt returns the line at an offset.
func lineAt(data []byte, offset int64) int { return 1 + bytes.Count(data[:offset], []byte("\n")) }
