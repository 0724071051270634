package publisher

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// ReadNodes reads what `kubectl get nodes -o json` prints: a list of Nodes, or
// one; or several such outputs, one after the other. Pods and ResourceSlices may
// be among the Nodes, as `kubectl get nodes,pods,resourceslices -A -o json` prints,
// of which Slinky's worker pods and the slices of NVIDIA's driver count. Everything but what names them is skipped as it streams by, so that the
// largest cluster fits in little memory. source names the input in errors.
func ReadNodes(source string, r io.Reader) (*Snapshot, error) {
	text := bufio.NewReader(r)
	if err := skipByteOrderMark(text); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	l := nodeList{dec: jsontext.NewDecoder(text, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)), known: map[string]string{}}
	if err := l.documents(); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the text ends early: want the whole output of kubectl get nodes -o json")
		} else if syntax := new(jsontext.SyntacticError); errors.As(err, &syntax) {
			err = fmt.Errorf("not JSON: %w: want the output of kubectl get nodes -o json", syntax.Err)
		}
		return nil, fmt.Errorf("%s: byte %d: %w", source, l.dec.InputOffset(), err)
	}
	seen := make(map[string]bool, len(l.nodes))
	for _, n := range l.nodes {
		if seen[n.Name] {
			return nil, fmt.Errorf("%s: two nodes are named %q: want each once", source, n.Name)
		}
		seen[n.Name] = true
	}
	snap := &Snapshot{Nodes: l.nodes, Reports: map[string]*topology.Node{}}
	snap.AddWorkers(l.workers)
	if len(l.slices) > 0 {
		snap.Slices = readSlices(l.slices)
	}
	return snap, nil
}

// skipByteOrderMark passes over the mark with which some programs begin UTF-8.
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

type nodeList struct {
	dec     *jsontext.Decoder
	nodes   []Node
	workers []Worker
	slices  []*gpuSlice
	known   map[string]string // the keys met so far: a cluster has few, each many times
}

// object of a list.
type listed struct {
	kind string
	meta Node
	podFacts
	spec []byte // kept until the kind is known
}

// documents reads one document and all that follow.
func (l *nodeList) documents() error {
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

// document reads a List, or one object.
func (l *nodeList) document() error {
	var one listed
	list := false
	err := l.object("a list of Nodes", func(key string) (err error) {
		if key == "items" {
			list = true
			return l.items()
		}
		return l.member(&one, key)
	})
	switch {
	case err != nil:
		return err
	case list:
		return nil
	case !isListed(one.kind):
		return fmt.Errorf("kind %q without items: want the output of kubectl get nodes -o json", one.kind)
	case one.meta.Name == "":
		return fmt.Errorf("a %s without metadata.name", one.kind)
	}
	return l.add(&one)
}

// member reads what is wanted of an object.
func (l *nodeList) member(o *listed, key string) (err error) {
	switch {
	case key == "kind":
		o.kind, err = l.text(key)
	case key == "metadata":
		err = l.metadata(o)
	case l.dec.PeekKind() == 'n':
		err = l.skip()
	case key == "spec" && o.kind == "Pod":
		err = l.podSpec(o)
	case key == "spec" && (o.kind == "" || o.kind == kindSlice):
		var spec jsontext.Value
		spec, err = l.dec.ReadValue()
		o.spec = bytes.Clone(spec)
	case key == "status" && o.kind == "Node" && countsGPUs(o.meta.Labels): // which go before its capacity
		err = l.skip()
	case key == "status":
		err = l.status(o)
	default:
		err = l.skip()
	}
	return err
}

// countsGPUs reports whether a label says how many GPUs there are.
func countsGPUs(labels map[string]string) bool {
	n, err := strconv.Atoi(labels[nodelabels.Count])
	return err == nil && n > 0
}

// podSpec reads where a Pod runs and what it is called there.
func (l *nodeList) podSpec(o *listed) error {
	return l.object("spec", func(key string) (err error) {
		switch key {
		case "nodeName":
			o.node, err = l.text(key)
		case "hostname":
			o.hostname, err = l.text(key)
		case "hostNetwork":
			var v jsontext.Value
			v, err = l.dec.ReadValue()
			o.hostNetwork = string(v) == "true"
		default:
			err = l.skip()
		}
		return err
	})
}

// add takes a Node, a Pod in which Slinky runs slurmd, or a ResourceSlice.
func (l *nodeList) add(o *listed) error {
	switch o.kind {
	case "Node":
		l.nodes = append(l.nodes, o.meta)
		return nil
	case kindSlice:
		return l.addSlice(o)
	}
	if isMembership(o.kind) {
		return nil
	}
	if !isWorker(o.meta.Labels) {
		return nil
	}
	if o.spec != nil {
		later := nodeList{dec: jsontext.NewDecoder(bytes.NewReader(o.spec), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)), known: l.known}
		if err := later.podSpec(o); err != nil {
			return err
		}
	}
	o.name, o.labels = o.meta.Name, o.meta.Labels
	l.workers = append(l.workers, o.worker())
	return nil
}

