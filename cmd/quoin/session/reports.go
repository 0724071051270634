package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
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
	files, err := reportFiles(paths)
	if err != nil {
		return err
	}
	from := map[string]string{}
	for _, f := range files {
		name, report, err := f.read()
		_, absent := errors.AsType[*os.PathError](err)
		if _, other := errors.AsType[errOther](err); (absent || other) && !f.stored {
			return fmt.Errorf("read report: %w", err)
		}
		if other, dup := from[name]; err == nil && dup {
			return fmt.Errorf("%s and %s are both reports of node %q: give one of them", other, f.path, name)
		} else if err == nil {
			from[name] = f.path
		}
		snap.AddReport(name, report, err)
		if !listed[name] {
			listed[name] = true
			snap.Nodes = append(snap.Nodes, inputs.Node{Name: name})
		}
	}
	return nil
}

// reportFile is a file that should hold a report.
type reportFile struct {
	path string
	// stored: the file is in a directory of reports, where it is named after its node.
	stored bool
}

// reportFiles replaces each directory by the reports in it.
func reportFiles(paths []string) ([]reportFile, error) {
	var out []reportFile
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			out = append(out, reportFile{path, false})
			continue
		}
		files, err := filepath.Glob(filepath.Join(path, "*.json"))
		if err != nil {
			return nil, fmt.Errorf("list reports: %w", err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no reports: want files NAME.json, as in the folder reports of a directory store; nor has it topology.yaml, topology.conf, gres.conf or slurm.conf, which map, lint, check and fit take", path)
		}
		for _, f := range files {
			out = append(out, reportFile{f, true})
		}
	}
	return out, nil
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

// read reads the report. Without one, name is that of the file.
func (f reportFile) read() (name string, report *topology.Node, err error) {
	name = strings.TrimSuffix(filepath.Base(f.path), ".json")
	data, err := os.ReadFile(f.path)
	if err != nil {
		return name, nil, err
	}
	switch report, err = topology.ParseObject(f.path, data); {
	case err != nil:
		if other := otherThan(data); other != nil {
			err = fmt.Errorf("%s: %w", f.path, other)
		}
		return name, nil, err
	case f.stored && report.Name != name:
		return name, nil, fmt.Errorf("%s: report of node %q: want the file named after its node", f.path, report.Name)
	}
	return report.Name, report, nil
}

// Unread returns the problems of reports that cannot be read.
func Unread(problems []topology.Finding) []topology.Finding {
	return slices.DeleteFunc(slices.Clone(problems), func(p topology.Finding) bool { return p.Reason != inputs.ReasonReportUnreadable })
}
