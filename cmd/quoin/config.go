package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
)

// config is the one file of agent and publisher.
type config struct {
	// Agent and Publisher set flags of these commands: the key runDir is the
	// flag --run-dir. What the command line says goes before.
	Agent     yaml.Node `yaml:"agent"`
	Publisher yaml.Node `yaml:"publisher"`
	// IMEX says how nodes join one IMEX domain.
	IMEX imex.Config `yaml:"imex"`
	// Publications are the Slurm clusters that get files.
	Publications []publisher.Publication `yaml:"publications"`
}

// loadConfig reads the file at path; an empty path gives the defaults. The
// section's values become those of the flags that the command line left out.
func loadConfig(path string, section func(*config) *yaml.Node, flags *pflag.FlagSet) (*config, error) {
	c, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	return c, setFlags(path, section(c), flags)
}

func agentSection(c *config) *yaml.Node     { return &c.Agent }
func publisherSection(c *config) *yaml.Node { return &c.Publisher }

// setFlags gives the flags that the command line left out the values of a
// section.
func setFlags(path string, section *yaml.Node, flags *pflag.FlagSet) error {
	if section.IsZero() || section.Tag == "!!null" {
		return nil
	}
	if section.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: want keys and values, such as runDir: /run/quoin", path, section.Line)
	}
	byKey := make(map[string]*pflag.Flag)
	for _, f := range configurable(flags) {
		byKey[keyOf(f)] = f
	}
	var errs []error
	for i := 0; i < len(section.Content); i += 2 {
		key, value := section.Content[i], section.Content[i+1]
		f, ok := byKey[key.Value]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s:%d: unknown key %q: want %s", path, key.Line, key.Value, strings.Join(slices.Sorted(maps.Keys(byKey)), ", ")))
		case value.Kind != yaml.ScalarNode:
			errs = append(errs, fmt.Errorf("%s:%d: %s: want one value", path, value.Line, key.Value))
		case !f.Changed:
			if err := f.Value.Set(value.Value); err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %s %q: want %s", path, value.Line, key.Value, value.Value, wantedOfFlag(f)))
			}
		}
	}
	return errors.Join(errs...)
}

// wantedOfFlag says in words what a flag takes.
func wantedOfFlag(f *pflag.Flag) string {
	if f.DefValue == "" {
		_, usage := pflag.UnquoteUsage(f)
		return usage
	}
	return "a " + f.Value.Type() + " such as " + f.DefValue
}

// configurable returns the flags that the file may set: not the file itself,
// nor what differs from node to node.
func configurable(flags *pflag.FlagSet) []*pflag.Flag {
	var out []*pflag.Flag
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "node" && f.Name != "help" {
			out = append(out, f)
		}
	})
	return out
}

