package config

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Keys lists all keys, such as agent.runDir and publications.format.
func Keys() []string { return keysBelow("", configType) }

// Value returns the default of a key of agent or publisher as text.
func (c *Config) Value(key string) string {
	v := valueOf(c)
	for name := range strings.SplitSeq(key, ".") {
		field, known := fieldNamed(v, name)
		if !known || field.IsZero() {
			return ""
		}
		v = field
	}
	return fmt.Sprint(v.Interface())
}

var configType = reflect.TypeFor[Config]()

func valueOf(c *Config) reflect.Value { return reflect.ValueOf(c).Elem() }

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

func fieldNamed(v reflect.Value, name string) (field reflect.Value, known bool) {
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

// keysBelow lists all keys of a section that have a value.
func keysBelow(section string, t reflect.Type) []string {
	var out []string
	for name, f := range fieldsOf(t) {
		key, inner := below(section, name), f.Type
		if isList(inner) {
			inner = inner.Elem()
		}
		if isSection(inner) {
			out = append(out, keysBelow(key, inner)...)
		} else {
			out = append(out, key)
		}
	}
	return out
}

func unknownKey(section, name string, t reflect.Type) string {
	return named(section, fmt.Sprintf("unknown key %q: want %s", name, strings.Join(namesOf(t), ", ")))
}

// named puts the key before a message about its value.
func named(key, message string) string {
	if key == "" {
		return message
	}
	return key + ": " + message
}

func below(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
