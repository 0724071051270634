package slurmctld

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
)

// Conf is what a slurm.conf says that the other files must go with.
type Conf struct {
	Name string
	// Nodes are the nodes of the lines NodeName, by name. Nodes of one line share one
	// Node.
	Nodes map[string]*lint.Node
	// GresTypes are the types of all lines GresTypes, nil if there is none.
	GresTypes []string
	// Plugin is TopologyPlugin without "topology/". It is empty if the key is left
	// out.
	Plugin lint.Plugin
	// PartitionTopologies are the names that partitions' Topology= use.
	PartitionTopologies []string
	// NodeTopologies are the lines NodeName that have Topology=, or have it by default.
	NodeTopologies []lint.NodeTopology
	// Settings are the keys that stand by themselves, by key in lower case. Of a key
	// given twice the last one counts.
	Settings map[string]lint.Setting
}

// Include opens a file that a line `Include FILE` names. It returns the file's name
// for messages.
type Include func(file string) (name string, data []byte, err error)

// maxIncludes bounds how deep files may include each other.
const maxIncludes = 16

// ParseConf reads a slurm.conf and the files that it includes. name stands for the
// file in messages. If include is nil, a file that includes others is an error.
// Errors in the text are *slurmconf.ParseError.
func ParseConf(name string, data []byte, include Include) (*Conf, error) {
	r := confReader{conf: &Conf{Name: name, Nodes: map[string]*lint.Node{}, Settings: map[string]lint.Setting{}}, include: include, nodeDefault: map[string]string{}}
	if err := r.file(name, data, 0); err != nil {
		return nil, err
	}
	return r.conf, nil
}

// Options returns what Lint needs to judge files for the slurm.conf. If slurm.conf
// lists no node, as with nodes that register dynamically, every node is known.
func (c *Conf) Options(release slurmconf.Release) lint.Options {
	o := lint.Options{Release: release, Plugin: c.Plugin, PartitionTopologies: c.PartitionTopologies, NodeTopologies: c.NodeTopologies, SlurmConf: c.Name, Settings: c.Settings, GresTypes: c.GresTypes}
	if len(c.Nodes) > 0 {
		o.Nodes, o.KnownNodes = c.Nodes, slices.Sorted(maps.Keys(c.Nodes))
	}
	if c.GresTypes == nil {
		o.GresTypes = []string{}
	}
	return o
}

// confReader reads a slurm.conf and what it includes, in the order in which
// Slurm does.
type confReader struct {
	conf    *Conf
	include Include
	// nodeDefault are the values of the lines NodeName=DEFAULT, by key in lower case.
	nodeDefault map[string]string
	// cluster is ClusterName, which %c in the name of an included file stands for.
	cluster string
}

func (r *confReader) file(name string, data []byte, depth int) error {
	lines, syntax := slurmconf.Scan(name, data)
	if syntax != nil {
		return syntax
	}
	for i := range lines {
		var err error
		if l := &lines[i]; l.Include != "" {
			err = r.included(name, l, depth)
		} else {
			err = r.line(name, l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *confReader) included(file string, l *slurmconf.Line, depth int) error {
	included := l.Include
	fail := func(message string) error {
		return &slurmconf.ParseError{File: file, Line: l.Number, Key: "Include", Message: message}
	}
	switch {
	case r.include == nil:
		return fail(included + " is not read here: put its lines into this file")
	case depth >= maxIncludes:
		return fail(fmt.Sprintf("files include each other more than %d deep", maxIncludes))
	case r.cluster == "" && strings.Contains(included, "%c"):
		return fail(included + " stands before ClusterName, which %c is: Slurm refuses the whole file")
	}
	name, data, err := r.include(strings.ReplaceAll(included, "%c", r.cluster))
	if err != nil {
		return fail(err.Error())
	}
	return r.file(name, data, depth+1)
}

// line takes what Conf needs from one line. It ignores the rest, which Slurm judges.
func (r *confReader) line(file string, l *slurmconf.Line) error {
	switch strings.ToLower(l.Key) {
	case "nodename":
		return r.nodes(file, l)
	case "partitionname":
		for _, a := range l.Attrs {
			if strings.EqualFold(a.Key, "Topology") && !slices.Contains(r.conf.PartitionTopologies, a.Value) {
				r.conf.PartitionTopologies = append(r.conf.PartitionTopologies, a.Value)
			}
		}
		return nil
	}
	for _, a := range append([]slurmconf.Pair{l.Pair}, l.Attrs...) { // several keys may share a line
		key := strings.ToLower(a.Key)
		r.conf.Settings[key] = lint.Setting{Value: a.Value, File: file, Line: l.Number}
		switch key {
		case "clustername":
			r.cluster = strings.ToLower(a.Value)
		case "grestypes":
			r.conf.GresTypes = strings.FieldsFunc(a.Value, func(c rune) bool { return c == ',' })
		case "topologyplugin":
			r.conf.Plugin = lint.Plugin(strings.TrimPrefix(strings.ToLower(a.Value), "topology/"))
		}
	}
	return nil
}

// nodes adds the nodes of a line. It keeps the values of NodeName=DEFAULT for the
// lines that follow.
func (r *confReader) nodes(file string, l *slurmconf.Line) error {
	values := make(map[string]string, len(l.Attrs))
	for _, a := range l.Attrs {
		values[strings.ToLower(a.Key)] = a.Value
	}
	if strings.EqualFold(l.Value, "DEFAULT") {
		maps.Copy(r.nodeDefault, values)
		return nil
	}
	node, err := confNode(values, r.nodeDefault)
	if err != nil {
		return &slurmconf.ParseError{File: file, Line: l.Number, Key: "NodeName=" + hostlist.Shorten(l.Value), Message: err.Error()}
	}
	names, err := hostlist.Expand(l.Value)
	if err != nil {
		return &slurmconf.ParseError{File: file, Line: l.Number, Key: "NodeName", Message: err.Error()}
	}
	for _, n := range names {
		if r.conf.Nodes[n] != nil {
			return &slurmconf.ParseError{File: file, Line: l.Number, Key: "NodeName", Message: fmt.Sprintf("node %s is given twice: want each on one line", n)}
		}
		r.conf.Nodes[n] = node
	}
	place, ok := values["topology"]
	if !ok {
		place, ok = r.nodeDefault["topology"]
	}
	if ok {
		r.conf.NodeTopologies = append(r.conf.NodeTopologies, lint.NodeTopology{Nodes: names, Value: place, File: file, Line: l.Number})
	}
	return nil
}
