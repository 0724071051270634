package gres

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
)

// Device names a device of slurmd's list by its files, with commas between them: a GPU has one,
// a MIG instance the GPU's and those of its capabilities.
type Device string

// Machine is what slurmd's list depends on besides gres.conf. Slurm reads each only in some cases,
// and so does Places.
type Machine struct {
	// Counted returns the gpus of the node's Gres= in slurm.conf.
	Counted func() ([]GPUCount, error)
	// Detected returns the machine's GPUs, if each way of detection gives the same list of them.
	Detected func() ([]Device, error)
}

// Places returns slurmd's own list of a node's GPUs, by the lines that OfNode returned. Place i is
// what SLURM_JOB_GPUS of a Prolog calls i. An error says why the list is not known.
//
// The rules are those of Slurm 24.11 to 26.05. Without AutoDetect the devices are in the order of
// the lines. If slurm.conf's Gres= has Types, the devices of each Type are together, in the order
// and number of Gres=. With AutoDetect the list is known only if all GPUs are alike: the rules by
// which slurmd chooses among others differ between releases, and Slurm 25.11 and newer name GPUs that
// slurmd detects by UUID.
func (m *Machine) Places(lines []Line) ([]Device, error) {
	way, listed, err := readLines(lines)
	if err != nil {
		return nil, err
	}
	switch way {
	case "", AutoDetectOff:
		return m.listed(listed)
	case AutoDetectNvidia, AutoDetectNVML:
		if len(listed) > 0 {
			return nil, fmt.Errorf("AutoDetect=%s beside lines: it is not known which GPUs slurmd takes", way)
		}
		places, err := m.Detected()
		if err != nil {
			return nil, fmt.Errorf("AutoDetect=%s: %w", way, err)
		}
		return places, nil
	}
	return nil, fmt.Errorf("AutoDetect=%s: the order in which it finds GPUs is not known", way)
}

// readLines returns how the node detects its GPUs, and the devices of its lines.
func readLines(lines []Line) (way string, listed []RegisteredGPU, err error) {
	if way, err = Detects(lines); err != nil {
		return "", nil, err
	}
	for i := range lines {
		l := &lines[i]
		switch {
		case l.Name == gpu:
		case strings.EqualFold(l.Name, gpu):
			return "", nil, fmt.Errorf("a line has Name=%s: want gpu", l.Name)
		default:
			continue
		}
		for _, f := range l.Files {
			listed = append(listed, RegisteredGPU{Device(f), l.Type, l.Cores, l.Links})
		}
		if len(l.MultipleFiles) > 0 {
			listed = append(listed, RegisteredGPU{Device(strings.Join(l.MultipleFiles, ",")), l.Type, l.Cores, l.Links})
		}
	}
	return way, listed, nil
}

// Detects returns how a node detects its GPUs by the lines that are for it, as Way does. A line that names
// the node counts before one for all nodes. Two words for one node are an error.
func Detects(lines []Line) (way string, err error) {
	var words, ways [2]string // of lines for all nodes, and of those that name the node
	for i := range lines {
		word, at := strings.ToLower(lines[i].AutoDetect), lines[i].scope()
		switch {
		case word == "":
		case words[at] != "" && words[at] != word:
			return "", fmt.Errorf("AutoDetect=%s and AutoDetect=%s are for the same node", words[at], word)
		default:
			words[at], ways[at] = word, Way(word)
		}
	}
	return cmp.Or(ways[1], ways[0]), nil
}

// detectors are the ways of detection that slurmd looks for in a value of AutoDetect.
var detectors = []string{AutoDetectFull, AutoDetectNVML, "rsmi", "oneapi", "nrt", AutoDetectNvidia, AutoDetectOff}

// Way returns the way of detection that a value of AutoDetect names, in lower case. It is empty if slurmd
// ignores the value. A value that has more than one word in it is returned as it is: see IsWay.
func Way(value string) string {
	value = strings.ToLower(value)
	if !slices.ContainsFunc(detectors, func(d string) bool { return strings.Contains(value, d) }) {
		return ""
	}
	return value
}

