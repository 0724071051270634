package topology

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// Labels are the facts in a node's Kubernetes labels. They serve nodes without a
// report, and they are compared with a report.
type Labels struct {
	// Clique is the NVLink domain. It is zero if no label names one in NVML's form.
	Clique Clique
	// Domains are the NVLink domain as other labels name it, in the order of their keys in the
	// configuration.
	Domains []Domain
	// Tiers are the network switches above the node, nearest first. One that no label
	// names is empty if labels name a further one. TierSource is the writer of these
	// labels. MoreTiers are the switches by writers of lower precedence.
	Tiers      []string
	TierSource TierSource
	MoreTiers  []SourceTiers
	// Product and GPUs describe the GPUs if labels count them.
	Product string
	GPUs    int
	// MIG says that MIG is on. GPUs may then count its instances.
	MIG      bool
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

// TierSource says who names switches: a writer of labels, or the cables. The lower rank has
// precedence.
type TierSource struct {
	Rank int
	Name string
	// Unique: a value above the leaves is one switch, at whatever tier a node names it.
	Unique bool
	// Fabrics: the last switch that a node names stands for its whole fabric. No link joins two of
	// them.
	Fabrics bool
	// Network: the network itself shows the switches, and no label.
	Network bool
}

// SourceTiers are the switches above a node by one writer, nearest first.
type SourceTiers struct {
	TierSource
	Tiers []string
}

// The sources that are no labels. The fabric's own cables go before all labels. What switches
// say by LLDP shows the leaves alone, so that labels go before it.
var (
	SourceCables = TierSource{Rank: -1, Name: "cables", Unique: true, Fabrics: true, Network: true}
	SourceLLDP   = TierSource{Rank: 1 << 10, Name: "LLDP", Unique: true, Network: true}
)

// Cables are the switches above a node as the cables of its adapters show.
type Cables struct {
	SourceTiers
	// ByLLDP: LLDP alone names the leaf, and nobody knows what is above it.
	ByLLDP bool
	// Missing is why no switch is known from the node's cables, although cables of other nodes
	// are. It is empty if nobody looked.
	Missing string
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
	// Shared: several worker pods on the node have a name in Slurm each. Each name has Facts of its own. Nobody
	// knows which of the node's GPUs a pod has.
	Shared bool
	// NodeUnknown: nobody knows which node has the published name. Name is then SlurmName.
	NodeUnknown bool
	// Report is nil when the node has not sent one.
	Report *Node
	// Fabric is the verdict on the node's NVLink fabric, which package fabric makes once a pass.
	Fabric FabricVerdict
	Labels Labels
	// Cables has the switches above the node as its cables show.
	Cables Cables
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
	// CablesOnly: nothing but the text of a fabric names the node. It has a place by its cables, although
	// nothing says that it has GPUs.
	CablesOnly bool
	// Stays is why the node stays where it is published, whatever its other facts
	// say. Empty: its facts are followed.
	Stays string
}

// Product returns the product of the node's first GPU, by report, else by labels, else by slices, as
// the writer spells it. It is empty if nothing names it.
func (f *Facts) Product() string {
	switch {
	case f.Report != nil && len(f.Report.GPUs) > 0 && f.Report.GPUs[0].Product != "":
		return f.Report.GPUs[0].Product
	case f.Labels.Product == "" && f.Slices != nil && len(f.Slices.GPUs) > 0:
		return f.Slices.GPUs[0].Product
	}
	return f.Labels.Product
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

// Devices returns how many devices Slurm counts on the node, or 0 if that is not known: GPUs, and the
// instances of GPUs with MIG.
func (f *Facts) Devices() int {
	n := f.GPUCount()
	switch {
	case f.Report != nil:
		for i := range f.Report.GPUs {
			n += max(0, len(f.Report.GPUs[i].MIG)-1)
		}
	case n == 1 && f.Labels.GPUs == 1: // a label may only say that there are some
		return f.Capacity
	}
	return n
}

// Computes reports whether jobs compute on the node: it has GPUs, or nothing but its cables is known.
func (f *Facts) Computes() bool { return f.GPUCount() > 0 || f.CablesOnly }

// HasMIG reports whether MIG is on in one of the node's GPUs, by report, else by labels or slices.
func (f *Facts) HasMIG() bool {
	if f.Report != nil {
		return slices.ContainsFunc(f.Report.GPUs, GPU.UsesMIG)
	}
	return f.Labels.MIG || f.Slices != nil && slices.ContainsFunc(f.Slices.GPUs, GPU.UsesMIG)
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

// Tiers returns the switches above the node, nearest first: by report, else by the source of
// the lowest rank among cables and labels. It returns none for a node that stays.
func (f *Facts) Tiers() []string {
	switch {
	case f.Stays != "":
		return nil
	case f.ReportsTiers():
		return f.Report.Tiers
	case len(f.Cables.Tiers) > 0 && (len(f.Labels.Tiers) == 0 || f.Cables.Rank < f.Labels.TierSource.Rank):
		return f.Cables.Tiers
	}
	return f.Labels.Tiers
}

// TierSources yields the switches above the node by every source but its report.
func (f *Facts) TierSources() iter.Seq[SourceTiers] {
	return func(yield func(SourceTiers) bool) {
		if len(f.Cables.Tiers) > 0 && !yield(f.Cables.SourceTiers) ||
			len(f.Labels.Tiers) > 0 && !yield(SourceTiers{f.Labels.TierSource, f.Labels.Tiers}) {
			return
		}
		for i := range f.Labels.MoreTiers {
			if !yield(f.Labels.MoreTiers[i]) {
				return
			}
		}
	}
}

// TiersBy returns the switches above the node by one source, nil if the source names none.
func (f *Facts) TiersBy(source TierSource) []string {
	for of := range f.TierSources() {
		if of.TierSource == source {
			return of.Tiers
		}
	}
	return nil
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
