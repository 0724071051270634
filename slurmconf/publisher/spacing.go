package publisher

import (
	"maps"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// specsMeanwhile returns the Topology= strings of all nodes while the files stay as they are. Nodes that join
// have the new ones, because the files have their units. Nodes that leave keep theirs.
func specsMeanwhile(p *publication.Cluster, in *gathered, made *Rendered) map[string]string {
	specs := in.prev.specs(p)
	maps.Copy(specs, made.Specs)
	return specs
}

// spaced returns until when the change waits, so that there is time between two publications,
// because each makes slurmctld reconfigure. It returns the zero time if no file changes, or if
// the change does more than add and remove nodes of known units.
func spaced(p *publication.Cluster, old *stored, made *Rendered, changes *plandoc.Changes, now time.Time) (until time.Time) {
	current := &old.doc.Current
	if current.Number == 0 || current.OfFiles() == plandoc.Digest(made.Files) || !changes.OnlyMembers() {
		return time.Time{}
	}
	written, err := old.set.Written()
	until = written.Add(p.Times.Spacing)
	if err != nil || written.After(now) || !now.Before(until) { // in the future: the clock was ahead then
		return time.Time{} // files without a date are published again with one
	}
	return until
}
