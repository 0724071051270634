package slurmconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// FragmentNode is what a fragment of slurm.conf says of a node.
type FragmentNode struct {
	// Processors are such as "Sockets=2 CoresPerSocket=36 ThreadsPerCore=2", empty
	// where they are unknown.
	Processors string
	// Gres is such as "gpu:gb200:4", empty for a node without GPUs.
	Gres string
}

// String returns the words that follow on the node's line, each after a space.
func (n FragmentNode) String() string {
	words := ""
	if n.Processors != "" {
		words = " " + n.Processors
	}
	if n.Gres != "" {
		words += " Gres=" + n.Gres
	}
	return words
}

// KeptBy reports whether a node that was n is the same in next, of which no more
// than something unknown has become known: processors, or the types of GPUs.
func (n FragmentNode) KeptBy(next FragmentNode) bool {
	was, errWas := parseNodeGres(n.Gres)
	is, errIs := parseNodeGres(next.Gres)
	if n.Processors != next.Processors && n.Processors != "" || errWas != nil || errIs != nil {
		return false
	}
	if len(was) != 1 || was[0].Type != "" {
		return n.Gres == next.Gres || n.Gres == ""
	}
	count := uint64(0)
	for _, g := range is {
		count += g.Count
	}
	return count == was[0].Count
}

// typed reports whether the node has gpus of a type.
func (n FragmentNode) typed() bool {
	gpus, err := parseNodeGres(n.Gres)
	return err == nil && slices.ContainsFunc(gpus, func(g GPUCount) bool { return g.Type != "" })
}

// ParseFragment reads what a fragment says of each node, for messages called
// name. Errors are *ParseError.
func ParseFragment(name string, data []byte) (map[string]FragmentNode, error) {
	if _, err := ParseSlurmConf(name, data, nil); err != nil {
		return nil, err
	}
	lines, err := scanConf(name, data, func(int, string) {}) // one that includes was refused
	if err != nil {
		return nil, err
	}
	nodes := map[string]FragmentNode{}
	for i := range lines {
		l := &lines[i]
		if !strings.EqualFold(l.key, "NodeName") || strings.EqualFold(l.value, "DEFAULT") {
			continue
		}
		var n FragmentNode
		for _, a := range l.attrs {
			if strings.EqualFold(a.key, "Gres") {
				n.Gres = a.value
			} else {
				n.Processors = strings.TrimPrefix(n.Processors+" "+a.key+"="+a.value, " ")
			}
		}
		names, err := hostlist.Expand(l.value)
		if err != nil {
			return nil, &ParseError{File: name, Line: l.line, Key: "NodeName", Message: err.Error()}
		}
		for _, node := range names {
			nodes[node] = n
		}
	}
	return nodes, nil
}

// nodes returns what the fragment says of each node. One of which it says nothing
// is absent.
func (f *Fragment) nodes() (map[string]FragmentNode, error) {
	lines, err := GresByNode(f.Gres)
	if err != nil {
		return nil, err
	}
	nodes := make(map[string]FragmentNode, len(f.Facts))
	for i := range f.Facts {
		facts := &f.Facts[i]
		was := f.Was[facts.SlurmName]
		n := FragmentNode{processorsOf(facts), f.GresOptions.slurmGres(facts, lines[facts.SlurmName])}
		if n.Processors == "" {
			n.Processors = was.Processors
		}
		if lines := lines[facts.SlurmName]; len(lines) > 0 && (n.Gres == "" || facts.Report == nil && lines[0].Name == "" && was.typed()) {
			n.Gres = was.Gres // types came from a report, which labels do not replace
		}
		if n != (FragmentNode{}) {
			nodes[facts.SlurmName] = n
		}
	}
	return nodes, nil
}

// processorsOf are the node's processors as a line says them, empty where its
// report does not say.
func processorsOf(f *topology.Facts) string {
	if f.Report == nil {
		return ""
	}
	shape, _ := shapeOf(f.Report.Sockets)
	if shape.sockets == 0 {
		return ""
	}
	return fmt.Sprintf("Sockets=%d CoresPerSocket=%d ThreadsPerCore=%d", shape.sockets, shape.cores, shape.threads)
}

// slurmGres is the node's Gres= in slurm.conf, empty where it has no GPUs or
// nobody says how many.
func (o *GresOptions) slurmGres(f *topology.Facts, lines []GresLine) string {
	if len(lines) > 0 && lines[0].Name == "" {
		return gresWords(o.detected(f))
	}
	var gpus []GPUCount
	for _, l := range lines {
		n := uint64(devices([]GresLine{l}))
		if at := indexType(gpus, l.Type); at >= 0 {
			gpus[at].Count += n
		} else {
			gpus = append(gpus, GPUCount{l.Type, n})
		}
	}
	return gresWords(gpus)
}

// detected are the GPUs that slurmd is to find on a node. It calls them as Gres=
// does where that is a part of the name that it would give them, and by no type at
// all where Gres= has none: then no job can ask for one. Where the type would be
// no part of it Slurm would drain the node, so there is none, nor where only labels
// say that there are GPUs.
func (o *GresOptions) detected(f *topology.Facts) []GPUCount {
	n := f.GPUCount()
	if n == 0 {
		return nil
	}
	untyped := []GPUCount{{Count: uint64(n)}}
	if f.Report == nil {
		return untyped
	}
	var gpus []GPUCount
	devices := f.Report.GRESDevicesBy(o.TypeOf)
	for _, d := range devices {
		typ, full := o.TypeOf(d.GPU.Product), normalType(d.GPU.Product)
		if d.MIG != nil {
			typ, full = o.migTypeOf(d.GPU.Product, d.MIG.Profile), full+"_"+normalType(d.MIG.Profile)
		}
		if !strings.Contains(full, typ) {
			untyped[0].Count = uint64(len(devices))
			return untyped
		}
		if at := indexType(gpus, typ); at >= 0 {
			gpus[at].Count++
		} else {
			gpus = append(gpus, GPUCount{typ, 1})
		}
	}
	return gpus
}

func indexType(gpus []GPUCount, typ string) int {
	for i := range gpus {
		if gpus[i].Type == typ {
			return i
		}
	}
	return -1
}
