package publication

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

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

// fields returns the keys of a publication, in the order of the struct.
func (p *Publication) fields() []field { return fieldsOf("", reflect.ValueOf(p).Elem()) }

func fieldsOf(section string, v reflect.Value) (all []field) {
	for f, value := range v.Fields() {
		key := section + f.Tag.Get("yaml")
		switch {
		case key == "-":
		case value.Kind() == reflect.Struct && value.Type() != reflect.TypeFor[Duration]():
			all = append(all, fieldsOf(key+".", value)...)
		default:
			all = append(all, field{key, value, f.Tag})
		}
	}
	return all
}

// fillIn sets the keys that have no value to their defaults.
func (p *Publication) fillIn() {
	for _, f := range p.fields() {
		if text := f.tag.Get("default"); text != "" && f.value.IsZero() {
			_ = yaml.Unmarshal([]byte(text), f.value.Addr().Interface()) // a test reads all defaults
		}
	}
}

// checkFields checks each value by the tags of its key.
func (p *Publication) checkFields(bad func(key string, value any, want string)) {
	for _, f := range p.fields() {
		words, value := strings.Fields(f.tag.Get("words")), fmt.Sprint(f.value)
		if len(words) > 0 && value != "" && !slices.Contains(words, value) {
			if f.tag.Get("default") == "" {
				words = append(words, "nothing")
			}
			last := len(words) - 1
			bad(f.key, value, strings.Join(words[:last], ", ")+" or "+words[last])
		}
		most, err := time.ParseDuration(f.tag.Get("most"))
		if err == nil && f.value.Interface().(Duration).Duration > most {
			bad(f.key, value, most.String()+" or less")
		}
	}
}

// planKeys are the keys that decide what is planned and written, and their values as text. A key
// without a value is absent.
func (p *Publication) planKeys() map[string]string {
	keys := make(map[string]string)
	for _, f := range p.fields() {
		if text := fmt.Sprint(f.value); f.tag.Get("plan") == "yes" && !slices.Contains([]string{"", "0", "false", "[]", "map[]"}, text) {
			keys[f.key] = text
		}
	}
	return keys
}
