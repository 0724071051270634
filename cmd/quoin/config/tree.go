package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// document is a configuration as a tree of YAML that has no aliases and no merge
// keys any more.
type document struct {
	path string
	root *yaml.Node // a mapping
	// given has the flag that a value comes from, for values that are not of the file.
	given map[*yaml.Node]string
}

// parse reads the text of a file. An empty text gives an empty mapping.
func parse(path string, data []byte) (*document, error) {
	doc := &document{path: path, root: &yaml.Node{Kind: yaml.MappingNode, Line: 1}, given: map[*yaml.Node]string{}}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := dec.Decode(&first); {
	case errors.Is(err, io.EOF):
		return doc, nil
	case err != nil:
		return nil, doc.syntaxError(err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("%s:%d: a second document: want one", path, second.Line)
	case !errors.Is(err, io.EOF):
		return nil, doc.syntaxError(err)
	}
	left := maxNodes
	root, err := doc.expand(first.Content[0], &left)
	switch {
	case err != nil:
		return nil, err
	case isNull(root):
		return doc, nil
	case root.Kind != yaml.MappingNode:
		return nil, fmt.Errorf("%s:%d: want keys and values, such as publications: [...]", path, root.Line)
	}
	doc.root = root
	return doc, doc.refuseManifest()
}

// syntaxError puts file and line before an error of the YAML library, which has the
// line in its text alone.
func (d *document) syntaxError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		line, message, _ := strings.Cut(rest, ": ")
		return fmt.Errorf("%s:%s: %s", d.path, line, message)
	}
	return fmt.Errorf("%s: %s", d.path, text)
}

// refuseManifest tells a Kubernetes object from a configuration.
func (d *document) refuseManifest() error {
	kind := child(d.root, "kind")
	switch {
	case kind == nil || child(d.root, "apiVersion") == nil:
		return nil
	case kind.Value == "ConfigMap":
		return fmt.Errorf("%s:%d: this is a ConfigMap: want the text below its key quoin.yaml as a file of its own", d.path, kind.Line)
	}
	return fmt.Errorf("%s:%d: this is a Kubernetes object of kind %s: want the configuration of quoin, see quoin config", d.path, kind.Line, kind.Value)
}

// maxNodes bounds what aliases can make of a small file.
const maxNodes = 100_000

// expand returns a copy of the tree in which each alias is replaced by what it
// stands for. Keys of a merge key come before the mapping's own ones.
func (d *document) expand(n *yaml.Node, left *int) (*yaml.Node, error) {
	if *left--; *left < 0 {
		return nil, fmt.Errorf("%s:%d: more than %d values: want fewer aliases", d.path, n.Line, maxNodes)
	}
	if n.Kind == yaml.AliasNode {
		return d.expand(n.Alias, left)
	}
	out := *n
	out.Content = nil
	for _, c := range n.Content {
		expanded, err := d.expand(c, left)
		if err != nil {
			return nil, err
		}
		out.Content = append(out.Content, expanded)
	}
	if n.Kind == yaml.MappingNode {
		return &out, d.merge(&out)
	}
	return &out, nil
}

// merge replaces merge keys by the keys that they bring in, and refuses a key that
// is given twice.
func (d *document) merge(n *yaml.Node) error {
	var own, merged []*yaml.Node
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch first := child(&yaml.Node{Kind: yaml.MappingNode, Content: own}, key.Value); {
		case key.Kind != yaml.ScalarNode:
			return fmt.Errorf("%s:%d: want a key of one word", d.path, key.Line)
		case key.Tag == "!!merge" && value.Kind == yaml.SequenceNode:
			for _, v := range value.Content {
				merged = append(merged, v.Content...)
			}
		case key.Tag == "!!merge":
			merged = append(merged, value.Content...)
		case first != nil:
			return fmt.Errorf("%s:%d: key %q is also in line %d: want it once", d.path, key.Line, key.Value, first.Line)
		default:
			own = append(own, key, value)
		}
	}
	n.Content = own
	for i := 0; i+1 < len(merged); i += 2 {
		if child(n, merged[i].Value) == nil {
			n.Content = append(n.Content, merged[i], merged[i+1])
		}
	}
	return nil
}

// child returns the value of a key, nil if there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// find returns the value at a key such as publications[0].gres.naming, or the
// nearest one above.
func (d *document) find(key string) *yaml.Node {
	n := d.root
	for _, s := range steps(key) {
		next := child(n, s.name)
		if next == nil {
			return n
		}
		n = next
		if s.index >= 0 && n.Kind == yaml.SequenceNode && s.index < len(n.Content) {
			n = n.Content[s.index]
		}
	}
	return n
}

// place says where a value is given: at a line of the file, or by a flag. It is
// empty if it is given nowhere.
func (d *document) place(n *yaml.Node) string {
	switch {
	case d.given[n] != "":
		return d.given[n]
	case d.path == "":
		return ""
	}
	return d.path + ":" + strconv.Itoa(n.Line)
}

// wrong puts the place before the error of a value. A flag of one key stands for the
// key, so that only the message follows.
func (d *document) wrong(key, message string, err error) error {
	n := d.find(key)
	switch place := d.place(n); {
	case place == "":
		return err
	case d.given[n] != "" && place != SetFlag:
		if !strings.HasPrefix(message, `"`) {
			place += ":"
		}
		return fmt.Errorf("%s %s", place, message)
	default:
		return fmt.Errorf("%s: %w", place, err)
	}
}

// step is one part of a key: a name and, with brackets, an index.
type step struct {
	name  string
	index int // -1 without brackets
}

func steps(key string) []step {
	var out []step
	for part := range strings.SplitSeq(key, ".") {
		name, index, bracket := strings.Cut(part, "[")
		s := step{name, -1}
		if i, err := strconv.Atoi(strings.TrimSuffix(index, "]")); bracket && err == nil && i >= 0 {
			s.index = i
		} else if bracket {
			s.name = part
		}
		out = append(out, s)
	}
	return out
}
