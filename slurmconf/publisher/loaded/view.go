// Package loaded says how far the place of each node has come: planned, published, loaded by
// slurmctld, registered in Slurm.
//
// A View is what is known at one time, and pure. A Watch judges Slurm's last answer and wants the
// next one, seldom. The package changes no file and no annotation.
package loaded

import (
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// Verdict says whether Slurm has something.
type Verdict int

// The verdicts.
const (
	Unknown Verdict = iota
	Yes
	No
)

// NeverLoaded begins what is said of files that slurmctld has not read for LoadTimeout.
const NeverLoaded = "The file was never loaded"

// rounding is how far two times may be apart that are the same: Slurm has whole seconds.
const rounding = 2 * time.Second

// Input is what a View is made from.
type Input struct {
	// Doc is the stored plan. Planned and Published are Topology= strings by Slurm name, and
	// Nodes are the nodes by Slurm name.
	Doc                *plandoc.Document
	Planned, Published map[string]string
	Nodes              map[string]*inputs.Node
	// LoadTimeout is the time in which Slurm loads files, if anything makes it load them.
	LoadTimeout time.Duration
	Now         time.Time
}

// View is what is known of what Slurm has loaded. A nil View knows nothing.
type View struct {
	in *Input
	// slurm is nil if nobody could be asked.
	slurm *slurmctld.State
	// written is when files of the present text were written first.
	written time.Time
	ages    *plandoc.Ages
	// named are the units, as TOPOLOGY:UNIT, in which Slurm has a node by the node's own
	// Topology= string. shown are the units that scontrol shows, or nil. refused are units that
	// Slurm refused when a node registered.
	named, shown, refused map[string]bool
	// places are the Topology= strings of nodes as scontrol shows them, or nil.
	places map[string]string
	// gres are the lines of the published gres.conf by node. It is nil until somebody asks.
	gres map[string][]gres.Line
}

// NewView returns what the answer of Slurm, which may be nil, means for the files.
func NewView(in *Input, slurm *slurmctld.State) *View {
	v := &View{in: in, slurm: slurm, written: in.Doc.Current.Written(), named: map[string]bool{}, refused: map[string]bool{}}
	v.ages = in.Doc.Ages(v.written)
	if slurm != nil {
		v.readUnits()
	}
	for _, n := range in.Nodes {
		for i := range n.Workers {
			v.refuse(slurmctld.Refused(n.Workers[i].Invalid))
		}
	}
	return v
}

// readUnits reads which units Slurm has.
func (v *View) readUnits() {
	for _, n := range v.slurm.Nodes {
		for unit := range topology.SpecUnits(n.Topology) {
			v.named[unit] = true
		}
	}
	if v.slurm.Topologies != nil {
		v.shown, v.places = map[string]bool{}, topology.SpecsOf(v.slurm.Topologies)
	}
	units := topology.UnitsOf(v.slurm.Topologies)
	for i := range units {
		v.shown[units[i].String()] = true
	}
	for _, n := range v.slurm.Nodes {
		if n.Invalid {
			v.refuse(slurmctld.Refused(n.Reason))
		}
	}
}

// refuse notes that Slurm refused the Topology= string of a node. Of the string's units it is
// the youngest that Slurm lacks.
func (v *View) refuse(spec string) {
	var youngest time.Time
	for unit := range topology.SpecUnits(spec) {
		if since := v.ages.Since(unit); since.After(youngest) {
			youngest = since
		}
	}
	for unit := range topology.SpecUnits(spec) {
		if !v.named[unit] && v.ages.Since(unit).Equal(youngest) {
			v.refused[unit] = true
		}
	}
}

// Knows says whether Slurm has all units that a Topology= string names.
func (v *View) Knows(spec string) Verdict {
	if v == nil || spec == "" {
		return Unknown
	}
	all := Yes
	for unit := range topology.SpecUnits(spec) {
		switch v.knowsUnit(unit) {
		case No:
			return No
		case Unknown:
			all = Unknown
		}
	}
	return all
}

func (v *View) knowsUnit(unit string) Verdict {
	since := v.ages.Since(unit)
	switch {
	case v.named[unit], v.shown[unit]:
		return Yes
	case v.shown != nil, v.refused[unit]:
		return No
	case v.slurm == nil || v.slurm.Read.IsZero():
		return Unknown
	case v.slurm.Read.Before(since.Add(-rounding)):
		return No
	case !v.slurm.Read.Before(since.Add(v.in.LoadTimeout)):
		return Yes
	}
	return Unknown // Slurm may have read its files before it had these
}

// Loaded says whether Slurm has loaded the published files.
func (v *View) Loaded() Verdict {
	switch {
	case v == nil || v.slurm == nil || v.written.IsZero():
		return Unknown
	case v.shown != nil:
		units := v.in.Doc.Current.Plan.Units()
		for i := range units {
			if !v.shown[units[i].String()] {
				return No
			}
		}
		return Yes
	case v.slurm.Read.IsZero():
		return Unknown
	case v.slurm.Read.Before(v.written.Add(-rounding)):
		return No
	}
	return Yes
}

// Never reports whether Slurm has had time to load the published files, and has not.
func (v *View) Never() bool {
	return v.Loaded() == No && !v.in.Now.Before(v.written.Add(v.in.LoadTimeout))
}

// sameUnits reports whether two Topology= strings name the same units.
func sameUnits(a, b string) bool {
	return slices.Equal(slices.Sorted(topology.SpecUnits(a)), slices.Sorted(topology.SpecUnits(b)))
}
