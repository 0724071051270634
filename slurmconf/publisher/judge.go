package publisher

import (
	"slices"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/cables"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// Judge says what is wrong with a publication now, for people who look. The stored plan has the problems
// of the time when it was published, and a fault that goes changes no file. Judge finds what the first
// pass of a new publisher would find: every replica and every command give the same answer. It writes
// nothing.
type Judge struct {
	pub    *publication.Cluster
	others []*publication.Cluster

	mu     sync.Mutex
	cables cables.Placer // which remembers its last answer
}

// NewJudge returns the Judge of the publication all[at].
func NewJudge(all []*publication.Cluster, at int) *Judge {
	return &Judge{pub: all[at], others: slices.Concat(all[:at], all[at+1:])}
}

// Plan returns the plan that the facts of now give after the stored plan, with its problems.
func (j *Judge) Plan(snap *inputs.Snapshot, doc *plandoc.Document, now time.Time) (topology.Plan, error) {
	prev, err := ReadPlan(j.pub, &doc.Current.Plan)
	if err != nil {
		return topology.Plan{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	facts := gatherer{pub: j.pub, nodes: &nodeHistory{pub: j.pub, others: j.others}, marks: &marker{pub: j.pub, others: j.others}, jobs: occupancy.New(nil, nil), cables: j.cables}
	in := facts.gather(snap, &stored{doc: doc, prev: prev}, now)
	j.cables = facts.cables
	in.fabricSince = doc.FabricSince // a time that is not stored would be another one at each look
	made, err := makeKept(j.pub, in)
	if err != nil {
		return topology.Plan{}, err
	}
	plan, err := made.made.Document()
	slices.SortFunc(plan.Problems, topology.CompareFindings)
	return plan, err
}
