package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/reportdir"
)

// AddReports adds the reports that a command gets as arguments to a snapshot: files, and directories
// in which each file is named after its node. A report without a node in the list is a node
// too. A report that cannot be read costs its own node only: it is a problem of the node
// that its file is named after.
func AddReports(snap *inputs.Snapshot, paths []string) error {
	listed := make(map[string]bool, len(snap.Nodes))
	for i := range snap.Nodes {
		listed[snap.Nodes[i].Name] = true
	}
	from := map[string]string{}
	add := func(path, name string, report *topology.Node, err error) error {
		if other, dup := from[name]; err == nil && dup {
			return fmt.Errorf("%s and %s are both reports of node %q: give one of them", other, path, name)
		} else if err == nil {
			from[name] = path
		}
		snap.AddReport(name, report, err)
		if !listed[name] {
			listed[name] = true
			snap.Nodes = append(snap.Nodes, inputs.Node{Name: name})
		}
		return nil
	}
	for _, path := range paths {
		if !IsDirectory(path) {
			name, report, err := readReport(path)
			if err == nil || !fatal(err) {
				err = add(path, name, report, err)
			}
			if err != nil {
				return show.Unopened(err, path, "a file with a node's report")
			}
			continue
		}
		files, twice := 0, error(nil)
		err := reportdir.NewReader(path).Read(func(name string, report *topology.Node, err error) {
			files++
			twice = cmp.Or(twice, add(filepath.Join(path, name+".json"), name, report, err))
		})
		switch {
		case err != nil:
			return err
		case files == 0:
			return fmt.Errorf("%s has no reports: want files NAME.json, as in the folder reports of a directory store; nor has it topology.yaml, topology.conf, gres.conf or slurm.conf, which map, lint, check and fit take", path)
		case twice != nil:
			return twice
		}
	}
	return nil
}

// errOther is about a file that is no report at all, so that no node is named after it.
type errOther string

// Error returns the text.
func (e errOther) Error() string { return string(e) }

// otherThan says what a file is if it is no report, whole or torn.
func otherThan(data []byte) error {
	const byFlag = "give it by --nodes, or to quoin imex check by --objects"
	text := bytes.TrimSpace(data)
	if len(text) == 0 {
		return nil
	}
	if text[0] == '[' {
		return errOther("this is a JSON array and no report: want one report in each file, or by --nodes what kubectl get nodes -o json prints")
	}
	var object struct {
		Kind string `json:"kind"`
	}
	err := json.NewDecoder(bytes.NewReader(text)).Decode(&object)
	switch kind := object.Kind; {
	case text[0] != '{':
		return errOther("this is no JSON and no report: want a report as agents write it, or by --nodes what kubectl get nodes -o json prints; map, lint and check also take a file of Slurm, such as topology.conf, but not by a pipe")
	case err != nil || kind == "" || kind == topology.ReportKind:
		return nil
	case kind == "List":
		return errOther("this is a list of kubectl and no report: " + byFlag)
	case strings.HasSuffix(kind, "List"), kind == "Node":
		return errOther("this is a " + kind + " of kubectl and no report: " + byFlag)
	default:
		return errOther("this is a " + kind + " and no report: want kind " + topology.ReportKind)
	}
}

// readReport reads the report of a file. Without a report, name is that of the file. The error is an *os.PathError if the
// file cannot be read, and an errOther if it is no report.
func readReport(path string) (name string, report *topology.Node, err error) {
	name = strings.TrimSuffix(filepath.Base(path), ".json")
	data, err := os.ReadFile(path)
	if err != nil {
		return name, nil, fmt.Errorf("read report: %w", err)
	}
	if report, err = topology.ParseObject(path, data); err == nil {
		return report.Name, report, nil
	}
	if other := otherThan(data); other != nil {
		err = fmt.Errorf("read report: %s: %w", path, other)
	}
	return name, nil, err
}

// fatal reports whether an error of readReport is about more than one node.
func fatal(err error) bool {
	_, absent := errors.AsType[*os.PathError](err)
	_, other := errors.AsType[errOther](err)
	return absent || other
}

// Unread returns the problems of reports that cannot be read.
func Unread(problems []topology.Finding) []topology.Finding {
	return slices.DeleteFunc(slices.Clone(problems), func(p topology.Finding) bool { return p.Reason != inputs.ReasonReportUnreadable })
}
