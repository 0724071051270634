package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// SetFlag is the flag that sets any key.
const SetFlag = "--set"

// Setting is a value that the command line gives to a key.
type Setting struct {
	// Key is such as agent.runDir or publications[0].format. Without an index a key
	// of a list is set in all its elements, and in a first one if there is none.
	Key string
	// Value is the text of the value. A list is written with commas, pairs as a=b,c=d,
	// or both as in YAML.
	Value string
	// Flag is what was given: SetFlag, or a flag that sets this key only.
	Flag string
}

// ParseSetting splits key=value as it is given to SetFlag.
func ParseSetting(text string) (Setting, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return Setting{}, errors.New("want key=value, such as publisher.listen=:9836")
	}
	return Setting{key, value, SetFlag}, nil
}

// set puts a setting into the tree.
func (d *document) set(s Setting) error {
	return d.setBelow(d.root, configType, "", steps(s.Key), s)
}

// setBelow sets the key that the remaining steps lead to from n, a value of type t
// at key.
func (d *document) setBelow(n *yaml.Node, t reflect.Type, key string, left []step, s Setting) error {
	name := left[0].name
	var field reflect.Type
	for k, f := range fieldsOf(t) {
		if k == name {
			field = f.Type
		}
	}
	last := len(left) == 1
	switch {
	case field == nil:
		return fmt.Errorf("%s %s=%s: %s", s.Flag, s.Key, s.Value, unknownKey(key, name, t))
	case last && left[0].index < 0:
		value, err := d.valueOf(field, s)
		if err != nil {
			return err
		}
		d.put(n, name, value)
		return nil
	case isSection(field):
		return d.setBelow(d.ensure(n, name, yaml.MappingNode), field, below(key, name), left[1:], s)
	case !isList(field) || last:
		return fmt.Errorf("%s %s=%s: %s: want %s", s.Flag, s.Key, s.Value, below(key, name), wantedOf(field))
	}
	list := d.ensure(n, name, yaml.SequenceNode)
	index := left[0].index
	if index > len(list.Content) {
		return fmt.Errorf("%s %s=%s: %s: want an index up to %d", s.Flag, s.Key, s.Value, below(key, name), len(list.Content))
	}
	if index == len(list.Content) || len(list.Content) == 0 {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.MappingNode})
		d.given[list.Content[len(list.Content)-1]] = s.Flag
	}
	for i, element := range list.Content {
		if index >= 0 && index != i {
			continue
		}
		if err := d.setBelow(element, field.Elem(), fmt.Sprintf("%s[%d]", below(key, name), i), left[1:], s); err != nil {
			return err
		}
	}
	return nil
}

// valueOf returns the text of a setting as a value for the type.
func (d *document) valueOf(t reflect.Type, s Setting) (*yaml.Node, error) {
	parts := strings.FieldsFunc(s.Value, func(r rune) bool { return r == ',' })
	switch {
	case t.Kind() == reflect.String:
		return d.scalar(s.Value, s.Flag), nil
	case t.Kind() == reflect.Slice && !isList(t) && !strings.HasPrefix(s.Value, "["):
		list := &yaml.Node{Kind: yaml.SequenceNode}
		d.given[list] = s.Flag
		for _, part := range parts {
			element := d.scalar(part, s.Flag)
			if t.Elem().Kind() != reflect.String {
				element.Tag = ""
			}
			list.Content = append(list.Content, element)
		}
		return list, nil
	case t.Kind() == reflect.Map && !strings.HasPrefix(s.Value, "{"):
		pairs := &yaml.Node{Kind: yaml.MappingNode}
		d.given[pairs] = s.Flag
		for _, part := range parts {
			key, value, ok := strings.Cut(part, "=")
			if !ok {
				return nil, fmt.Errorf("%s %s=%s: want pairs such as NVIDIA GB200=gb", s.Flag, s.Key, s.Value)
			}
			d.put(pairs, key, d.scalar(value, s.Flag))
		}
		return pairs, nil
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map, isSection(t):
		inner, err := parse("value", []byte("value: "+s.Value))
		if err != nil {
			return nil, fmt.Errorf("%s %s=%s: want a value as in YAML: %w", s.Flag, s.Key, s.Value, err)
		}
		value := child(inner.root, "value")
		d.giveAll(value, s.Flag)
		return value, nil
	}
	n := d.scalar(s.Value, s.Flag)
	n.Tag = "" // read as YAML reads it
	return n, nil
}

func (d *document) scalar(text, flag string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	d.given[n] = flag
	return n
}

func (d *document) giveAll(n *yaml.Node, flag string) {
	d.given[n] = flag
	for _, c := range n.Content {
		d.giveAll(c, flag)
	}
}

// ensure returns the value of a key, in a place of its own kind.
func (d *document) ensure(n *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	if have := child(n, key); have != nil && have.Kind == kind {
		return have
	}
	made := &yaml.Node{Kind: kind}
	d.given[made] = d.given[n]
	d.put(n, key, made)
	return made
}

// put gives a key of a mapping its value.
func (d *document) put(n *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = value
			return
		}
	}
	name := d.scalar(key, d.given[value])
	n.Content = append(n.Content, name, value)
}
