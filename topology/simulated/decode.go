package simulated

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// badValue is a value that cannot be: at a line, under a key, with what is
// allowed.
type badValue struct {
	line int
	key  string
	text string
}

func (e *badValue) Error() string {
	if e.key == "" {
		return fmt.Sprintf("%d: %s", e.line, e.text)
	}
	return fmt.Sprintf("%d: %s: %s", e.line, e.key, e.text)
}

// bad says what is wrong with the value under key; the line is filled in by
// [decoded.at].
func bad(key, format string, args ...any) error {
	return &badValue{key: key, text: fmt.Sprintf(format, args...)}
}

// decoded remembers where a mapping and each of its keys stand in the file.
type decoded struct {
	line int
	keys map[string]int
}

// at gives err the line of the key it is about, else the mapping's.
func (d *decoded) at(err error) error {
	b, ok := err.(*badValue) //nolint:errorlint // made by bad, never wrapped
	if !ok || b.line != 0 {
		return err
	}
	for key := b.key; b.line == 0 && key != ""; {
		b.line = d.keys[key]
		i := strings.LastIndexByte(key, '.')
		key = key[:max(i, 0)]
	}
	if b.line == 0 {
		b.line = d.line
	}
	return b
}

// decode reads a mapping into the struct that into points to. It is stricter
// than the library: every key must be known and stand once, and errors name the
// key. prefix is that of the keys in messages, such as "gpus.".
func decode(n *yaml.Node, into reflect.Value, prefix string, where *decoded) error {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return &badValue{n.Line, strings.TrimSuffix(prefix, "."), "want a mapping of keys and values"}
	}
	fields := fieldsOf(into)
	seen := make(map[string]bool, len(fields))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field, ok := fields[key.Value]
		switch {
		case !ok:
			return &badValue{key.Line, "", fmt.Sprintf("unknown key %q: want %s", key.Value, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))}
		case seen[key.Value]:
			return &badValue{key.Line, prefix + key.Value, "stands twice: want it once"}
		}
		seen[key.Value] = true
		where.keys[prefix+key.Value] = key.Line
		if err := decodeValue(value, field, prefix+key.Value, where); err != nil {
			return err
		}
	}
	return nil
}

// decodeValue reads one value: a struct, a list of structs, or what the library
// decodes by itself.
func decodeValue(n *yaml.Node, field reflect.Value, key string, where *decoded) error {
	switch {
	case field.Kind() == reflect.Struct:
		return decode(n, field, key+".", where)
	case field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.Struct:
		field.Set(reflect.New(field.Type().Elem()))
		return decode(n, field.Elem(), key+".", where)
	case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
		return decodeList(n, field, key)
	}
	n = resolve(n)
	if err := n.Decode(field.Addr().Interface()); err != nil || !fits(n, field.Type()) {
		return &badValue{n.Line, key, shown(n) + "want " + wanted(field.Type())}
	}
	return nil
}

// fits refuses what the library takes all the same: fractions as whole numbers,
// and nothing at all.
func fits(n *yaml.Node, t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer:
		return fits(n, t.Elem())
	case reflect.Slice:
		return !slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return !fits(resolve(item), t.Elem()) })
	case reflect.Int, reflect.Uint32, reflect.Uint64:
		return n.Tag == "!!int"
	}
	return n.Tag != "!!null"
}

func decodeList(n *yaml.Node, field reflect.Value, key string) error {
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		return &badValue{n.Line, key, shown(n) + "want a list"}
	}
	list := reflect.MakeSlice(field.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		where := decoded{line: item.Line, keys: map[string]int{}}
		if err := decode(item, list.Index(i), "", &where); err != nil {
			return err
		}
		if p, ok := list.Index(i).Addr().Interface().(interface{ setWhere(decoded) }); ok {
			p.setWhere(where)
		}
	}
	field.Set(list)
	return nil
}

// resolve follows an alias to its anchor.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// shown is the beginning of a message about a scalar's value.
func shown(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return fmt.Sprintf("%q: ", n.Value)
}

// wanted says in words what a field takes.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Slice:
		return "a list, each " + wanted(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	}
	return "text"
}

// fieldsOf gives the struct's fields by their YAML key.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := make(map[string]reflect.Value, v.NumField())
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag.Get("yaml"); tag != "" {
			fields[tag] = v.Field(i)
		}
	}
	return fields
}
