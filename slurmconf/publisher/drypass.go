package publisher

import (
	"slices"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/cables"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// DryPass is a pass that writes nothing, for people who look. The stored plan has the problems of its
// publication, and a fault that goes changes no file. A DryPass finds what the first pass of a new publisher
// would find, so all replicas and commands give the same answer.
type DryPass struct {
	others []*publication.Cluster

	mu     sync.Mutex
	pub    *publication.Cluster
	cables cables.Placer // which remembers its last answer
}

// NewDryPass returns the DryPass of the publication all[at]. It copies the publications, because a publisher
// that runs beside it changes them when it sees another release of Slurm.
func NewDryPass(all []*publication.Cluster, at int) *DryPass {
	var own []*publication.Cluster
	for _, c := range all {
		own = append(own, new(*c))
	}
	return &DryPass{pub: own[at], others: slices.Delete(slices.Clone(own), at, at+1)}
}

// Plan returns the plan that the facts of now give after the stored plan, with its problems.
func (d *DryPass) Plan(snap *inputs.Snapshot, doc *plandoc.Document, now time.Time) (*topology.Plan, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, controller := d.pub.Loader(snap.Controllers)
	d.pub.Follow(controller.Release(), &doc.Current.Plan)
	// Without a fabricHistory, because a time that is not stored would be another one at each look.
	facts := gatherer{pub: d.pub, seats: &seats{pub: d.pub, others: d.others}, marks: &marker{pub: d.pub, others: d.others}, jobs: occupancy.New(nil), cables: d.cables, timer: new(again.Timer)}
	in := facts.gather(snap, &stored{doc: doc, prev: ReadPlan(d.pub, &doc.Current.Plan)}, now)
	d.cables = facts.cables
	made, err := makeKept(d.pub, in)
	if err != nil {
		return nil, err
	}
	plan := made.FilePlan.Plan
	slices.SortFunc(plan.Problems, topology.CompareFindings)
	return &plan, nil
}
