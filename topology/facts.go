package topology

import (
	"cmp"
	"strings"
)

// Labels are the facts in a node's Kubernetes labels. They serve nodes without a
// report, and they are compared with a report.
type Labels struct {
	// Clique is the NVLink domain. It is zero if no label names one in NVML's form.
	Clique Clique
	// Domains are the NVLink domain as other labels name it, in their order of
	// precedence.
	Domains []Domain
	// Tiers are the network switches above the node, nearest first. One that no label
	// names is empty if labels name a further one. TierSource is the writer of these
	// labels. MoreTiers are the switches by writers of lower precedence.
	Tiers      []string
	TierSource TierSource
	MoreTiers  []SourceTiers
	// Product and GPUs describe the GPUs if labels count them.
	Product  string
	GPUs     int
	Problems []Finding
}

// Domain is an NVLink domain by a label's value. The value only says which nodes
// are together.
type Domain struct{ Key, Value string }

// String returns "key=value".
func (d Domain) String() string { return d.Key + "=" + d.Value }

// Compare orders domains by key, then by value.
func (d Domain) Compare(e Domain) int {
	return cmp.Or(strings.Compare(d.Key, e.Key), strings.Compare(d.Value, e.Value))
}

// TierSource is a writer of labels that name switches. The lower rank has
// precedence.
type TierSource struct {
	Rank int
	Name string
	// Unique: a value above the leaves is one switch, at whatever tier a node names it.
	Unique bool
	// Fabrics: the last key names a fabric. No link joins two of its values.
	Fabrics bool
}

// SourceTiers are the switches above a node by one writer, nearest first.
type SourceTiers struct {
	TierSource
	Tiers []string
}

// NamesDomain reports whether a label names an NVLink domain.
func (l *Labels) NamesDomain() bool { return !l.Clique.IsZero() || len(l.Domains) > 0 }

// DomainText returns the NVLink domain that labels name, in words. They must name one.
func (l *Labels) DomainText() string {
	if !l.Clique.IsZero() {
		return "clique " + l.Clique.String()
	}
	return l.Domains[0].String()
}

// Facts are all that is known of one node when a plan is made.
type Facts struct {
	// Name is the Kubernetes node's (or host's) name, SlurmName its NodeName.
	Name, SlurmName string
	// NodeUnknown: nobody knows which node has the published name. Name is then SlurmName.
	NodeUnknown bool
	// Report is nil when the node has not sent one.
	Report *Node
	Labels Labels
	// Slices has the node's GPUs by Kubernetes' ResourceSlices, nil without any. It
	// counts if neither report nor labels have GPUs.
	Slices *Node
	// Capacity is how many GPUs the kubelet offers. It counts if nothing else has
	// GPUs.
	Capacity int
	// Gone: the Node object is gone for a short time. The node stays where it is
	// published.
	Gone bool
	// ReportUnreadable: the node has sent a report that cannot be read, such as one
	// of another version.
	ReportUnreadable bool
	// Stays is why the node stays where it is published, whatever its other facts
	// say. Empty: its facts are followed.
	Stays string
}

// GPUCount returns how many GPUs the node has, by report, else by labels, else by
// slices, else by capacity.
func (f *Facts) GPUCount() int {
	switch {
	case f.Report != nil:
		return len(f.Report.GPUs)
	case f.Labels.GPUs > 0:
		return f.Labels.GPUs
	case f.Slices != nil && len(f.Slices.GPUs) > 0:
		return len(f.Slices.GPUs)
	}
	return f.Capacity
}

// Listed returns f with the GPUs of Slices as its report, if f has no report and
// every GPU in Slices has a minor number and a product. Else it returns f.
func (f *Facts) Listed() *Facts {
	if f.Report != nil || f.Slices == nil || len(f.Slices.GPUs) == 0 || len(f.Slices.Problems) > 0 {
		return f
	}
	for i := range f.Slices.GPUs {
		if g := &f.Slices.GPUs[i]; g.Minor == nil || g.Product == "" {
			return f
		}
	}
	listed := *f
	listed.Report = f.Slices
	return &listed
}

// Tiers returns the switches above the node, nearest first: by report, else by
// labels. It returns none for a node that stays.
func (f *Facts) Tiers() []string {
	if f.Stays != "" {
		return nil
	}
	if f.ReportsTiers() {
		return f.Report.Tiers
	}
	return f.Labels.Tiers
}

// LeafSwitch returns the leaf switch that the node names, or "".
func (f *Facts) LeafSwitch() string {
	if tiers := f.Tiers(); len(tiers) > 0 {
		return tiers[0]
	}
	return ""
}

// ReportsTiers reports whether the node's report names its switches.
func (f *Facts) ReportsTiers() bool { return f.Report != nil && len(f.Report.Tiers) > 0 }
