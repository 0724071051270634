package topology

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// fieldError is a value that a report cannot have. path names the field, such as
// gpus[0].minor. line is 0 if there is no text.
type fieldError struct {
	path, message string
	line          int
}

func (e *fieldError) Error() string {
	if e.path == "" {
		return "the document: " + e.message
	}
	return e.path + ": " + e.message
}

// locator walks through the text of a report beside the Go type of the report. It
// runs when something is wrong, and finds the line and what is allowed.
type locator struct {
	dec   *json.Decoder
	data  []byte
	lines map[string]int // of the values by their paths
}

// locate returns the lines of the values in JSON for a t, and the first key or
// value that does not fit.
func locate(data []byte, t reflect.Type) (map[string]int, error) {
	l := locator{dec: json.NewDecoder(bytes.NewReader(data)), data: data, lines: map[string]int{}}
	l.dec.UseNumber()
	return l.lines, l.value("", t)
}

// line returns the line that the decoder has reached.
func (l *locator) line() int { return 1 + bytes.Count(l.data[:l.dec.InputOffset()], []byte("\n")) }

func (l *locator) errorf(path, format string, args ...any) error {
	return &fieldError{path, fmt.Sprintf(format, args...), l.line()}
}

// value reads one value for a t.
func (l *locator) value(path string, t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	tok, err := l.dec.Token()
	if err != nil {
		return err
	}
	l.lines[path] = l.line()
	switch tok {
	case nil:
		return nil
	case json.Delim('{'):
		if t.Kind() != reflect.Struct || isText(t) {
			return l.errorf(path, "found an object: want %s", wanted(t))
		}
		return l.object(path, t)
	case json.Delim('['):
		if t.Kind() != reflect.Slice {
			return l.errorf(path, "found a list: want %s", wanted(t))
		}
		return l.list(path, t.Elem())
	}
	return l.scalar(path, t, tok)
}

func (l *locator) object(path string, t reflect.Type) error {
	fields := jsonFields(t)
	for l.dec.More() {
		tok, err := l.dec.Token()
		if err != nil {
			return err
		}
		key := fmt.Sprint(tok)
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return strings.EqualFold(jsonName(f), key) })
		if i < 0 {
			names := make([]string, len(fields))
			for i, f := range fields {
				names[i] = jsonName(f)
			}
			slices.Sort(names)
			return l.errorf(join(path, key), "unknown key: want %s", strings.Join(names, ", "))
		}
		if err := l.value(join(path, jsonName(fields[i])), fields[i].Type); err != nil {
			return err
		}
	}
	_, err := l.dec.Token()
	return err
}

func (l *locator) list(path string, t reflect.Type) error {
	for i := 0; l.dec.More(); i++ {
		if err := l.value(fmt.Sprintf("%s[%d]", path, i), t); err != nil {
			return err
		}
	}
	_, err := l.dec.Token()
	return err
}

func (l *locator) scalar(path string, t reflect.Type, tok json.Token) error {
	text, err := json.Marshal(tok)
	if err != nil {
		return err
	}
	v := reflect.New(t)
	if err := json.Unmarshal(text, v.Interface()); err == nil {
		return nil
	} else if _, ok := v.Interface().(encoding.TextUnmarshaler); ok && text[0] == '"' {
		return l.errorf(path, "%s", err)
	}
	return l.errorf(path, "found %s: want %s", text, wanted(t))
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// jsonFields returns the struct's JSON fields, including the fields of embedded
// structs.
func jsonFields(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous })
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// isText reports whether values of the type are text in JSON.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// wanted names the values of the type in words.
func wanted(t reflect.Type) string {
	if isText(t) {
		return "text"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Uint32:
		return "0 to 4294967295"
	case reflect.Uint64:
		return "a whole number of 0 or more"
	}
	return "text"
}
