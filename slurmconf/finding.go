package slurmconf

import "fmt"

// Severity says what a finding means for slurmctld.
type Severity string

// Fatal: slurmctld, or for gres.conf slurmd, does not start with this file; or
// slurmctld drains nodes for it, where Options.Nodes say what slurm.conf has.
// Warning: it starts, and something is not as it should be.
const (
	Fatal   Severity = "fatal"
	Warning Severity = "warning"
)

// Finding is one thing that Lint has to say.
type Finding struct {
	File string
	Line int
	// Rule is one CamelCase word, stable over releases of Quoin.
	Rule     string
	Severity Severity
	Message  string
	// Advice says what to do.
	Advice string
}

// String returns "file:line: severity: message (rule); advice".
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s (%s); %s", f.File, f.Line, f.Severity, f.Message, f.Rule, f.Advice)
}

// HasFatal reports whether any finding is fatal.
func HasFatal(findings []Finding) bool {
	for _, f := range findings {
		if f.Severity == Fatal {
			return true
		}
	}
	return false
}

// Plugin is slurm.conf's TopologyPlugin without "topology/".
type Plugin string

// The plugins that read topology.conf, and the one that does not.
const (
	PluginBlock Plugin = "block"
	PluginTree  Plugin = "tree"
	PluginFlat  Plugin = "flat"
)

// File is a file's name and content.
type File struct {
	Name string
	Data []byte
}

// Options is what Lint knows beside the files.
type Options struct {
	// Release of Slurm that will load the files; 0 is the latest.
	Release Release
	// Plugin that slurm.conf names; empty takes the one that topology.conf's
	// first line is for.
	Plugin Plugin
	// KnownNodes are slurm.conf's nodes; nil takes every node as known.
	KnownNodes []string
	// PartitionTopologies are the names that partitions' Topology= use.
	PartitionTopologies []string
	// GresTypes are slurm.conf's; nil takes every name in gres.conf as one.
	GresTypes []string
	// NodeGPUs is the number of gpus, of whatever type, that slurm.conf's Gres=
	// gives a node; nil leaves the comparison out and takes every device that
	// gres.conf has as used.
	NodeGPUs map[string]int
	// Nodes are slurm.conf's nodes with their processors and GPUs. Where they are
	// known, what of gres.conf would have slurmctld drain one of them is fatal.
	Nodes map[string]*ConfNode
}
