package config

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

const (
	defaultsKey     = "publicationDefaults"
	publicationsKey = "publications"
	// everyName stands for the name of every publication in a setting. No publication can
	// have it.
	everyName = "*"
)

// Keys lists all keys, such as agent.runDir and publicationDefaults.format.
func Keys() []string {
	var all []string
	var list func(section string, n *yaml.Node)
	list = func(section string, n *yaml.Node) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			switch key := below(section, n.Content[i].Value); {
			case isSection(n.Content[i+1]):
				list(key, n.Content[i+1])
			case key != publicationsKey:
				all = append(all, key)
			}
		}
	}
	list("", form())
	return all
}

// Value returns the default of a key as text. It is empty for a key of publications, because
// publicationDefaults may say another.
func Value(key string) string {
	if n, _ := find(key); n != nil && !strings.HasPrefix(key, publicationsKey) {
		return n.Value
	}
	return ""
}

// form returns the configuration of the defaults as YAML, which has every key and shows
// what kind of value it takes.
func form() *yaml.Node {
	c := Default()
	c.IMEX, _ = c.IMEX.Complete() // the defaults are right
	c.PublicationDefaults = publication.Default()
	var n yaml.Node
	if err := n.Encode(c); err != nil {
		panic(err) // all values are of kinds that YAML has
	}
	return &n
}

// find returns the default of a section or of a key. Of a key that is not known it returns nil,
// and the part that is known.
func find(key string) (n *yaml.Node, section string) {
	root := form()
	if n = root; key == "" {
		return n, ""
	}
	for name := range strings.SplitSeq(key, ".") {
		if n = child(n, name); section == publicationsKey { // whatever the publication's name is
			n = child(root, defaultsKey)
		}
		if n == nil {
			return nil, section
		}
		section = below(section, name)
	}
	return n, section
}

func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// isSection reports whether a default has known keys. The default of pairs is empty.
func isSection(n *yaml.Node) bool { return n.Kind == yaml.MappingNode && len(n.Content) > 0 }

// unknown says which keys a section has.
func unknown(section, name string) string {
	return titled(section, fmt.Sprintf("unknown key %q: want %s", name, namesIn(section)+ofAll(section)))
}

// ofAll says how a key is set in all publications, if it was taken for the name of one.
func ofAll(section string) string {
	name, is := strings.CutPrefix(section, publicationsKey+".")
	key := below(defaultsKey, name)
	if n, _ := find(key); !is || n == nil {
		return ""
	}
	return "; " + key + " is the key of all publications"
}

func namesIn(section string) string {
	var names []string
	if n, _ := find(section); n != nil && n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			names = append(names, n.Content[i].Value)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// words say what a value of a type is.
var words = map[string]string{
	"time.Duration":     "a number and a unit, such as 30s, 5m or 1h",
	"bool":              "true or false",
	"int":               "a whole number",
	"float64":           "a number",
	"string":            "text",
	"[]string":          "a list of texts",
	"[]int":             "a list of whole numbers",
	"map[string]string": "keys and values, such as {key: value}",
}

// wanted says what the value of a key is, of a type in Go.
func wanted(key, goType string) string {
	switch {
	case words[goType] != "":
		return words[goType]
	case key == publicationsKey:
		return "publications by name, such as {hgx: {slurmVersion: \"26.05\"}}, and no list: write \"hgx:\" in place of \"- name: hgx\""
	}
	return "keys and values: " + namesIn(key)
}

// titled puts the key before a message about its value.
func titled(key, message string) string {
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
