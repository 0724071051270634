package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// reader puts values into a Config and remembers where each one is given.
type reader struct {
	path string // of the file
	// flag is the flag whose setting is read now. It is empty for the file.
	flag string
	// places are where the values of keys are given: a line of the file, or a flag.
	places map[string]string
	wrong  []error
}

// read puts the values of a file into c. Its error joins one error for each unknown
// key and each value of a wrong type.
func (r *reader) read(c *Config, data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := dec.Decode(&first); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return r.syntaxError(err)
	}
	if err := dec.Decode(&second); err == nil {
		return fmt.Errorf("%s: a second document: want one", r.place(&second))
	} else if !errors.Is(err, io.EOF) {
		return r.syntaxError(err)
	}
	root := first.Content[0]
	if err := r.refuseManifest(root); err != nil {
		return err
	}
	r.decode(valueOf(c), "", root)
	return errors.Join(r.wrong...)
}

// syntaxError puts file and line before an error of the YAML library, which has the
// line in its text alone.
func (r *reader) syntaxError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		return fmt.Errorf("%s:%s", r.path, rest)
	}
	return fmt.Errorf("%s: %s", r.path, text)
}

// refuseManifest tells a Kubernetes object from a configuration.
func (r *reader) refuseManifest(root *yaml.Node) error {
	var object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       yaml.Node
	}
	switch err := root.Decode(&object); {
	case err != nil || object.APIVersion == "" || object.Kind.Value == "":
		return nil
	case object.Kind.Value == "ConfigMap":
		return fmt.Errorf("%s: this is a ConfigMap: want the text below its key quoin.yaml as a file of its own", r.place(&object.Kind))
	}
	return fmt.Errorf("%s: this is a Kubernetes object of kind %s: want the configuration of quoin, see quoin config", r.place(&object.Kind), object.Kind.Value)
}

// decode puts the value at key into v. A null leaves v as it is.
func (r *reader) decode(v reflect.Value, key string, n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.IsZero() || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	r.places[key] = r.place(n)
	t, want := v.Type(), ""
	switch {
	case isSection(t) && n.Kind != yaml.MappingNode:
		want = "keys and values: " + strings.Join(namesOf(t), ", ")
	case isSection(t):
		r.decodeKeys(v, key, n)
	case isList(t) && n.Kind != yaml.SequenceNode:
		want = "a list"
	case isList(t) && len(n.Content) == 0:
		want = "at least one, or leave the key out for the default"
	case isList(t):
		v.Set(reflect.MakeSlice(t, len(n.Content), len(n.Content)))
		for i, element := range n.Content {
			r.decode(v.Index(i), fmt.Sprintf("%s[%d]", key, i), element)
		}
	default:
		v.SetZero() // a map of an earlier value would keep its pairs
		if n.Decode(v.Addr().Interface()) != nil {
			want = wantedOf(t)
		}
	}
	if want == "" {
		return
	}
	message := "want " + want
	if n.Kind == yaml.ScalarNode {
		message = strconv.Quote(n.Value) + ": " + message
	}
	r.wrong = append(r.wrong, r.located(key, errors.New(named(key, message))))
}

// decodeKeys puts the values of a mapping into the fields of v.
func (r *reader) decodeKeys(v reflect.Value, key string, n *yaml.Node) {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		field, known := fieldNamed(v, name.Value)
		switch first, twice := lines[name.Value]; {
		case twice:
			r.wrong = append(r.wrong, fmt.Errorf("%s: key %q is also in line %d: want it once", r.place(name), name.Value, first))
		case !known:
			r.wrong = append(r.wrong, fmt.Errorf("%s: %s", r.place(name), unknownKey(key, name.Value, v.Type())))
		default:
			r.decode(field, below(key, name.Value), value)
		}
		lines[name.Value] = name.Line
	}
}

// place says where a value is given that is read now.
func (r *reader) place(n *yaml.Node) string {
	if r.flag != "" {
		return r.flag
	}
	return r.path + ":" + strconv.Itoa(n.Line)
}

// located puts the place of the key, or of the nearest one above, before the error of its
// value.
func (r *reader) located(key string, err error) error {
	for {
		if place := r.places[key]; place != "" {
			return fmt.Errorf("%s: %w", place, err)
		}
		if key == "" {
			return err
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
}
