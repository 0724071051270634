package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
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

// Given returns the flags of a file and of settings, for a command that is advised. There
// is a blank before each.
func Given(file string, settings []Setting) string {
	text := ""
	if file != "" {
		text = Flag("--config", file)
	}
	for _, s := range settings {
		value := s.Value
		if s.Flag == SetFlag {
			value = s.Key + "=" + s.Value
		}
		text += Flag(s.Flag, value)
	}
	return text
}

// plainWord is what a shell reads as it is.
var plainWord = regexp.MustCompile(`^[\w./:=@%+,-]+$`)

// Flag returns a blank, the flag, and its value as a shell reads it.
func Flag(flag, value string) string {
	if !plainWord.MatchString(value) {
		value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	return " " + flag + " " + value
}

// set gives a key of c its value.
func (r *reader) set(c *Config, s Setting) error {
	r.flag = s.Flag
	if err := r.setBelow(valueOf(c), "", s.Key, s.Value); err != nil {
		return fmt.Errorf("%s %s=%s: %w", s.Flag, s.Key, s.Value, err)
	}
	return errors.Join(r.wrong...)
}

// setBelow sets the key that rest leads to from v, the value at key.
func (r *reader) setBelow(v reflect.Value, key, rest, text string) error {
	if rest == "" {
		return r.setValue(v, key, text)
	}
	step, rest, _ := strings.Cut(rest, ".")
	name, index, indexed := strings.Cut(step, "[")
	field, known := fieldNamed(v, name)
	if !known {
		return errors.New(unknownKey(key, name, v.Type()))
	}
	key = below(key, name)
	switch t := field.Type(); {
	case isList(t) && (indexed || rest != ""):
		return r.setElements(field, key, index, rest, text)
	case indexed, rest != "" && !isSection(t):
		return fmt.Errorf("%s: want %s", key, wantedOf(t))
	}
	return r.setBelow(field, key, rest, text)
}

// setElements sets a key in the element of a list that index names, such as "0]", or
// in all elements if index is empty. The element after the last one is added.
func (r *reader) setElements(list reflect.Value, key, index, rest, text string) error {
	first, end := 0, max(list.Len(), 1)
	if index != "" {
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || i < 0 || i > list.Len() {
			return fmt.Errorf("%s: want an index up to %d", key, list.Len())
		}
		first, end = i, i+1
	}
	if end > list.Len() {
		list.Set(reflect.Append(list, reflect.Zero(list.Type().Elem())))
	}
	for i := first; i < end; i++ {
		if err := r.setBelow(list.Index(i), fmt.Sprintf("%s[%d]", key, i), rest, text); err != nil {
			return err
		}
	}
	return nil
}

// setValue puts the text of a setting into v.
func (r *reader) setValue(v reflect.Value, key, text string) error {
	n, err := nodeOf(v.Type(), text)
	if err != nil {
		return err
	}
	r.decode(v, key, n)
	return nil
}

// nodeOf reads the text of a setting: as it is for a text, with commas for a list, as
// a=b,c=d for pairs, and else as YAML.
func nodeOf(t reflect.Type, text string) (*yaml.Node, error) {
	var n yaml.Node
	switch {
	case t.Kind() == reflect.String:
		n.SetString(text)
		return &n, nil
	case t == reflect.TypeFor[[]string]() && !strings.HasPrefix(text, "["):
		return &n, n.Encode(commaParts(text))
	case t.Kind() == reflect.Slice && !strings.HasPrefix(text, "["):
		text = "[" + text + "]"
	case t.Kind() == reflect.Map && !strings.HasPrefix(text, "{"):
		pairs := map[string]string{}
		for _, part := range commaParts(text) {
			key, value, ok := strings.Cut(part, "=")
			if !ok {
				return nil, errors.New("want pairs such as NVIDIA GB200=gb")
			}
			pairs[key] = value
		}
		return &n, n.Encode(pairs)
	}
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		return nil, fmt.Errorf("want a value as in YAML: %w", err)
	}
	if n.Kind == yaml.DocumentNode {
		return n.Content[0], nil
	}
	return &n, nil // of an empty text
}

func commaParts(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}
