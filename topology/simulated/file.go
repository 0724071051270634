package simulated

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// file is the YAML form of a cluster.
type file struct {
	Name   string  `yaml:"name"`
	About  string  `yaml:"about"`
	Groups []group `yaml:"groups"`
	Faults []Fault `yaml:"faults"`
	Steps  []Step  `yaml:"timeline"`
}

// group is a number of racks that are alike.
type group struct {
	Name  string `yaml:"name"`
	Racks int    `yaml:"racks"`
	// Nodes is how many machines a rack has.
	Nodes int `yaml:"nodes"`
	// Node is the pattern of their names, see [expand].
	Node string `yaml:"node"`
	// NVLink is where the domain ends: rack, node or none.
	NVLink   string `yaml:"nvlink"`
	Platform bool   `yaml:"platform"`
	Driver   string `yaml:"driver"`
	// Tiers are the patterns of the switches above a machine, nearest first.
	Tiers []string `yaml:"tiers"`
	GPUs  gpus     `yaml:"gpus"`
	MIG   mig      `yaml:"mig"`
	// Rails is how many InfiniBand adapters for the GPUs a machine has. Unless NVLink ends at the
	// rack, each shares a PCI switch with its part of the GPUs.
	Rails int `yaml:"rails"`
	// IMEX is the state of IMEX on its machines, nil without IMEX.
	IMEX *imexFacts `yaml:"imex"`
	// Use is how its devices are used at first.
	Use use `yaml:"use"`
}

type gpus struct {
	Count     int    `yaml:"count"`
	Product   string `yaml:"product"`
	MemoryMiB uint64 `yaml:"memoryMiB"`
	NUMANodes int    `yaml:"numaNodes"`
	CPUs      int    `yaml:"cpus"`
	NVLinks   int    `yaml:"nvlinks"`
	// Minors are the minor numbers in NVML's order, where they differ.
	Minors []int `yaml:"minors"`
}

type mig struct {
	Profile   string `yaml:"profile"`
	Instances int    `yaml:"instances"`
	FirstID   int    `yaml:"firstID"`
}

// imexFacts is the state of IMEX on a machine.
type imexFacts struct {
	// Major is the device major of the channels, nil without IMEX.
	Major    *int `yaml:"major"`
	Channels int  `yaml:"channels"`
	// Daemon and Domain are states such as READY and UP.
	Daemon      string `yaml:"daemon"`
	Domain      string `yaml:"domain"`
	HostService bool   `yaml:"hostService"`
}

const (
	nvlinkRack = "rack"
	nvlinkNode = "node"
	nvlinkNone = "none"
)

// Step is one moment of a cluster's timeline.
type Step struct {
	At  string  `yaml:"at"`
	Say string  `yaml:"say"`
	Do  []Fault `yaml:"do"`
}

// Fault is something that happens to a machine. Exactly one of its kinds is
// set; Reboot may stand beside any.
type Fault struct {
	Node string `yaml:"node"`
	// GPU is the index of the GPU for Fabric, Health, Lost, Xid, Clique and Use.
	// nil: all GPUs.
	GPU *int `yaml:"gpu"`
	// Instance is the GPU instance of one GPU for Use. nil: all instances.
	Instance *int `yaml:"instance"`
	// Absent takes the machine out of its rack.
	Absent bool `yaml:"absent"`
	// NoReport silences its agent.
	NoReport bool `yaml:"noReport"`
	// Fabric is the state of the fabric registration: notStarted or inProgress,
	// or completed with Status.
	Fabric string `yaml:"fabric"`
	Status string `yaml:"status"`
	// Health is unhealthy or limitedCapacity.
	Health string `yaml:"health"`
	// Lost takes a GPU off the bus.
	Lost bool `yaml:"lost"`
	// Xid is the code of a critical event of a GPU.
	Xid int `yaml:"xid"`
	// Clique puts a GPU into another clique of its cluster.
	Clique *uint32 `yaml:"clique"`
	// Label replaces the value of nvidia.com/gpu.clique.
	Label *string `yaml:"label"`
	// MoveTo puts the machine into the rack of another one, into its place if
	// that one is absent.
	MoveTo string `yaml:"moveTo"`
	// Use is how a device is used from now on.
	Use *use `yaml:"use"`
	// IMEX is the state of IMEX from now on.
	IMEX *imexFacts `yaml:"imex"`
	// Clear ends all that happened to the machine.
	Clear  bool `yaml:"clear"`
	Reboot bool `yaml:"reboot"`
}

