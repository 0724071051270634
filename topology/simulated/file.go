package simulated

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/topology"
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
	// Node is the pattern of their names, see expand.
	Node string `yaml:"node"`
	// NVLink says where the domain ends: rack, node or none.
	NVLink   string `yaml:"nvlink"`
	Platform bool   `yaml:"platform"`
	Driver   string `yaml:"driver"`
	// Tiers are the patterns of the switches above a machine, nearest first.
	Tiers []string `yaml:"tiers"`
	GPUs  gpus     `yaml:"gpus"`
	MIG   mig      `yaml:"mig"`

	line int
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

	line int
}

// Fault is something that happens to a machine. Exactly one of its kinds is
// set; Reboot may stand beside any.
type Fault struct {
	Node string `yaml:"node"`
	// GPU is the index of the GPU that Fabric, Health and Lost are about; all
	// GPUs when absent.
	GPU *int `yaml:"gpu"`
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
	// Clique puts a GPU into another clique of its cluster.
	Clique *uint32 `yaml:"clique"`
	// Label replaces the value of nvidia.com/gpu.clique.
	Label *string `yaml:"label"`
	// MoveTo puts the machine into the rack of another one.
	MoveTo string `yaml:"moveTo"`
	// Clear ends all that happened to the machine.
	Clear  bool `yaml:"clear"`
	Reboot bool `yaml:"reboot"`

	line int
}

// UnmarshalYAML implements yaml.Unmarshaler, to know the line of errors.
func (g *group) UnmarshalYAML(n *yaml.Node) error {
	type plain group
	return decodeAt(n, (*plain)(g), &g.line)
}

// UnmarshalYAML implements yaml.Unmarshaler, to know the line of errors.
func (f *Fault) UnmarshalYAML(n *yaml.Node) error {
	type plain Fault
	return decodeAt(n, (*plain)(f), &f.line)
}

// UnmarshalYAML implements yaml.Unmarshaler, to know the line of errors.
func (s *Step) UnmarshalYAML(n *yaml.Node) error {
	type plain Step
	return decodeAt(n, (*plain)(s), &s.line)
}

// decodeAt decodes n strictly: the library's own strictness ends at a type that
// unmarshals itself.
func decodeAt(n *yaml.Node, into any, line *int) error {
	*line = n.Line
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want a mapping of keys and values", n.Line)
	}
	allowed := keysOf(into)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; !allowed[key.Value] {
			return fmt.Errorf("line %d: unknown key %q: want %s", key.Line, key.Value, strings.Join(sorted(allowed), ", "))
		}
	}
	return n.Decode(into)
}

// maxMachines bounds what a file can ask for.
const maxMachines = 100000

// Parse reads a cluster file, for messages called name. Unknown keys and values
// out of range are errors with file, line, key and what is allowed.
func Parse(name string, data []byte) (*Cluster, error) {
	var f file
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: empty: want a cluster with groups", name)
		}
		return nil, fmt.Errorf("%s:%s", name, withLine(err))
	}
	c := &Cluster{Name: f.Name, About: f.About, index: map[string]int{}}
	if len(f.Groups) == 0 {
		return nil, fmt.Errorf("%s: no groups: want at least one group of racks", name)
	}
	rack := 0
	for i := range f.Groups {
		if err := c.addGroup(&f.Groups[i], &rack); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, f.Groups[i].line, err)
		}
	}
	for _, fault := range f.Faults {
		if err := c.check(&fault); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, fault.line, err)
		}
		c.machines[c.index[fault.Node]].apply(c, fault)
	}
	for _, s := range f.Steps {
		for i := range s.Do {
			if err := c.check(&s.Do[i]); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, s.Do[i].line, err)
			}
		}
	}
	c.Steps = f.Steps
	return c, nil
}

// withLine turns the library's "yaml: line N: message" into "N: message".
func withLine(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n")
	text = strings.TrimSpace(text)
	if m := libraryLine.FindStringSubmatch(text); m != nil {
		text = m[1] + ": " + m[2]
	}
	if m := libraryField.FindStringSubmatch(text); m != nil {
		text = m[1] + `: unknown key "` + m[2] + `": want ` + strings.Join(sorted(keysOf(&file{})), ", ")
	}
	return text
}

