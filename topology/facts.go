package topology

import (
	"cmp"
	"strings"
)

// Labels are what a node's Kubernetes labels say of its hardware, for nodes
// without a report and as a witness beside one.
type Labels struct {
	// Clique is the NVLink domain, zero when no label names one as NVML does.
	Clique Clique
	// Domains are the NVLink domain as other labels name it, each by a value of
	// its own, in their order of precedence.
	Domains []Domain
	// Tiers are network switches above the node, nearest first, and TierSource
	// whose labels name them; MoreTiers are those of labels that come after.
	Tiers      []string
	TierSource TierSource
	MoreTiers  []SourceTiers
	// Product and GPUs describe the GPUs where labels count them.
	Product  string
	GPUs     int
	Problems []Problem
}

// Domain is an NVLink domain that a label names by a value that says nothing
// but which nodes are together.
type Domain struct{ Key, Value string }

// IsZero reports whether d names no domain.
func (d Domain) IsZero() bool { return d == Domain{} }

// String returns "key=value".
func (d Domain) String() string { return d.Key + "=" + d.Value }

// Compare orders domains by key, then by value.
func (d Domain) Compare(e Domain) int {
	return cmp.Or(strings.Compare(d.Key, e.Key), strings.Compare(d.Value, e.Value))
}

// TierSource is whose labels name switches. Of two the one of lower rank comes
// first.
type TierSource struct {
	Rank int
	Name string
}

// SourceTiers are the switches above a node, nearest first, by one source.
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
	// Report is nil when the node has not sent one.
	Report *Node
	Labels Labels
	// Slices is what Kubernetes' ResourceSlices list of the node's GPUs, nil where
	// there are none. It counts where neither report nor labels say it.
	Slices *Node
	// Capacity is how many GPUs the kubelet offers. It counts where nothing else
	// says that there are any.
	Capacity int
	// Gone says that the node's object has gone a short while ago: it stays
	// where it was published.
	Gone bool
	// ReportUnreadable says that the node has sent a report that cannot be read,
	// such as one of another version.
	ReportUnreadable bool
	// Stays is why the node stays where it was published whatever the other facts
	// say, empty where they are followed.
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

// Listed returns f with the GPUs that slices list for those of a report, where
// there is none and the slices say of each what a report would.
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
// labels. Those of a node that stays do not count.
func (f *Facts) Tiers() []string {
	if f.Stays != "" {
		return nil
	}
	if f.ReportsTiers() {
		return f.Report.Tiers
	}
	return f.Labels.Tiers
}

// ReportsTiers reports whether the node's report names its switches.
func (f *Facts) ReportsTiers() bool { return f.Report != nil && len(f.Report.Tiers) > 0 }
