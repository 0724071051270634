package nodeagent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// Reasons of the problems that the agent adds to what the probe reports.
const (
	reasonDCGMIDUnknown = "DCGMIDUnknown"
	reasonDomainChanged = "DomainChanged"
)

// facts are what is known of the node: the probe's last report, and what outlives a
// probe.
type facts struct {
	// probe is the last good report of a probe, nil before the first. stored is what
	// an earlier agent stored; it is used if no probe has reported.
	probe, stored *topology.Node
	// stale says why the facts may be wrong by now; empty while a probe confirms
	// them.
	stale string

	// domain is the NVLink domain that readings of NVML have confirmed.
	domain confirmation

	// xids are those of this boot. xidsOf is the stored report from which they were recalled.
	boot   string
	xids   fabric.Xids
	xidsOf *topology.Node

	adapters adapterFacts

	// gpus are the GPUs that the node has had. gpusOf is the stored report that they were recalled from.
	gpus   seenGPUs
	gpusOf *topology.Node

	// ids are DCGM's ids by GPU. idsAsked says that somebody was asked, idsProblem why
	// some ids are not known.
	ids        map[string]int
	idsAsked   bool
	idsProblem string
}

// takeProbe takes a probe's report as the last good one.
func (f *facts) takeProbe(n *topology.Node) {
	f.probe = n
	f.takeXids(n)
	if f.gpus == nil {
		f.gpus = seenGPUs{}
	}
	f.gpus.take(n)
	f.domain.read(n)
	f.recall()
}

// takeStored takes the report that an earlier agent stored.
func (f *facts) takeStored(n *topology.Node) {
	f.stored = n
	f.recall()
}

// takeXids adds the Xids of a report to the Xids of its boot. If the boot cannot be
// read, it is the boot that this agent runs in.
func (f *facts) takeXids(n *topology.Node) {
	if n.BootID != "" && f.boot != "" && n.BootID != f.boot {
		f.xids = fabric.Xids{}
	}
	f.boot = cmp.Or(n.BootID, f.boot)
	f.xids.Take(n)
}

// recall takes from the stored report what an earlier agent knew: the confirmed NVLink domain, the GPUs, and of
// the same boot Xids, and DCGM's ids until they are read again.
func (f *facts) recall() {
	stored := f.stored
	if f.probe == nil || stored == nil {
		return
	}
	f.domain.recall(stored)
	if f.gpusOf != stored {
		f.gpus.recall(stored, f.probe)
		f.gpusOf = stored
	}
	sameBoot := stored.BootID != "" && stored.BootID == f.boot
	f.adapters.recall(stored, sameBoot)
	if !sameBoot {
		return
	}
	if f.xidsOf != stored {
		f.xids.Recall(stored, f.probe)
		f.xidsOf = stored
	}
	for i := range stored.GPUs {
		g := &stored.GPUs[i]
		if _, known := f.ids[g.UUID]; g.DCGMID != nil && !known && f.idsAsked {
			f.takeID(g.UUID, *g.DCGMID)
		}
	}
}

// takeID notes an id, unless another GPU has it.
func (f *facts) takeID(uuid string, id int) {
	for _, other := range f.ids {
		if other == id {
			return
		}
	}
	if f.ids == nil {
		f.ids = make(map[string]int)
	}
	f.ids[uuid] = id
}

// takeIDs takes a whole answer, or that there was none. A GPU that the answer lacks keeps its id, because a
// lost GPU has none in DCGM, unless another GPU has that id now.
func (f *facts) takeIDs(got idAnswer) {
	if got.ids != nil {
		before := f.ids
		f.ids = maps.Clone(got.ids)
		for uuid, id := range before {
			if _, now := got.ids[uuid]; !now {
				f.takeID(uuid, id)
			}
		}
	}
	f.idsAsked, f.idsProblem = true, got.otherwise
	f.recall()
}

// uuids returns the GPUs that a probe has reported.
func (f *facts) uuids() (out []string) {
	for i := range f.probe.GPUs {
		out = append(out, f.probe.GPUs[i].UUID)
	}
	return out
}

// withoutID returns the UUIDs of the GPUs of a report that have no DCGM id.
func withoutID(n *topology.Node) (out []string) {
	for i := range n.GPUs {
		if n.GPUs[i].DCGMID == nil {
			out = append(out, n.GPUs[i].UUID)
		}
	}
	return out
}

// report returns the node as it is to be reported, nil if nothing is known.
func (f *facts) report() *topology.Node {
	base := f.probe
	if base == nil && f.stale != "" {
		base = f.stored
	}
	if base == nil {
		return nil
	}
	n := *base
	n.GPUs = slices.Clone(base.GPUs)
	n.Problems = slices.DeleteFunc(slices.Clone(base.Problems), func(p topology.Finding) bool {
		return p.Reason == topology.ReasonFactsStale || p.Reason == reasonDCGMIDUnknown || p.Reason == reasonDomainChanged
	})
	if f.probe != nil {
		f.domain.report(&n)
	}
	if p, lost := domainLost(&n); lost {
		n.Problems = append(n.Problems, p)
	}
	if f.probe != nil {
		f.xids.Show(&n)
		n.Problems = append(n.Problems, f.gpus.missing(&n)...)
		f.adapters.report(&n)
	}
	for i := range n.GPUs {
		if id, ok := f.ids[n.GPUs[i].UUID]; ok {
			n.GPUs[i].DCGMID = &id
		}
	}
	if unknown := withoutID(&n); f.idsProblem != "" && len(unknown) > 0 {
		n.Problems = append(n.Problems, topology.Finding{Reason: reasonDCGMIDUnknown,
			Message: fmt.Sprintf("DCGM id of GPU %s: %s; NVML's index is used instead", strings.Join(unknown, ", "), f.idsProblem)})
	}
	if f.stale != "" {
		n.Problems = append(n.Problems, topology.Finding{Reason: topology.ReasonFactsStale, Message: f.stale})
	}
	if len(n.Problems) == 0 {
		n.Problems = nil
	}
	return &n
}