var (
	libraryLine  = regexp.MustCompile(`(?s)^line (\d+): (.*)$`)
	libraryField = regexp.MustCompile(`^(\d+): field (\S+) not found in type \S+`)
)

// addGroup makes the group's machines.
func (c *Cluster) addGroup(g *group, rack *int) error {
	if err := g.complete(); err != nil {
		return err
	}
	if g.Racks*g.Nodes+len(c.machines) > maxMachines {
		return fmt.Errorf("racks: %d racks of %d nodes: want at most %d machines", g.Racks, g.Nodes, maxMachines)
	}
	node := 0
	for r := range g.Racks {
		*rack++
		for tray := range g.Nodes {
			node++
			at := map[string]int{"rack": r + 1, "tray": tray + 1, "node": node}
			m := machine{group: g, rack: *rack, domain: *rack, tray: tray + 1}
			var err error
			if m.name, err = expand(g.Node, at); err != nil {
				return fmt.Errorf("node: %w", err)
			}
			for _, pattern := range g.Tiers {
				tier, err := expand(pattern, at)
				if err != nil {
					return fmt.Errorf("tiers: %w", err)
				}
				m.tiers = append(m.tiers, tier)
			}
			if _, dup := c.index[m.name]; dup {
				return fmt.Errorf("node: pattern %q gives the name %q twice: use {node}, or {rack} and {tray}", g.Node, m.name)
			}
			c.index[m.name] = len(c.machines)
			c.machines = append(c.machines, m)
		}
	}
	return nil
}

// complete fills in defaults and checks the group.
func (g *group) complete() error {
	for _, n := range []struct {
		key            string
		value          *int
		otherwise, max int
	}{{"racks", &g.Racks, 1, maxMachines}, {"nodes", &g.Nodes, 1, 4096}, {"gpus.numaNodes", &g.GPUs.NUMANodes, 1, 16}} {
		if *n.value == 0 {
			*n.value = n.otherwise
		}
		if *n.value < 0 || *n.value > n.max {
			return fmt.Errorf("%s: %d: want 1 to %d", n.key, *n.value, n.max)
		}
	}
	if g.Node == "" {
		return errors.New("node: missing: want a pattern such as gb200-{node:03}")
	}
	if g.NVLink == "" {
		g.NVLink = nvlinkNone
	}
	if g.NVLink != nvlinkRack && g.NVLink != nvlinkNode && g.NVLink != nvlinkNone {
		return fmt.Errorf("nvlink: %q: want rack, node or none", g.NVLink)
	}
	if g.Driver == "" {
		g.Driver = "580.65.06"
	}
	return g.checkGPUs()
}

func (g *group) checkGPUs() error {
	switch s := &g.GPUs; {
	case s.Count < 0 || s.Count > 64:
		return fmt.Errorf("gpus.count: %d: want 0 to 64", s.Count)
	case s.Count > 0 && s.Product == "":
		return errors.New("gpus.product: missing: want such as NVIDIA GB200")
	case s.NVLinks < 0 || s.NVLinks > 18:
		return fmt.Errorf("gpus.nvlinks: %d: want 0 to 18", s.NVLinks)
	case s.CPUs < 0 || s.CPUs > 4096:
		return fmt.Errorf("gpus.cpus: %d: want 0 to 4096", s.CPUs)
	case len(s.Minors) > 0 && len(s.Minors) != s.Count:
		return fmt.Errorf("gpus.minors: %d numbers: want one per GPU, %d", len(s.Minors), s.Count)
	case g.MIG.Instances < 0 || g.MIG.Instances > 7:
		return fmt.Errorf("mig.instances: %d: want 0 to 7", g.MIG.Instances)
	case g.MIG.Instances > 0 && g.MIG.Profile == "":
		return errors.New("mig.profile: missing: want such as 1g.5gb")
	case g.MIG.FirstID < 0 || g.MIG.FirstID > 7:
		return fmt.Errorf("mig.firstID: %d: want 0 to 7", g.MIG.FirstID)
	}
	for i, a := range g.GPUs.Minors {
		if a < 0 || a > 255 {
			return fmt.Errorf("gpus.minors: %d: want 0 to 255", a)
		}
		for _, b := range g.GPUs.Minors[:i] {
			if a == b {
				return fmt.Errorf("gpus.minors: %d stands twice", a)
			}
		}
	}
	return nil
}

