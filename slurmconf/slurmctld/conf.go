package slurmctld

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// Conf is what a slurm.conf says that the other files must go with.
type Conf struct {
	Name string
	// Nodes are the nodes of the lines NodeName, by name. Nodes of one line share one
	// Node.
	Nodes map[string]*lint.Node
	// Future are the nodes of lines NodeName with State=FUTURE. Slurm has none of them yet.
	Future []string
	// GresTypes are the types of all lines GresTypes, nil if there is none.
	GresTypes []string
	// Partitions are the lines PartitionName, with their defaults, and NodeSets the names of the
	// lines NodeSet, which partitions use like nodes.
	Partitions []lint.Partition
	NodeSets   []string
	// NodeTopologies are the lines NodeName that have Topology=, or have it by default.
	NodeTopologies []lint.NodeTopology
	// Settings are the keys that stand by themselves, by key in lower case. Of a key
	// given twice the last one counts.
	Settings map[string]lint.Setting
	// Words are the keys of the lines NodeName and PartitionName; see lint.Options.
	Words map[string]map[string]lint.Setting
}

// ParseConf reads a slurm.conf and the files that it includes. name stands for the
// file in messages. If include is nil, a file that includes others is an error.
// Errors are *syntax.ParseError.
func ParseConf(name string, data []byte, include syntax.Include) (*Conf, error) {
	joined, in := syntax.Join(name, data, include)
	if len(in.Unread) > 0 {
		f := in.Unread[0]
		return nil, &syntax.ParseError{File: f.File, Line: f.Line, Key: "Include", Message: f.Message + "; " + f.Remedy, NotJudged: f.Severity == topology.Unknown}
	}
	lines, bad := syntax.Scan(name, joined)
	if bad != nil {
		bad.File, bad.Line = in.At(name, bad.Line)
		return nil, bad
	}
	r := confReader{conf: &Conf{Name: name, Nodes: map[string]*lint.Node{}, Settings: map[string]lint.Setting{}, Words: map[string]map[string]lint.Setting{"nodename": {}, "partitionname": {}}}, nodeDefault: syntax.Defaults{}, partitionDefault: syntax.Defaults{}}
	for i := range lines {
		l := &lines[i]
		var file string
		file, l.Number = in.At(name, l.Number)
		if err := r.line(file, l); err != nil {
			return nil, err
		}
	}
	return r.conf, nil
}

// Options returns what Lint needs to judge files for the slurm.conf. If slurm.conf
// lists no node, as with nodes that register dynamically, every node is known.
func (c *Conf) Options(release slurmconf.Release) lint.Options {
	o := lint.Options{Release: release, Plugin: lint.Plugin(c.Settings["topologyplugin"].Value), Partitions: c.Partitions, NodeSets: c.NodeSets, NodeTopologies: c.NodeTopologies, SlurmConf: c.Name, Settings: c.Settings, Words: c.Words, GresTypes: c.GresTypes}
	if len(c.Nodes) > 0 {
		o.Nodes, o.KnownNodes = c.Nodes, slices.Sorted(maps.Keys(c.Nodes))
	}
	if c.GresTypes == nil {
		o.GresTypes = []string{}
	}
	return o
}

// confReader reads the lines of a slurm.conf in the order in which Slurm does.
type confReader struct {
	conf                          *Conf
	nodeDefault, partitionDefault syntax.Defaults
}

// line takes what Conf needs from one line. It ignores the rest, which Slurm judges.
func (r *confReader) line(file string, l *syntax.Line) error {
	first := strings.ToLower(l.Key)
	if words, ok := r.conf.Words[first]; ok {
		for _, a := range l.Attrs {
			if key := strings.ToLower(a.Key); words[key].Line == 0 {
				words[key] = lint.Setting{Key: a.Key, File: file, Line: l.Number}
			}
		}
	}
	switch first {
	case "nodename":
		return r.nodes(file, l)
	case "partitionname":
		r.partition(file, l)
		return nil
	case "nodeset":
		r.conf.NodeSets = append(r.conf.NodeSets, l.Value)
		return nil
	}
	for _, a := range append([]syntax.Pair{l.Pair}, l.Attrs...) { // several keys may share a line
		key := strings.ToLower(a.Key)
		r.conf.Settings[key] = lint.Setting{Key: a.Key, Value: a.Value, File: file, Line: l.Number}
		if key == "grestypes" {
			r.conf.GresTypes = strings.FieldsFunc(a.Value, func(c rune) bool { return c == ',' })
		}
	}
	return nil
}

// partition notes which nodes and which topology a partition has.
func (r *confReader) partition(file string, l *syntax.Line) {
	values := r.partitionDefault.Values(l)
	if values == nil {
		return
	}
	r.conf.Partitions = append(r.conf.Partitions, lint.Partition{Name: l.Value, Nodes: values["nodes"], Topology: values["topology"], File: file, Line: l.Number})
}

// nodes adds the nodes of a line.
func (r *confReader) nodes(file string, l *syntax.Line) error {
	values := r.nodeDefault.Values(l)
	if values == nil {
		return nil
	}
	node, err := confNode(values)
	if err != nil {
		return &syntax.ParseError{File: file, Line: l.Number, Key: "NodeName=" + hostlist.Shorten(l.Value), Message: err.Error()}
	}
	node.File, node.Line = file, l.Number
	names, err := hostlist.Expand(l.Value)
	if err != nil {
		return &syntax.ParseError{File: file, Line: l.Number, Key: "NodeName", Message: err.Error()}
	}
	for _, n := range names {
		if r.conf.Nodes[n] != nil {
			return &syntax.ParseError{File: file, Line: l.Number, Key: "NodeName", Message: fmt.Sprintf("node %s is given twice: want each on one line", n)}
		}
		r.conf.Nodes[n] = node
	}
	if strings.EqualFold(values["state"], "FUTURE") {
		r.conf.Future = append(r.conf.Future, names...)
	}
	if place, ok := values["topology"]; ok {
		r.conf.NodeTopologies = append(r.conf.NodeTopologies, lint.NodeTopology{Nodes: names, Value: place, File: file, Line: l.Number})
	}
	return nil
}
