package publisher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// leftoversPause is the time to the next look while there are leftovers, or while it is not known
// whether there are.
const leftoversPause = 10 * time.Minute

// leftovers are stored publications that are configured no longer. Their files stay as they are.
// The configuration is read at a start, so one look is enough if there are none.
type leftovers struct {
	again.Timer
	known  map[string]plandoc.Stored // by publication
	failed again.Once
}

// sayLeftovers says of each leftover that it is there, if that is due.
func (p *Publisher) sayLeftovers(ctx context.Context, l *leftovers, now time.Time) {
	if !l.Take(now) {
		return
	}
	stored, err := p.store.Stored(ctx)
	if err != nil {
		l.At(now.Add(leftoversPause))
		if ctx.Err() == nil && l.failed.IsNew(err.Error()) {
			p.log.Warn("it is not known whether a stored publication is no longer configured", "err", topology.Cut(err.Error(), topology.MaxMessage))
		}
		return
	}
	for _, c := range p.clusters {
		delete(stored, c.Name)
	}
	for name := range l.known {
		if _, ok := stored[name]; !ok {
			set(p.metrics.problems, name, nil)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		l.At(now.Add(leftoversPause))
		if _, ok := l.known[name]; ok {
			continue
		}
		set(p.metrics.problems, name, map[string]int{ReasonPublicationNotConfigured: 1})
		p.log.Warn("problem", "publication", name, "reason", ReasonPublicationNotConfigured,
			"message", "it is stored and no longer configured: "+p.leftFiles(stored[name]))
	}
	l.known = stored
}

// leftFiles says what becomes of the files of a leftover, and what to do.
func (p *Publisher) leftFiles(left plandoc.Stored) string {
	for _, c := range p.clusters {
		if c.Place() == left.Place {
			return fmt.Sprintf("publication %q has its files in %s now; delete its stored plan, and not the files: %s", c.Name, left.Files, left.RemovePlan)
		}
	}
	remove := left.RemovePlan
	if left.RemoveFiles != "" {
		remove += " && " + left.RemoveFiles
	}
	return fmt.Sprintf("its files stay in %s as they are, and so do the annotations of its Nodes; configure it again, or delete its stored plan and its files when no Slurm reads them: %s", left.Files, remove)
}

// forget takes back what was said of leftovers, because another publisher leads.
func (p *Publisher) forget(l *leftovers) {
	for name := range l.known {
		set(p.metrics.problems, name, nil)
	}
}