// IsWay reports whether a value of AutoDetect is one word that Slurm has. AutoDetect=full is of 26.05.
func IsWay(value string) bool { return slices.Contains(detectors, strings.ToLower(value)) }

// listed is the list of a node that detects nothing.
func (m *Machine) listed(devices []RegisteredGPU) ([]Device, error) {
	if len(devices) == 0 {
		return nil, errors.New("no line gives the node a device file")
	}
	var counted []GPUCount
	if slices.ContainsFunc(devices, func(d RegisteredGPU) bool { return !strings.EqualFold(d.Type, devices[0].Type) }) {
		var err error
		if counted, err = m.Counted(); err != nil {
			return nil, fmt.Errorf("the lines have several Types, whose order is that of Gres= in slurm.conf: %w", err)
		}
	}
	if !hasTypes(counted) {
		return filesOf(devices), nil
	}
	var places []Device
	for _, c := range counted {
		of := slices.DeleteFunc(slices.Clone(devices), func(d RegisteredGPU) bool { return !strings.EqualFold(d.Type, c.Type) })
		places = append(places, filesOf(of[:min(c.Count, uint64(len(of)))])...)
	}
	return places, nil
}

func hasTypes(counted []GPUCount) bool {
	return slices.ContainsFunc(counted, func(c GPUCount) bool { return c.Type != "" })
}

func filesOf(devices []RegisteredGPU) []Device {
	var files []Device
	for _, d := range devices {
		files = append(files, d.Device)
	}
	return files
}

// OfNode reads the lines of gres.conf that are for a node, as its slurmd does: lines for all nodes
// first. Lines of other nodes are not looked into, so that a long file costs little.
func OfNode(name string, data []byte, node string) ([]Line, error) {
	var bad error
	lines, found := scan(name, data, func(c *syntax.Line) bool {
		if !strings.EqualFold(c.Key, "NodeName") {
			return true
		}
		own, err := isOf(c.Value, node)
		if err != nil && bad == nil {
			bad = &syntax.ParseError{File: name, Line: c.Number, Key: "NodeName", Message: err.Error()}
		}
		return own
	})
	if err := cmp.Or(bad, firstError(found)); err != nil {
		return nil, err
	}
	return Ordered(lines), nil
}

// Ordered returns lines for all nodes before lines that name nodes, as slurmd takes their devices.
func Ordered(lines []Line) []Line {
	return slices.SortedStableFunc(slices.Values(lines), func(a, b Line) int { return cmp.Compare(a.scope(), b.scope()) })
}

// scope is 0 of a line for all nodes, and 1 of a line that names nodes.
func (l *Line) scope() int { return min(1, len(l.Nodes)) }

// isOf reports whether a host list has a node. Slurm takes a broken list for one of nobody.
func isOf(list, node string) (is bool, err error) {
	if node == "" {
		return false, errors.New("it is not known which of these nodes this one is")
	}
	err = hostlist.Walk(list, func(name []byte) { is = is || string(name) == node })
	if errors.Is(err, hostlist.ErrNotPlain) {
		return is, err
	}
	return is && err == nil, nil
}

// CountedBy reads the gpus of a node's Gres= in slurm.conf.
func CountedBy(name string, data []byte, node string) ([]GPUCount, error) {
	conf, bad := syntax.Scan(name, data)
	if bad != nil {
		return nil, bad
	}
	defaults := syntax.Defaults{}
	for i := range conf {
		c := &conf[i]
		if !strings.EqualFold(c.Key, "NodeName") {
			continue
		}
		values := defaults.Values(c)
		if own, err := isOf(c.Value, node); values != nil && err == nil && own {
			counts := ReadCounts(values["gres"])
			return counts.GPUs, counts.Err()
		}
	}
	return nil, fmt.Errorf("%s has no line for node %s", name, node)
}
