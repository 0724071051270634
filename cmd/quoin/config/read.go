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
	// defaults are what is said of all publications, and named of one, in the order in which
	// it was read.
	defaults []yaml.Node
	named    []named
}

// named is what is said of the publication of a name, or of all for everyName.
type named struct {
	name string
	yaml.Node
}

// read puts the values of a document into c, all but those of publications. Its error joins
// one error for each unknown key and each value of a wrong type.
func (r *reader) read(c *Config, data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := dec.Decode(&first); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return r.located(err, nil)
	}
	if err := dec.Decode(&second); err == nil {
		return fmt.Errorf("%s: a second document: want one", r.place(second.Line))
	} else if !errors.Is(err, io.EOF) {
		return r.located(err, nil)
	}
	root := first.Content[0]
	if err := r.refuseManifest(root); err != nil {
		return err
	}
	given := r.note(nil, "", nil, root)
	known := yaml.NewDecoder(bytes.NewReader(data))
	known.KnownFields(true)
	if err := known.Decode(&Config{}); err != nil {
		return r.located(err, given)
	}
	var publications struct {
		Defaults yaml.Node            `yaml:"publicationDefaults"`
		Named    map[string]yaml.Node `yaml:"publications"`
	}
	if err := errors.Join(root.Decode(c), root.Decode(&publications)); err != nil {
		return r.located(err, given)
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

// given is a key of the document that is read, and its value or an element of it. An
// element has no name.
type given struct {
	key         string
	name, value *yaml.Node
}

// note adds the key and the keys below it to those that are given, and remembers their places.
// Keys without a value are removed, because null counts as not given, but for names of
// publications. Aliases are not followed.
func (r *reader) note(to []given, key string, name, value *yaml.Node) []given {
	to = append(to, given{key, name, value})
	switch value.Kind {
	case yaml.SequenceNode:
		for _, element := range value.Content {
			to = append(to, given{key, nil, element})
		}
	case yaml.MappingNode:
		kept := value.Content[:0]
		for i := 0; i+1 < len(value.Content); i += 2 {
			name, value := value.Content[i], value.Content[i+1]
			at := below(key, name.Value)
			to = r.note(to, at, name, value)
			if isNull(value) && key != publicationsKey {
				continue
			}
			r.places[at] = r.place(name.Line)
			kept = append(kept, name, value)
		}
		value.Content = kept
	}
	return to
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

// before returns the place where the first of the keys is given that is given at all, or else
// that of the nearest section above them, with what goes before an error of its value.
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
	atLine      = regexp.MustCompile(`(?s)^line (\d+): (.*)$`)
	unknownKey  = regexp.MustCompile(`(?s)^field (.*) not found in type `)
	wrongType   = regexp.MustCompile("(?s)^cannot unmarshal (!\\S*)(?: `(.*)`)? into (\\S+)$")
	repeatedKey = regexp.MustCompile(`(?s)^mapping key "(.*)" already defined at line (\d+)$`)
)

// located says an error of the YAML library in words of the configuration, with the place
// and the key. Of several it joins one error for each.
func (r *reader) located(err error, keys []given) error {
	typed, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		text := strings.TrimPrefix(err.Error(), "yaml: ")
		if found := atLine.FindStringSubmatch(text); found != nil {
			line, _ := strconv.Atoi(found[1]) // digits
			return fmt.Errorf("%s: %s", r.place(line), found[2])
		}
		return fmt.Errorf("%s: %s", r.place(1), text)
	}
	var all []error
	for _, text := range typed.Errors {
		line, message := 1, text
		if found := atLine.FindStringSubmatch(text); found != nil {
			line, _ = strconv.Atoi(found[1])
			message = found[2]
		}
		all = append(all, fmt.Errorf("%s: %s", r.place(line), reworded(line, message, keys)))
	}
	return errors.Join(all...)
}

// reworded says what is wrong in a line.
func reworded(line int, message string, keys []given) string {
	if found := unknownKey.FindStringSubmatch(message); found != nil {
		for _, g := range keys {
			if g.name != nil && g.name.Line == line && g.name.Value == found[1] {
				return unknown(strings.TrimSuffix(strings.TrimSuffix(g.key, found[1]), "."), found[1])
			}
		}
	} else if found := repeatedKey.FindStringSubmatch(message); found != nil {
		return fmt.Sprintf(`key "%s" is also in line %s: want it once`, found[1], found[2])
	} else if found := wrongType.FindStringSubmatch(message); found != nil {
		start := strings.TrimSuffix(found[2], "...") // the library cuts long values
		for _, g := range keys {
			if n := g.value; n.Line == line && n.ShortTag() == found[1] && strings.HasPrefix(n.Value, start) && g.mayBe(found[3]) {
				return mistyped(g.key, n, found[3])
			}
		}
	}
	return message
}

// mayBe reports whether the type in Go may be that of the value: one line has several keys, and
// the library names none of them.
func (g *given) mayBe(goType string) bool {
	n, _ := find(g.key)
	return n == nil || g.name == nil || strings.HasPrefix(goType, "[]") == (n.Kind == yaml.SequenceNode)
}

// mistyped says what a key wants in place of a value. goType is its type in Go.
func mistyped(key string, n *yaml.Node, goType string) string {
	message := "want " + wanted(key, goType) + ofAll(key)
	if n.Kind == yaml.ScalarNode {
		message = strconv.Quote(n.Value) + ": " + message
	}
	return titled(key, message)
}
