package config

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

var configType = reflect.TypeFor[Config]()

func valueOf(c *Config) reflect.Value { return reflect.ValueOf(c).Elem() }

// decode puts the values of the document into c. Its error joins one error for each
// unknown key and each value of a wrong type.
func (d *document) decode(c *Config) error {
	var wrong []error
	d.decodeInto(valueOf(c), "", d.root, &wrong)
	return errors.Join(wrong...)
}

// decodeInto puts the value at key into v. A null leaves v as it is.
func (d *document) decodeInto(v reflect.Value, key string, n *yaml.Node, wrong *[]error) {
	fail := func(want string) {
		value := ""
		if n.Kind == yaml.ScalarNode {
			value = strconv.Quote(n.Value) + ": "
		}
		message := value + "want " + want
		*wrong = append(*wrong, d.wrong(key, message, fmt.Errorf("%s: %s", key, message)))
	}
	switch {
	case isNull(n):
	case isSection(v.Type()) && n.Kind != yaml.MappingNode:
		fail("keys and values: " + strings.Join(namesOf(v.Type()), ", "))
	case isSection(v.Type()):
		for i := 0; i < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			field, ok := fieldNamed(v, name.Value)
			if !ok {
				*wrong = append(*wrong, fmt.Errorf("%s: %s", d.place(name), unknownKey(key, name.Value, v.Type())))
				continue
			}
			d.decodeInto(field, below(key, name.Value), value, wrong)
		}
	case isList(v.Type()) && n.Kind != yaml.SequenceNode:
		fail("a list")
	case isList(v.Type()) && len(n.Content) == 0:
		fail("at least one, or leave the key out for the default")
	case isList(v.Type()):
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, element := range n.Content {
			d.decodeInto(v.Index(i), fmt.Sprintf("%s[%d]", key, i), element, wrong)
		}
	default:
		if err := n.Decode(v.Addr().Interface()); err != nil {
			fail(wantedOf(v.Type()))
		}
	}
}

func unknownKey(section, name string, t reflect.Type) string {
	if section != "" {
		section += ": "
	}
	return fmt.Sprintf("%sunknown key %q: want %s", section, name, strings.Join(namesOf(t), ", "))
}

func below(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// isSection reports whether a value of the type has keys that are known.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]())
}

// isList reports whether a value of the type is a list of sections.
func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice && isSection(t.Elem()) }

// wantedOf says in words what a value of the type is.
func wantedOf(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Duration](), t.Kind() == reflect.Struct:
		return "a number and a unit, such as 30s, 5m or 1h"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a whole number"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Map:
		return "keys and values, such as {key: value}"
	case t == reflect.TypeFor[[]int]():
		return "a list of whole numbers"
	case t.Kind() == reflect.Slice:
		return "a list of texts"
	}
	return "text"
}

// fieldsOf yields the fields of a section with their keys. Fields of inlined structs are
// fields of the section.
func fieldsOf(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name != "" && option != "inline" && !yield(name, f) {
				return
			}
		}
	}
}

func fieldNamed(v reflect.Value, name string) (reflect.Value, bool) {
	if v.Kind() != reflect.Struct {
		return v, false
	}
	for key, f := range fieldsOf(v.Type()) {
		if key == name {
			return v.FieldByIndex(f.Index), true
		}
	}
	return v, false
}

func namesOf(t reflect.Type) []string {
	var out []string
	for key := range fieldsOf(t) {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// keysBelow yields all keys of a section that have a value, with their fields.
func keysBelow(section string, t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for name, f := range fieldsOf(t) {
			key, inner := below(section, name), f.Type
			if isList(inner) {
				inner = inner.Elem()
			}
			if !isSection(inner) {
				if !yield(key, f) {
					return
				}
				continue
			}
			for k, f := range keysBelow(key, inner) {
				if !yield(k, f) {
					return
				}
			}
		}
	}
}
