package publisher

import (
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// fabricHistory remembers by Node since when GPUs register with their NVLink fabric. It can be lost: then
// the wait begins again.
type fabricHistory struct{ waiting map[string]time.Time }

// since returns since when the fabrics of nodes are not ready, by Node, and when that will be so of the
// next one, or zero. stored is what the stored plan knows. A registration that failed or has not begun counts
// at once. One in progress, and one inside the machine that has not begun, counts after FabricWait. Without a history
// the stored times stand.
func (h *fabricHistory) since(pub *publication.Cluster, in *inputs.Inputs, stored map[string]time.Time, now time.Time) (since map[string]time.Time, next time.Time) {
	if h == nil {
		return stored, next
	}
	fabrics, waiting := pub.FabricSite(nil, nil), map[string]time.Time{}
	since = map[string]time.Time{}
	for _, facts := range [][]topology.Facts{in.Facts, in.UnnamedFacts} {
		for i := range facts {
			f := &facts[i]
			if f.Report == nil {
				continue
			}
			waits, stuck := fabrics.Registers(f.Report)
			if !waits && !stuck {
				continue
			}
			start, late := stored[f.Name]
			if !late {
				if start = h.waiting[f.Name]; start.IsZero() {
					start = now.UTC().Truncate(time.Second)
				}
			}
			until := start.Add(pub.FabricWait.Duration)
			if late || stuck || !now.Before(until) {
				since[f.Name] = start
				continue
			}
			waiting[f.Name] = start
			next = again.First(next, until)
		}
	}
	h.waiting = waiting
	return since, next
}