// items reads the Nodes of a List.
func (l *nodeList) items() error {
	if kind := l.dec.PeekKind(); kind != '[' {
		return fmt.Errorf("items: %w", l.unexpected("a list"))
	}
	if _, err := l.dec.ReadToken(); err != nil {
		return err
	}
	at := 0
	for ; l.dec.PeekKind() == '{'; at++ {
		var o listed
		if err := l.object("a Node", func(key string) error { return l.member(&o, key) }); err != nil {
			return err
		}
		o.kind = cmp.Or(o.kind, "Node")
		switch {
		case !isListed(o.kind):
			return fmt.Errorf("items[%d] is a %s: want Nodes, Pods and ResourceSlices only, as kubectl get nodes,pods,resourceslices -A -o json prints", at, o.kind)
		case o.meta.Name == "":
			return fmt.Errorf("items[%d] has no metadata.name", at)
		}
		if err := l.add(&o); err != nil {
			return err
		}
	}
	if l.dec.PeekKind() != ']' {
		return fmt.Errorf("items[%d]: %w", at, l.unexpected("a Node"))
	}
	_, err := l.dec.ReadToken()
	return err
}

func (l *nodeList) metadata(o *listed) error {
	n := &o.meta
	return l.object("metadata", func(key string) (err error) {
		switch key {
		case "name":
			n.Name, err = l.text(key)
		case "namespace":
			o.namespace, err = l.text(key)
		case "deletionTimestamp":
			o.ending = true
			err = l.skip()
		case "labels":
			n.Labels, err = l.texts(key)
		case "annotations":
			n.Annotations, err = l.texts(key)
		default:
			err = l.skip()
		}
		return err
	})
}

// object calls member at the value of every member; member reads the value.
func (l *nodeList) object(what string, member func(key string) error) error {
	if l.dec.PeekKind() != '{' {
		return l.unexpected(what)
	}
	if _, err := l.dec.ReadToken(); err != nil {
		return err
	}
	for l.dec.PeekKind() != '}' {
		key, err := l.key()
		if err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
	}
	_, err := l.dec.ReadToken()
	return err
}

// key reads the name of a member.
func (l *nodeList) key() (string, error) {
	quoted, err := l.dec.ReadValue()
	if err != nil {
		return "", err
	}
	if key, ok := l.known[string(quoted)]; ok {
		return key, nil
	}
	key, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return "", err
	}
	l.known[string(quoted)] = string(key)
	return string(key), nil
}

// skip passes over a value as a whole, which is faster than SkipValue's token
// by token.
func (l *nodeList) skip() error {
	_, err := l.dec.ReadValue()
	return err
}

func (l *nodeList) texts(what string) (map[string]string, error) {
	if l.dec.PeekKind() == 'n' {
		return nil, l.skip()
	}
	out := map[string]string{}
	err := l.object(what, func(key string) (err error) {
		if what == "annotations" && key == "kubectl.kubernetes.io/last-applied-configuration" {
			return l.skip()
		}
		if out[key], err = l.text(key); err != nil {
			err = fmt.Errorf("%s.%w", what, err)
		}
		return err
	})
	return out, err
}

func (l *nodeList) text(what string) (string, error) {
	if l.dec.PeekKind() != '"' {
		return "", fmt.Errorf("%s: %w", what, l.unexpected("a string"))
	}
	t, err := l.dec.ReadToken()
	if err != nil {
		return "", err
	}
	return t.String(), nil
}

// unexpected says what stands where something else is wanted, or why nothing
// can be read.
func (l *nodeList) unexpected(want string) error {
	if k := l.dec.PeekKind(); k > 0 {
		return fmt.Errorf("found %s: want %s", k, want)
	}
	_, err := l.dec.ReadToken()
	return err
}
