package publisher

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// ReadNodes reads what `kubectl get nodes -o json` prints: a list of Nodes, or
// one; or several such outputs, one after the other. Everything but names, labels and annotations is skipped as it streams
// by, so that the largest cluster fits in little memory. source names the input
// in errors.
func ReadNodes(source string, r io.Reader) ([]Node, error) {
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
	return l.nodes, nil
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
	dec   *jsontext.Decoder
	nodes []Node
	known map[string]string // the keys met so far: a cluster has few, each many times
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

// document reads a List or a Node.
func (l *nodeList) document() error {
	var one Node
	var kind string
	list := false
	err := l.object("a list of Nodes", func(key string) (err error) {
		switch key {
		case "kind":
			kind, err = l.text(key)
		case "items":
			list = true
			err = l.items()
		case "metadata":
			err = l.metadata(&one)
		default:
			err = l.skip()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case list:
		return nil
	case kind != "Node":
		return fmt.Errorf("kind %q without items: want the output of kubectl get nodes -o json", kind)
	case one.Name == "":
		return errors.New("a Node without metadata.name")
	}
	l.nodes = append(l.nodes, one)
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
	before := len(l.nodes)
	for l.dec.PeekKind() == '{' {
		var n Node
		kind := "Node"
		err := l.object("a Node", func(key string) (err error) {
			switch key {
			case "kind":
				kind, err = l.text(key)
			case "metadata":
				err = l.metadata(&n)
			default:
				err = l.skip()
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case kind != "Node":
			return fmt.Errorf("items[%d] is a %s: want Nodes only, as kubectl get nodes -o json prints", len(l.nodes)-before, kind)
		case n.Name == "":
			return fmt.Errorf("items[%d] has no metadata.name", len(l.nodes)-before)
		}
		l.nodes = append(l.nodes, n)
	}
	if l.dec.PeekKind() != ']' {
		return fmt.Errorf("items[%d]: %w", len(l.nodes)-before, l.unexpected("a Node"))
	}
	_, err := l.dec.ReadToken()
	return err
}

func (l *nodeList) metadata(n *Node) error {
	return l.object("metadata", func(key string) (err error) {
		switch key {
		case "name":
			n.Name, err = l.text(key)
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
