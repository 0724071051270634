package config

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/imex"
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
func Keys() (all []string) {
	walk("", encoded(whole()), func(key, _ string) { all = append(all, key) })
	return all
}

// Value returns the default of a key as text. A key of one publication has none, because
// publicationDefaults may say another.
func Value(key string) string { return values()[key] }

// values are made once: many flags show the default of their key.
var values = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	walk("", encoded(whole()), func(key, value string) { all[key] = value })
	return all
})

// whole has every key with its default.
func whole() *Config {
	c := Default()
	c.IMEX, _ = c.IMEX.Complete() // the defaults are right
	c.PublicationDefaults = publication.Default()
	return c
}

func encoded(value any) *yaml.Node {
	var n yaml.Node
	if err := n.Encode(value); err != nil {
		panic(err) // all values are of kinds that YAML has
	}
	return &n
}

// walk calls visit with each key below a section and its value. Lists and pairs are empty.
func walk(section string, n *yaml.Node, visit func(key, value string)) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := below(section, n.Content[i].Value), n.Content[i+1]
		switch {
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			walk(key, value, visit)
		case key != publicationsKey:
			visit(key, value.Value)
		}
	}
}

// sections has a value of each section's type in Go.
func sections() []any {
	return []any{*whole(), Agent{}, Publisher{}, imex.Config{}, publication.Publication{}, publication.Selection{}, publication.Gres{}, publication.Slurm{}}
}

// namesIn are the keys of the section of a type in Go.
func namesIn(goType string) (names []string) {
	for _, section := range sections() {
		if n := encoded(section); fmt.Sprintf("%T", section) == goType {
			for i := 0; i < len(n.Content); i += 2 {
				names = append(names, n.Content[i].Value)
			}
		}
	}
	slices.Sort(names)
	return names
}

// gone says what holds in place of a key that sites could set once.
var gone = map[string]string{
	"confirmTime":     "facts must name a new place for 10 s, and longer if the node moved within an hour",
	"publishInterval": "nodes of known blocks and switches are published every 5 minutes at most",
	"holdWindow":      "changes count for an hour",
	"minBlockNodes":   "a block needs 2 nodes, or 1 with blocksBy: leaf",
	"resourceSlices":  "ResourceSlices are read if the publisher has the right to list them",
	"cgroupRoot":      "control groups are in fs/cgroup of sysRoot",
	"interval":        "the machine is read every 5 s",
	"sampleInterval":  "GPUs of jobs are sampled every 10 s",
	"sweepInterval":   "jobs that ended are looked for every 10 s",
	"hookJobInfo":     "job names come from the publisher's Slurm; hookScontrol is for hookGate: hold",
	"slurmdSpool":     "steps are found by their processes, wherever slurmd keeps them",
	"hookWait":        "a call of the hook takes 2 s at most",
	"dcgmInterval":    "DCGM's ids are read every 10 minutes, and when GPUs change",
}

// meant says what is wanted in place of a key that the section of a type in Go does not have: the same word in
// other letters, or the sections that have the word.
func meant(name, goType string) string {
	if text := gone[name]; text != "" {
		return text
	}
	names := namesIn(goType)
	var homes []string
	near := slices.Clone(names)
	for _, key := range Keys() {
		if at := strings.LastIndexByte(key, '.'); key[at+1:] == name {
			homes = append(homes, key[:at])
		} else {
			near = append(near, key)
		}
	}
	if len(homes) > 0 {
		return "it is a key of " + strings.Join(homes, " and of ")
	}
	for _, key := range near {
		if strings.EqualFold(key[strings.LastIndexByte(key, '.')+1:], name) {
			return "perhaps " + key
		}
	}
	return "want " + strings.Join(names, ", ")
}

// words say what a value of a type in Go is.
var words = map[string]string{
	"time.Duration":                      "a number and a unit, such as 30s, 5m or 1h",
	"bool":                               "true or false",
	"int":                                "a whole number",
	"float64":                            "a number",
	"string":                             "text",
	"[]string":                           "a list of texts",
	"[]int":                              "a list of whole numbers",
	"map[string][]string":                "lists by name, such as {name: [text]}",
	"map[string]string":                  "keys and values, such as {key: value}",
	"map[string]int":                     "chips and numbers of GPUs, such as {GB200: 144}",
	"map[string]publication.Publication": `publications by name, such as {hgx: {slurmVersion: "26.05"}}, and no list: write "hgx:" in place of "- name: hgx"`,
}

// wanted says what a value of a type in Go is.
func wanted(goType string) string {
	if text := words[goType]; text != "" {
		return text
	}
	text := "keys and values: " + strings.Join(namesIn(goType), ", ")
	if goType == "publication.Publication" {
		text = "the " + text + "; " + defaultsKey + " has those of all publications"
	}
	return text
}

func below(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
