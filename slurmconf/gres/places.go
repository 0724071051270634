package gres

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	// Detected returns the machine's GPUs as slurmd finds them by itself in a way, whole ones
	// alone.
	Detected func(way string) ([]Detected, error)
}

// Detected is a GPU that slurmd finds by itself.
type Detected struct {
	File Device
	// Index is NVML's.
	Index   int
	Product string
}

// Places returns slurmd's own list of a node's GPUs, by the lines that OfNode returned. Place i is
// what SLURM_JOB_GPUS of a Prolog calls i. An error says why the list is not known.
//
// The rules are those of Slurm 24.11 to 26.05. Without AutoDetect the devices are in the order of
// the lines. If slurm.conf's Gres= has Types, the devices of each Type are together, in the order
// and number of Gres=. With AutoDetect they are in the order of their files, or of NVML.
func (m *Machine) Places(lines []Line) ([]Device, error) {
	way, listed, err := readLines(lines)
	if err != nil {
		return nil, err
	}
	switch way {
	case "", AutoDetectOff:
		return m.listed(listed)
	case AutoDetectNvidia, AutoDetectNVML:
		return m.detected(way, listed)
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

// detected is the list of a node that detects its GPUs. Lines beside AutoDetect say which of them
// it has.
func (m *Machine) detected(way string, listed []RegisteredGPU) ([]Device, error) {
	found, err := m.Detected(way)
	if err != nil {
		return nil, fmt.Errorf("AutoDetect=%s: %w", way, err)
	}
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b Detected) int { return compareFiles(a.File, b.File) })
	switch {
	case len(listed) > 0:
		return m.detectedListed(way, listed, found)
	case !areAlike(found):
		if found, err = m.ofTypes(found); err != nil {
			return nil, fmt.Errorf("AutoDetect=%s of GPUs that differ: %w", way, err)
		}
	}
	return inDetectedOrder(way, found, m.countsAll)
}

// detectedListed is the list of a node that has AutoDetect and lines.
func (m *Machine) detectedListed(way string, listed []RegisteredGPU, found []Detected) ([]Device, error) {
	counted, err := m.Counted()
	if err != nil {
		return nil, fmt.Errorf("AutoDetect=%s beside lines: %w", way, err)
	}
	if n := Total(counted); n != uint64(len(listed)) || slices.ContainsFunc(listed, func(d RegisteredGPU) bool { return strings.Contains(string(d.Device), ",") }) {
		return nil, fmt.Errorf("AutoDetect=%s beside lines: it is not known which GPUs slurmd takes, unless Gres= in slurm.conf counts as many as the lines and no line has MultipleFiles", way)
	}
	files := filesOf(listed)
	slices.SortStableFunc(files, compareFiles)
	if way == AutoDetectNvidia {
		return files, nil
	}
	places, err := inDetectedOrder(way, found, func([]Detected) bool { return false })
	if err == nil && (!slices.Equal(places, files) || !areAlike(found)) {
		err = fmt.Errorf("AutoDetect=%s beside lines: the order is not known, unless the lines have all GPUs and all are alike", way)
	}
	return places, err
}

// ofTypes returns the GPUs that slurmd takes of some that differ: a GPU is of a Type of Gres= if
// its product's name contains it.
func (m *Machine) ofTypes(found []Detected) ([]Detected, error) {
	counted, err := m.Counted()
	if err != nil {
		return nil, err
	}
	if !hasTypes(counted) {
		if Total(counted) != uint64(len(found)) {
			return nil, errors.New("the Gres= of slurm.conf counts another number of GPUs, and has no Type")
		}
		return found, nil
	}
	var taken []Detected
	of := make(map[string]uint64)
	for _, d := range found {
		typ := ""
		for _, c := range counted {
			if !isOfType(d.Product, c.Type) {
				continue
			}
			if typ != "" {
				return nil, fmt.Errorf("%s is of two Types of Gres= in slurm.conf: %s and %s", d.Product, typ, c.Type)
			}
			typ = c.Type
		}
		if typ != "" {
			taken = append(taken, d)
			of[typ]++
		}
	}
	for _, c := range counted {
		if of[c.Type] != c.Count {
			return nil, fmt.Errorf("the Gres= of slurm.conf counts %d of Type %s, and the machine has %d", c.Count, c.Type, of[c.Type])
		}
	}
	return taken, nil
}

// inDetectedOrder puts GPUs that are in the order of their files into the order of a way. If
// slurmd takes a part of them only, it takes the first by file, and NVML's order may differ.
func inDetectedOrder(way string, found []Detected, takesAll func([]Detected) bool) ([]Device, error) {
	ordered := found
	if way == AutoDetectNVML {
		ordered = slices.Clone(found)
		slices.SortStableFunc(ordered, func(a, b Detected) int { return cmp.Compare(a.Index, b.Index) })
		if !slices.Equal(ordered, found) && !takesAll(found) {
			return nil, errors.New("AutoDetect=nvml: NVML's order differs from that of the device files, and slurmd may take a part of the GPUs only")
		}
	}
	places := make([]Device, len(ordered))
	for i := range ordered {
		places[i] = ordered[i].File
	}
	return places, nil
}

// countsAll reports whether Gres= in slurm.conf counts as many as there are.
func (m *Machine) countsAll(found []Detected) bool {
	counted, err := m.Counted()
	return err == nil && Total(counted) == uint64(len(found))
}

func areAlike(found []Detected) bool {
	return !slices.ContainsFunc(found, func(d Detected) bool { return d.Product != found[0].Product })
}

// compareFiles orders device files as Slurm does: numbers at their ends count as numbers.
func compareFiles(a, b Device) int {
	nameA, numberA := cutNumber(string(a))
	nameB, numberB := cutNumber(string(b))
	return cmp.Or(cmp.Compare(nameA, nameB), cmp.Compare(numberA, numberB))
}

func cutNumber(file string) (name string, number int) {
	name = strings.TrimRight(file, "0123456789")
	number, _ = strconv.Atoi(file[len(name):])
	return name, number
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