// check refuses a fault that makes no sense in the cluster.
func (c *Cluster) check(f *Fault) error {
	i, ok := c.index[f.Node]
	if !ok {
		return fmt.Errorf("node: no machine %q: want one of the groups' machines, such as %s", f.Node, c.example())
	}
	kinds := 0
	for _, set := range []bool{f.Absent, f.NoReport, f.Fabric != "", f.Health != "", f.Lost, f.Clique != nil, f.Label != nil, f.MoveTo != "", f.Clear} {
		if set {
			kinds++
		}
	}
	if _, ok := c.index[f.MoveTo]; f.MoveTo != "" && !ok {
		return fmt.Errorf("moveTo: no machine %q", f.MoveTo)
	}
	switch {
	case kinds > 1 || kinds == 0 && !f.Reboot:
		return errors.New("want exactly one of absent, noReport, fabric, health, lost, clique, label, moveTo and clear")
	case f.Fabric != "" && f.Fabric != string(topology.FabricNotStarted) && f.Fabric != string(topology.FabricInProgress) && f.Fabric != string(topology.FabricCompleted):
		return fmt.Errorf("fabric: %q: want notStarted, inProgress, or completed with a status", f.Fabric)
	case f.Fabric == string(topology.FabricCompleted) && f.Status == "":
		return errors.New("status: missing: want the NVML error that the registration ended with, such as ERROR_UNKNOWN")
	case f.Health != "" && f.Health != string(topology.HealthUnhealthy) && f.Health != string(topology.HealthLimitedCapacity):
		return fmt.Errorf("health: %q: want unhealthy or limitedCapacity", f.Health)
	case f.GPU != nil && (*f.GPU < 0 || *f.GPU >= c.machines[i].group.GPUs.Count):
		return fmt.Errorf("gpu: %d: machine %s has GPUs 0 to %d", *f.GPU, f.Node, c.machines[i].group.GPUs.Count-1)
	case f.Lost && f.GPU == nil:
		return errors.New("lost: without gpu: want the index of the GPU")
	}
	return nil
}

// strike changes the report as the fault says.
func (f *Fault) strike(n *topology.Node) {
	if f.Lost {
		for i := range n.GPUs {
			if n.GPUs[i].Index == *f.GPU {
				n.Problems = append(n.Problems, topology.Problem{Reason: "GPULost", Message: "GPU " + n.GPUs[i].UUID + " has fallen off the bus"})
				n.GPUs = append(n.GPUs[:i:i], n.GPUs[i+1:]...)
				return
			}
		}
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if f.GPU != nil && *f.GPU != g.Index || g.Fabric == nil {
			continue
		}
		switch {
		case f.Fabric == string(topology.FabricCompleted):
			g.Fabric.Status = f.Status
		case f.Fabric != "":
			g.Fabric = &topology.Fabric{State: topology.FabricState(f.Fabric)}
		case f.Health != "":
			g.Fabric.Health = topology.Health(f.Health)
		case f.Clique != nil:
			g.Fabric.CliqueID = *f.Clique
		}
	}
}

var placeholder = regexp.MustCompile(`\{([a-z]+)(?:/([0-9]+))?(?::([0-9]+))?\}`)

// expand replaces {rack}, {tray} and {node}, which count from 1. {rack/4} is
// the same for four racks, {node:03} has at least three digits.
func expand(pattern string, at map[string]int) (string, error) {
	var failed error
	out := placeholder.ReplaceAllStringFunc(pattern, func(s string) string {
		m := placeholder.FindStringSubmatch(s)
		n, ok := at[m[1]]
		if !ok {
			failed = fmt.Errorf("pattern %q: %s: want {rack}, {tray} or {node}", pattern, s)
			return s
		}
		if m[2] != "" {
			per, err := strconv.Atoi(m[2])
			if err != nil || per < 1 {
				failed = fmt.Errorf("pattern %q: %s: want a divisor of 1 or more", pattern, s)
				return s
			}
			n = (n-1)/per + 1
		}
		width, _ := strconv.Atoi(m[3]) // absent: 0
		return fmt.Sprintf("%0*d", min(width, 9), n)
	})
	if strings.ContainsAny(out, "{}") && failed == nil {
		failed = fmt.Errorf("pattern %q: want {rack}, {tray} or {node}, as {rack/4} or {node:03} too", pattern)
	}
	return out, failed
}
