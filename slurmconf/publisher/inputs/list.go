package inputs

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quoin-hpc/quoin/topology"
)

// ListReader reads the output of kubectl get -o json: lists of objects, or single objects,
// one after the other. Nodes, worker pods and the ResourceSlices of NVIDIA's
// driver make a Snapshot. Everything else streams by, so that the largest cluster fits in
// little memory.
type ListReader struct {
	// Command is the command whose output is wanted. Errors name the command. Empty: kubectl
	// get nodes -o json.
	Command string
	// Keep names the labels and annotations of Nodes that are kept. Empty: all.
	Keep NodeKeys
	// Pods are those beside Slinky's that say the names of nodes.
	Pods []NamingPods
	// Slices reads ResourceSlices. Without it, a ResourceSlice is an error.
	Slices SliceReader
	// Each, if set, gets the kind and the text of every object. The text is valid until
	// Each returns.
	Each func(kind string, object []byte) error
}

// Read reads all lists and objects. source names the input in errors.
func (lr *ListReader) Read(source string, r io.Reader) (*Snapshot, error) {
	command := lr.Command
	if command == "" {
		command = "kubectl get nodes -o json"
	}
	text := bufio.NewReaderSize(r, 1<<20)
	if err := skipByteOrderMark(text); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	keep := lr.Keep
	if keep.Labels != nil {
		keep.Labels = maps.Clone(keep.Labels)
		for _, key := range workerLabels() {
			keep.Labels[key] = true
		}
		for _, pods := range lr.Pods {
			for _, key := range pods.Selector.Keys() {
				keep.Labels[key] = true
			}
		}
	}
	l := list{objectReader: newObjectReader(text, keep, map[string]string{}), naming: lr.Pods, pods: map[string]bool{}, readSlice: lr.Slices, each: lr.Each, command: command, snap: Snapshot{Reports: map[string]*topology.Node{}}}
	if err := l.documents(); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the text ends early: want the whole output of " + command)
		} else if syntax := new(jsontext.SyntacticError); errors.As(err, &syntax) {
			err = fmt.Errorf("not JSON: %w: want the output of %s", syntax.Err, command)
		}
		return nil, fmt.Errorf("%s: byte %d: %w", source, l.dec.InputOffset(), err)
	}
	return l.snapshot(source)
}

// skipByteOrderMark skips the mark with which some programs begin UTF-8.
func skipByteOrderMark(r *bufio.Reader) error {
	start, _ := r.Peek(3) // an error comes again with the first read
	switch {
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return errors.New("text in UTF-16: want UTF-8, in PowerShell with | Out-File -Encoding utf8 FILE in place of > FILE")
	case string(start) == "\xef\xbb\xbf":
		_, err := r.Discard(len(start))
		return err
	}
	return nil
}

// list collects what the objects of all lists say.
type list struct {
	objectReader
	naming    []NamingPods
	pods      map[string]bool // those that were taken: one pod may be in several lists
	readSlice SliceReader
	each      func(kind string, object []byte) error
	command   string
	snap      Snapshot // without the workers and the slices
	workers   []Worker
	slices    []*Slice
}

// snapshot returns what was read.
func (l *list) snapshot(source string) (*Snapshot, error) {
	snap := &l.snap
	seen := make(map[string]bool, len(snap.Nodes))
	for i := range snap.Nodes {
		name := snap.Nodes[i].Name
		if seen[name] {
			return nil, fmt.Errorf("%s: two nodes are named %q: want each once", source, name)
		}
		seen[name] = true
	}
	if len(snap.Nodes) == 0 { // a list of reports alone
		names := slices.Collect(maps.Keys(snap.Reports))
		for _, p := range snap.Problems {
			names = append(names, p.Node)
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			snap.Nodes = append(snap.Nodes, Node{Name: name})
		}
	}
	snap.AddWorkers(l.workers)
	if len(l.slices) > 0 {
		snap.Slices = ReadSlices(l.slices)
	}
	return snap, nil
}

