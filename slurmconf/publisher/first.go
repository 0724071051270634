package publisher

import (
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// firstWait lets the first publication wait until the site is known, because people have to approve
// another base block size later.
type firstWait struct {
	pub        *publication.Cluster
	started    time.Time // when the publisher began
	what       string    // what the publication would be the first of, or ""
	since      time.Time // when that could have been
	known      int       // nodes with a report or a clique's label, or with a label of a switch
	knownSince time.Time // when their number last changed
}

// waitForDomains returns what the first publication waits for, and until when, or "" if it does not wait.
// unsited are the nodes of each new block without a known switch above its leaf.
func (f *firstWait) waitForDomains(facts []topology.Facts, published, plan *topology.Plan, unsited [][]string, now time.Time) (why string, until time.Time) {
	if what := f.firstOf(published, plan); what != f.what {
		f.what, f.since, f.knownSince = what, now, time.Time{}
		if what == ofAll {
			f.since = f.started
		}
	}
	if f.what == "" {
		return "", until
	}
	return f.waitsFor(facts, plan, unsited, now)
}

// What a publication can be the first of.
const (
	ofAll    = "all"
	ofPlaces = "places" // nothing but gres.conf or a flat topology is published
	ofBlocks = "blocks"
)

// firstOf returns what the plan would be the first publication of, or "". Most domains of the site
// should be whole when the first blocks get their base block size. A node that the first tree lacks
// runs no job with others.
func (f *firstWait) firstOf(prev, plan *topology.Plan) string {
	switch {
	case prev == nil:
		return ofAll
	case len(prev.Own()) == 0 && len(plan.Own()) > 0:
		return ofPlaces
	case prev.BaseBlockSize() > 0 || len(plan.Blocks()) == 0 || f.pub.Topology == string(slurmconf.KindTree):
		return ""
	}
	return ofBlocks
}

// waitsFor says what the publication waits for, and until when at most.
func (f *firstWait) waitsFor(facts []topology.Facts, plan *topology.Plan, unsited [][]string, now time.Time) (why string, until time.Time) {
	p := f.pub
	byTree := f.what == ofPlaces && len(plan.Blocks()) == 0
	known, byLeaf := 0, p.Policy().ByLeaf || byTree
	for i := range facts {
		if n := &facts[i]; byLeaf && n.LeafSwitch() != "" || !byLeaf && (n.Report != nil || n.Labels.NamesDomain()) {
			known++
		}
	}
	if known != f.known || f.knownSince.IsZero() {
		f.known, f.knownSince = known, now
	}
	latest := f.since.Add(p.FirstMost())
	calm := f.knownSince.Add(p.SettleMost())
	switch node := unsettled(facts, byLeaf); {
	case !now.Before(latest):
		return "", latest
	case node != "":
		return "node " + node, latest
	case len(unsited) > 0 && p.Topology != string(slurmconf.KindTree):
		return "the switches above node " + unsited[0][0], latest
	case (byTree || p.BaseBlockSize == 0 && p.Topology != string(slurmconf.KindTree)) && now.Before(calm):
		if latest.Before(calm) {
			calm = latest
		}
		return "further nodes", calm
	}
	return "", latest
}

// unsettled returns a node with GPUs whose NVLink domain or leaf switch is not known yet,
// or "".
func unsettled(facts []topology.Facts, byLeaf bool) string {
	for i := range facts {
		f := &facts[i]
		hasGPUs := f.GPUCount() > 0 || f.Labels.GPUs > 0 || f.Labels.Product != ""
		labelled := f.Labels.NamesDomain() || len(f.Labels.Problems) > 0
		if byLeaf {
			if hasGPUs && f.LeafSwitch() == "" {
				return f.Name
			}
			continue
		}
		if hasGPUs && (f.Report == nil && !labelled || f.Report != nil && registering(f)) {
			return f.Name
		}
	}
	return ""
}

// registering reports whether no GPU of a node with a report has joined a domain and one may yet.
func registering(f *topology.Facts) bool {
	v := &f.Fabric
	notReady := v.IMEX == topology.IMEXNotReady && (v.Reason == topology.ReasonFabricInProgress || v.Reason == topology.ReasonFabricNotReady)
	return notReady && v.Clique.IsZero() || len(f.Report.GPUs) == 0 && len(f.Report.Problems) > 0
}
