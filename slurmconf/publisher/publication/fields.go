package publication

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// field is a key of a publication. The tags of the struct's field say what is known of the key alone:
//
//	yaml     its name
//	plan     yes if what is planned and written depends on its value, else no
//	default  its value if a site gives none, as YAML
//	words    the only words that it takes
//	most     the longest time that it takes
//	unit     what its number counts
type field struct {
	key   string // such as nodes.selector
	value reflect.Value
	tag   reflect.StructTag
}

// fields yields the keys of a publication, in the order of the struct.
func (p *Publication) fields() iter.Seq[field] {
	return func(yield func(field) bool) { fieldsBelow("", reflect.ValueOf(p).Elem(), yield) }
}

// fieldsBelow yields the keys of a section. It reports whether more are wanted.
func fieldsBelow(section string, v reflect.Value, yield func(field) bool) bool {
	for f, value := range v.Fields() {
		key, more := section+f.Tag.Get("yaml"), true
		switch _, isTime := value.Interface().(Duration); {
		case key == "-":
		case value.Kind() == reflect.Struct && !isTime:
			more = fieldsBelow(key+".", value, yield)
		default:
			more = yield(field{key, value, f.Tag})
		}
		if !more {
			return false
		}
	}
	return true
}

// must is for texts of tags, which a test reads.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// fillIn sets the keys that have no value to their defaults.
func (p *Publication) fillIn() {
	for f := range p.fields() {
		if text := f.tag.Get("default"); text != "" && f.value.IsZero() {
			must(yaml.Unmarshal([]byte(text), f.value.Addr().Interface()))
		}
	}
}

// checkFields checks each value by the tags of its key.
func (p *Publication) checkFields(bad func(key string, value any, want string)) {
	for f := range p.fields() {
		words, value := strings.Fields(f.tag.Get("words")), fmt.Sprint(f.value)
		if len(words) > 0 && value != "" && !slices.Contains(words, value) {
			if f.tag.Get("default") == "" {
				words = append(words, "nothing")
			}
			last := len(words) - 1
			bad(f.key, value, strings.Join(words[:last], ", ")+" or "+words[last])
		}
		if text := f.tag.Get("most"); text != "" {
			var most Duration
			must(yaml.Unmarshal([]byte(text), &most))
			if f.value.Interface().(Duration).Duration > most.Duration {
				bad(f.key, f.value, most.String()+" or less")
			}
		}
	}
}

// planKeys are the keys that decide what is planned and written, and their values as text. A key
// without a value is absent.
func (p *Publication) planKeys() map[string]string {
	keys := make(map[string]string)
	for f := range p.fields() {
		switch text := fmt.Sprint(f.value); {
		case f.tag.Get("plan") != "yes", slices.Contains([]string{"", "0", "false", "[]", "map[]"}, text):
		default:
			keys[f.key] = text
		}
	}
	return keys
}
