package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// reader reads a file and the settings of the command line, one after the other, and
// remembers where each key is given.
type reader struct {
	path string // of the file
	// flag is the flag whose setting is read now. It is empty for the file.
	flag string
	// places are where keys are given: a line of the file, or a flag.
	places map[string]string
	// defaults are the keys of all publications, and named the keys of one publication, each in
	// the order in which they were read.
	defaults []yaml.Node
	named    []named
}

// named has the keys of the publication with a name, or of all publications for everyName.
type named struct {
	name string
	yaml.Node
}

// read puts the values of a document into c. It keeps those of publications for later, because
// a setting may follow. Its error joins one error for each unknown key and each value of a wrong
// type.
func (r *reader) read(c *Config, data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := dec.Decode(&first); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return r.located(err, &first)
	}
	if err := dec.Decode(&second); err == nil {
		return fmt.Errorf("%s: a second document: want one", r.place(second.Line))
	} else if !errors.Is(err, io.EOF) {
		return r.located(err, &first)
	}
	root := first.Content[0]
	if err := plainKeys(root); err != nil {
		return r.located(err, root)
	}
	if err := r.refuseManifest(root); err != nil {
		return err
	}
	if err := known(data); err != nil {
		return r.located(err, root)
	}
	r.note("", root)
	var publications struct {
		Defaults yaml.Node            `yaml:"publicationDefaults"`
		Named    map[string]yaml.Node `yaml:"publications"`
	}
	if err := errors.Join(root.Decode(c), root.Decode(&publications)); err != nil {
		return r.located(err, root)
	}
	if place := r.places[below(publicationsKey, everyName)]; place != "" && r.flag == "" {
		return fmt.Errorf("%s: publications: %q is for --set alone: want a name, or publicationDefaults for all publications", place, everyName)
	}
	r.defaults = append(r.defaults, publications.Defaults)
	for _, name := range slices.Sorted(maps.Keys(publications.Named)) {
		r.named = append(r.named, named{name, publications.Named[name]})
	}
	return nil
}

// plainKeys refuses keys that are lists, mappings or aliases. The YAML library panics about some of
// them beside a merge key.
func plainKeys(n *yaml.Node) error {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a key is a list, a mapping or an alias: want a word", c.Line)
		}
		if err := plainKeys(c); err != nil {
			return err
		}
	}
	return nil
}

// known returns an error if a document has unknown keys or values of a wrong type.
func known(data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	return dec.Decode(&Config{})
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
		return fmt.Errorf("%s: this is a ConfigMap: want the text below its key quoin.yaml as a file of its own", r.place(object.Kind.Line))
	}
	return fmt.Errorf("%s: this is a Kubernetes object of kind %s: want the configuration of quoin, see quoin config", r.place(object.Kind.Line), object.Kind.Value)
}

// note remembers the places of the keys below a section. It removes keys without a value, because
// null counts as not given. Names of publications stay. It follows no aliases.
func (r *reader) note(section string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return
	}
	kept := n.Content[:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if isNull(value) && section != publicationsKey {
			continue
		}
		key := below(section, name.Value)
		r.places[key] = r.place(name.Line)
		kept = append(kept, name, value)
		r.note(key, value)
	}
	n.Content = kept
}

func isNull(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// place says where a value is given that is read now.
func (r *reader) place(line int) string {
	if r.flag != "" {
		return r.flag
	}
	return r.path + ":" + strconv.Itoa(line)
}

// before returns what an error about a value begins with: the place of the first of the keys that
// is given, or else the place of the nearest section above them.
func (r *reader) before(keys ...string) string {
	for {
		for i, key := range keys {
			if place := r.places[key]; place != "" {
				return place + ": "
			}
			keys[i] = key[:max(strings.LastIndexByte(key, '.'), 0)]
		}
		if strings.Join(keys, "") == "" {
			return ""
		}
	}
}

// The errors of the YAML library.
var (
	atLine      = regexp.MustCompile(`(?s)^(?:yaml: )?line (\d+): (.*)$`)
	unknownKey  = regexp.MustCompile(`(?s)^field (.*) not found in type (\S+)$`)
	wrongType   = regexp.MustCompile("(?s)^cannot unmarshal (!\\S*)(?: `(.*)`)? into (\\S+)$")
	repeatedKey = regexp.MustCompile(`(?s)^mapping key (".*") already defined at line (\d+)$`)
)

// located says an error about a document in words of the configuration, with the place. Of
// several errors it joins one for each.
func (r *reader) located(err error, document *yaml.Node) error {
	texts := []string{err.Error()}
	if typed, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = typed.Errors
	}
	var all []error
	for _, text := range texts {
		line, message := 1, strings.TrimPrefix(text, "yaml: ")
		if found := atLine.FindStringSubmatch(text); found != nil {
			line, _ = strconv.Atoi(found[1]) // digits
			message = found[2]
		}
		if key := r.wrongKey(document, line, message); key != "" {
			message = key + ": " + reworded(message)
		} else {
			message = reworded(message)
		}
		all = append(all, fmt.Errorf("%s: %s", r.place(line), message))
	}
	return errors.Join(all...)
}

// wrongKey returns the key whose value has a wrong type, as a message about a line says. It returns
// nothing if several keys have such a value on the line, if an alias may stand for the value, or if
// a flag names the key already.
func (r *reader) wrongKey(document *yaml.Node, line int, message string) string {
	found := wrongType.FindStringSubmatch(message)
	if found == nil || r.flag != "" {
		return ""
	}
	tag, start := found[1], strings.TrimSuffix(found[2], "...") // the YAML library cuts long values
	var keys []string
	var visit func(section string, n *yaml.Node)
	visit = func(section string, n *yaml.Node) {
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			key, value := below(section, n.Content[i].Value), n.Content[i+1]
			if value.Line == line && value.Anchor == "" && value.ShortTag() == tag && strings.HasPrefix(value.Value, start) {
				keys = append(keys, key)
			}
			visit(key, value)
		}
	}
	if visit("", document); len(keys) != 1 {
		return ""
	}
	return keys[0]
}

// reworded says an error of the YAML library in words of the configuration.
func reworded(message string) string {
	if found := unknownKey.FindStringSubmatch(message); found != nil {
		return fmt.Sprintf("unknown key %q: %s", found[1], meant(found[1], found[2]))
	}
	if found := repeatedKey.FindStringSubmatch(message); found != nil {
		return fmt.Sprintf("key %s is also in line %s: want it once", found[1], found[2])
	}
	if found := wrongType.FindStringSubmatch(message); found != nil && found[2] != "" {
		return fmt.Sprintf("%q: want %s", found[2], wanted(found[3]))
	} else if found != nil {
		return "want " + wanted(found[3])
	}
	return "cannot read the YAML: " + message
}