// documents reads one document and all that follow.
func (l *list) documents() error {
	for {
		if err := l.document(); err != nil {
			return err
		}
		if l.dec.PeekKind() > 0 {
			continue
		}
		_, err := l.dec.ReadToken() // says why there is no further one
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

// document reads a list, or one object.
func (l *list) document() error {
	if l.dec.PeekKind() == '[' {
		return fmt.Errorf(`this is a JSON array: want kubectl's List, an object with "items", as %s prints`, l.command)
	}
	var one object
	isList := false
	guessed := "" // the kind of items that came before that of their list
	err := l.members("a list of objects", func(key string) (err error) {
		if key != "items" {
			return l.member(&one, key)
		}
		isList = true
		guessed, err = l.items(itemKind(one.kind))
		return err
	})
	switch kind := itemKind(one.kind); {
	case err != nil:
		return err
	case guessed != "" && kind != "" && kind != guessed:
		return fmt.Errorf("the kind %s comes after items without a kind: want it before them", one.kind)
	case !isList && (l.each != nil || !isListed(one.kind)):
		return fmt.Errorf("kind %q without items: want the output of %s", one.kind, l.command)
	case !isList:
		return l.add(&one, "the "+one.kind)
	}
	return nil
}

// itemKind returns the kind of a list's items that name none: Pod in a PodList. It is ""
// for a List of any kinds.
func itemKind(list string) string { return strings.TrimSuffix(list, "List") }

// items reads the objects of a list. kind is that of items that name none. If it is not
// known, they are taken for Nodes, and items returns that guess.
func (l *list) items(kind string) (guessed string, err error) {
	if k := l.dec.PeekKind(); k != '[' {
		return "", fmt.Errorf("items: %w", l.unexpected("a list"))
	}
	if _, err := l.dec.ReadToken(); err != nil {
		return "", err
	}
	at := 0
	for ; l.dec.PeekKind() == '{'; at++ {
		var o object
		if err := l.item(&o); err != nil {
			return "", err
		}
		if o.kind == "" && kind == "" {
			guessed = "Node"
		}
		o.kind = cmp.Or(o.kind, kind, "Node")
		if err := l.add(&o, fmt.Sprintf("items[%d]", at)); err != nil {
			return "", err
		}
	}
	if l.dec.PeekKind() != ']' {
		return "", fmt.Errorf("items[%d]: %w", at, l.unexpected("an object"))
	}
	_, err = l.dec.ReadToken()
	return guessed, err
}

// item reads one object. Its text is kept if each is to have it.
func (l *list) item(o *object) error {
	r := &l.objectReader
	if l.each != nil {
		text, err := l.dec.ReadValue()
		if err != nil {
			return err
		}
		o.text = text
		inner := newObjectReader(bytes.NewReader(text), l.keep, l.known)
		r = &inner
	}
	return r.members("an object", func(key string) error { return r.member(o, key) })
}

// add takes an object that is whole.
func (l *list) add(o *object, where string) error {
	switch {
	case !isListed(o.kind):
		return fmt.Errorf("%s is a %s: want Nodes, NodeReports, Pods and ResourceSlices only, as kubectl get nodes,nodereports,pods,resourceslices -A -o json prints", where, o.kind)
	case o.node.Name == "":
		return fmt.Errorf("%s has no metadata.name", where)
	}
	if l.each != nil {
		if err := l.each(o.kind, o.text); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	switch o.kind {
	case "Node":
		l.snap.Nodes = append(l.snap.Nodes, o.node)
	case kindSlice:
		return l.addSlice(o)
	case "Pod":
		return l.addPod(o)
	case topology.ReportKind:
		return l.addReport(o)
	}
	return nil
}

// addReport takes a NodeReport.
func (l *list) addReport(o *object) error {
	name := o.node.Name
	facts := map[string]jsontext.Value{"kind": jsontext.Value(strconv.Quote(o.kind))}
	maps.Copy(facts, o.facts)
	text, err := json.Marshal(facts)
	if err != nil {
		return fmt.Errorf("NodeReport %s: %w", name, err)
	}
	report, err := topology.ParseReport("nodereport "+name, text)
	if err == nil && report.Name != name {
		err = fmt.Errorf("nodereport %s: report of node %q: want it in NodeReport %s", name, report.Name, report.Name)
	}
	if err == nil {
		report.Tiers = nil // as the publisher in Kubernetes
	}
	l.snap.AddReport(name, report, err)
	return nil
}

// addPod takes a pod in which slurmd runs.
func (l *list) addPod(o *object) error {
	o.pod.Name, o.pod.Labels = o.node.Name, o.node.Labels
	var selected []string
	for _, pods := range l.naming {
		if pods.Selector.Matches(o.pod.Labels) {
			selected = append(selected, pods.Text)
		}
	}
	isWorker, id := o.pod.IsWorker(), o.pod.Namespace+"/"+o.pod.Name
	if !isWorker && len(selected) == 0 || l.pods[id] {
		return nil
	}
	l.pods[id] = true
	if err := o.podSpec(); err != nil {
		return err
	}
	if isWorker {
		l.workers = append(l.workers, o.pod.Worker())
	}
	for _, selector := range selected {
		l.workers = append(l.workers, o.pod.Selected(selector))
	}
	return nil
}

// kindSlice is the kind of a ResourceSlice.
const kindSlice = "ResourceSlice"

// isListed reports whether objects of a kind may be in a list. Claims and ComputeDomains
// say who joins an IMEX domain, DaemonSets and Deployments what NVIDIA's driver runs for
// it. They are for ListReader.Each alone.
func isListed(kind string) bool {
	switch kind {
	case "Node", "Pod", kindSlice, topology.ReportKind, "ResourceClaim", "ComputeDomain", "ComputeDomainClique", "DeviceClass", "DaemonSet", "Deployment":
		return true
	}
	return false
}

// addSlice takes a ResourceSlice of NVIDIA's driver and skips ResourceSlices of others.
func (l *list) addSlice(o *object) error {
	if l.readSlice == nil {
		return fmt.Errorf("ResourceSlice %s: want a list without ResourceSlices", o.node.Name)
	}
	if o.spec == nil {
		return nil
	}
	slice, err := l.readSlice(o.node.Name, o.spec)
	if slice != nil {
		l.slices = append(l.slices, slice)
	}
	return err
}
