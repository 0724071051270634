package publisher

import (
	"context"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// step is one feature of a pass. It reads the pass and does not change it.
type step interface {
	Reconcile(ctx context.Context, p *pass) (result, error)
}

// pass is what the steps of one pass over a publication know. It has the results of the
// steps before, each nil before its step.
type pass struct {
	now time.Time
	// touched is when the last change to anything came.
	touched time.Time
	snap    *inputs.Snapshot
	result
}

// result is what a step found, and what the next steps continue from.
type result struct {
	// stored is what the store holds of the publication.
	stored *stored
	// in has the inputs.
	in *gathered
	// made is the plan with its files.
	made *Rendered
	// held says why what was made must not be published, or a part of it. It ends the
	// decisions of the pass.
	held *plandoc.Held
	// write is what to publish now: all that was made, or a part.
	write *Rendered
	// specs are the Topology= strings that Nodes are to have. written is when the files
	// with their units were written, or zero if the pass writes none.
	specs   map[string]string
	written time.Time
	// seen is what Slurm has loaded, as far as is known.
	seen *loaded.View
	// differences are the nodes whose published place is not the planned one. judged says
	// that the annotations are among them.
	differences []nodestatus.Difference
	judged      bool
	// next is when to make the next pass, or zero.
	next time.Time
	// done says that the pass ends here.
	done bool
}

// add adds what a step found.
func (p *pass) add(r *result) {
	keep(&p.stored, r.stored)
	keep(&p.in, r.in)
	keep(&p.made, r.made)
	keep(&p.held, r.held)
	keep(&p.write, r.write)
	keep(&p.seen, r.seen)
	if r.specs != nil {
		p.specs, p.written = r.specs, r.written
	}
	p.differences = append(p.differences, r.differences...)
	p.judged = p.judged || r.judged
}

// keep replaces a value by a newer one, if there is one.
func keep[T any](old **T, newer *T) {
	if newer != nil {
		*old = newer
	}
}