// maxMachines bounds what a file can ask for.
const maxMachines = 100000

// Parse reads a site file. name stands for the file in messages. Unknown keys and
// values out of range are errors with file, line, key and what is allowed.
func Parse(name string, data []byte) (*Cluster, error) {
	var f file
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err := dec.Decode(&f)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: empty: want a cluster with groups", name)
	case err != nil:
		return nil, libraryError(name, err)
	case !errors.Is(dec.Decode(&doc), io.EOF):
		return nil, fmt.Errorf("%s: a second document: want one cluster in a file", name)
	}
	c, err := f.cluster()
	var bad *badValue
	if !errors.As(err, &bad) {
		return c, err
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, libraryError(name, err)
	}
	return nil, fmt.Errorf("%s:%d: %w", name, lineOf(doc.Content[0], bad.item+"."+bad.key), bad)
}

// libraryError returns the library's first error with file and line. The library's
// text is "yaml: line 2: ...", or for values a list of "line 2: ...".
func libraryError(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var values *yaml.TypeError
	if errors.As(err, &values) {
		text = values.Errors[0]
	}
	if line, ok := strings.CutPrefix(text, "line "); ok {
		return fmt.Errorf("%s:%s", name, line)
	}
	return fmt.Errorf("%s: %s", name, text)
}

// badValue is a value that cannot be: an item of the file such as faults.3, the
// item's key, and what is allowed.
type badValue struct{ item, key, text string }

func (e *badValue) Error() string {
	if e.key == "" {
		return e.text
	}
	return e.key + ": " + e.text
}

// bad says what is wrong with the value under a key. [inItem] adds the item.
func bad(key, format string, args ...any) error {
	return &badValue{key: key, text: fmt.Sprintf(format, args...)}
}

// inItem adds the item to an error of bad.
func inItem(err error, format string, args ...any) error {
	var bad *badValue
	if errors.As(err, &bad) {
		bad.item = fmt.Sprintf(format, args...)
	}
	return err
}

// lineOf returns the line of the value at a path such as faults.3.use.power. A value
// that is missing has the line of the mapping or list that it is missing in.
func lineOf(n *yaml.Node, path string) int {
	for key := range strings.SplitSeq(path, ".") {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		i := slices.IndexFunc(n.Content, func(k *yaml.Node) bool { return k.Value == key }) + 1
		if n.Kind == yaml.SequenceNode {
			i, _ = strconv.Atoi(key) // paths have numbers here
		}
		if n.Kind == yaml.MappingNode && i == 0 || i >= len(n.Content) {
			break
		}
		n = n.Content[i]
	}
	return n.Line
}

// cluster makes the machines, and applies the file's faults.
func (f *file) cluster() (*Cluster, error) {
	if len(f.Groups) == 0 {
		return nil, bad("groups", "missing: want at least one group of racks")
	}
	c := &Cluster{Name: f.Name, About: f.About, Steps: f.Steps, index: map[string]int{}}
	rack := 0
	for i := range f.Groups {
		if err := c.addGroup(&f.Groups[i], &rack); err != nil {
			return nil, inItem(err, "groups.%d", i)
		}
	}
	for i := range f.Faults {
		if err := c.check(&f.Faults[i]); err != nil {
			return nil, inItem(err, "faults.%d", i)
		}
		c.Apply(Step{Do: f.Faults[i : i+1]})
	}
	last := ""
	for i := range f.Steps {
		s := &f.Steps[i]
		if err := s.check(last); err != nil {
			return nil, inItem(err, "timeline.%d", i)
		}
		last = s.At
		for k := range s.Do {
			if err := c.check(&s.Do[k]); err != nil {
				return nil, inItem(err, "timeline.%d.do.%d", i, k)
			}
		}
	}
	return c, nil
}

var clock = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)

// check returns what is wrong with a step that follows a step at the time last.
func (s *Step) check(last string) error {
	switch {
	case !clock.MatchString(s.At):
		return bad("at", "%q: want a time of day such as \"09:10\"", s.At)
	case s.At < last:
		return bad("at", "%q: comes before %q: want the steps in their order", s.At, last)
	case s.Say == "":
		return bad("say", "missing: want what happens, in words")
	case len(s.Do) == 0:
		return bad("do", "missing: want at least one thing that happens to a machine")
	}
	return nil
}