// keyOf returns the flag's key in the file: run-dir is runDir.
func keyOf(f *pflag.Flag) string {
	words := strings.Split(f.Name, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// fill sets the section to the values of all flags, defaults included.
func fill(section *yaml.Node, flags *pflag.FlagSet) {
	*section = yaml.Node{Kind: yaml.MappingNode}
	for _, f := range configurable(flags) {
		value := &yaml.Node{}
		value.SetString(f.Value.String())
		section.Content = append(section.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: keyOf(f)}, value)
	}
}

// readConfig reads and checks the file at path; an empty path gives the
// defaults.
func readConfig(path string) (*config, error) {
	if path == "" {
		return parseConfig(path, nil)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return parseConfig(path, data)
}

// parseConfig reads and checks the text of a file; path names it in errors.
func parseConfig(path string, data []byte) (*config, error) {
	c := &config{}
	var tree yaml.Node
	if err := c.decode(path, data, &tree); err != nil {
		return nil, err
	}
	pubs, err := publisher.Complete(c.Publications)
	if err != nil {
		return nil, locate(path, &tree, err)
	}
	c.Publications = pubs
	if c.IMEX, err = c.IMEX.Complete(); err != nil {
		return nil, locate(path, &tree, err)
	}
	return c, nil
}

// decode reads the text twice: into c, and into the tree that knows the lines.
func (c *config) decode(path string, data []byte, tree *yaml.Node) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err := dec.Decode(c)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if errTree := yaml.Unmarshal(data, tree); errTree != nil {
		return errors.New(explain(path, tree, strings.TrimPrefix(errTree.Error(), "yaml: ")))
	}
	var typ *yaml.TypeError
	switch {
	case errors.As(err, &typ):
		var lines []error
		for _, e := range typ.Errors {
			lines = append(lines, errors.New(explain(path, tree, e)))
		}
		return errors.Join(lines...)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: a second document: want one", path)
	}
	return nil
}

// locate puts file and line before each error of a key of publications or of imex.
func locate(path string, tree *yaml.Node, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var out []error
	for _, e := range joined.Unwrap() {
		var field *publisher.FieldError
		var ofIMEX *imex.FieldError
		var way []string
		switch {
		case errors.As(e, &field):
			way = append([]string{"publications", strconv.Itoa(field.Index)}, strings.Split(field.Key, ".")...)
		case errors.As(e, &ofIMEX):
			way = []string{"imex", ofIMEX.Key}
		}
		if way != nil && !tree.IsZero() {
			e = fmt.Errorf("%s:%d: %w", path, lineOf(tree, way), e)
		}
		out = append(out, e)
	}
	return errors.Join(out...)
}

// lineOf follows keys and indices down from n, as far as they are there.
func lineOf(n *yaml.Node, way []string) int {
	switch {
	case n.Kind == yaml.DocumentNode:
		return lineOf(n.Content[0], way)
	case n.Kind == yaml.AliasNode:
		return lineOf(n.Alias, way)
	case len(way) == 0:
		return n.Line
	case n.Kind == yaml.SequenceNode:
		if i, err := strconv.Atoi(way[0]); err == nil && i < len(n.Content) {
			return lineOf(n.Content[i], way[1:])
		}
	case n.Kind == yaml.MappingNode:
		key, rest := way[0], way[1:]
		for i := 1; i < len(n.Content); i += 2 {
			if n.Content[i-1].Value == key {
				return lineOf(n.Content[i], rest)
			}
		}
	}
	return n.Line
}

// keyAt names the key of the value that begins on the line, for the library's
// errors name only that; with a text, of the one that it is.
func keyAt(n *yaml.Node, line int, text string) string {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && child.Line == line && (text == "" || child.Value == text) && (child.Kind == yaml.ScalarNode || child.Style == yaml.FlowStyle) {
			return n.Content[i-1].Value
		}
		if key := keyAt(child, line, text); key != "" {
			return key
		}
	}
	return ""
}

var (
	unknownField = regexp.MustCompile(`^line (\d+): field (\S+) not found in type (\S+)$`)
	wrongType    = regexp.MustCompile("^line (\\d+): cannot unmarshal !!\\w+ (?:`(.*)` )?into (\\S+)$")
	atLine       = regexp.MustCompile(`^line (\d+): (.*)$`)
)

// explain turns an error of the YAML library into file, line, key and what is
// allowed.
func explain(path string, tree *yaml.Node, message string) string {
	if m := unknownField.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("%s:%s: unknown key %q: want %s", path, m[1], m[2], strings.Join(keysOf(m[3]), ", "))
	}
	value := ""
	m := wrongType.FindStringSubmatch(message)
	if m != nil {
		if m[2] != "" {
			value = strconv.Quote(m[2]) + ": "
		}
		message = "want " + cmp.Or(wantedOf[m[3]], "keys and values")
	} else if m = atLine.FindStringSubmatch(message); m != nil {
		message = m[2]
	} else {
		return path + ": " + message
	}
	line, _ := strconv.Atoi(m[1])                      // the expression takes digits only
	quoted, _ := strconv.QuotedPrefix(value + message) // else it is empty
	text, _ := strconv.Unquote(quoted)
	key := cmp.Or(keyAt(tree, line, text), keyAt(tree, line, ""))
	if key != "" {
		key += ": "
	}
	return fmt.Sprintf("%s:%s: %s%s%s", path, m[1], key, value, message)
}

// wantedOf says in words what a field of the type takes; one that is not here takes
// keys and values.
var wantedOf = map[string]string{
	"string": "text", "bool": "true or false", "int": "a whole number", "float64": "a number", "[]string": "a list of texts", "[]int": "a list of whole numbers",
	"[]publisher.Publication": "a list of publications", "publisher.Publication": "the keys of a publication", "imex.Config": "the keys of imex",
}

// keysOf lists the keys of a configuration type by its name in errors.
func keysOf(typeName string) []string {
	var find func(t reflect.Type) []string
	find = func(t reflect.Type) []string {
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
		var keys, below []string
		for f := range fieldsOf(t) {
			keys, below = append(keys, f.Tag.Get("yaml")), append(below, find(f.Type)...)
		}
		if t.String() == typeName {
			return keys
		}
		return below
	}
	return slices.Sorted(slices.Values(find(reflect.TypeFor[config]())))
}

// fieldsOf yields the fields that have a key.
func fieldsOf(t reflect.Type) iter.Seq[reflect.StructField] {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if f := t.Field(i); f.Tag.Get("yaml") != "" && !yield(f) {
				return
			}
		}
	}
}
