package plandoc

import (
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// Ages says since when the published files have each block and each leaf switch.
type Ages struct {
	doc     *Document
	written time.Time
	since   map[string]time.Time // by TOPOLOGY:UNIT, made when first asked for
}

// Ages returns the ages of the units of the current revision, whose files were written at
// that time. A unit's age is counted over revisions that have it without a break, as far
// back as revisions are kept.
func (d *Document) Ages(written time.Time) *Ages { return &Ages{doc: d, written: written} }

// Since returns since when the files have all units that the Topology= string names. A unit
// that they do not have counts from when they were written. An empty string names no unit,
// and the zero time is returned.
func (a *Ages) Since(spec string) (latest time.Time) {
	if a.since == nil {
		a.read()
	}
	for unit := range topology.SpecUnits(spec) {
		since, known := a.since[unit]
		if !known {
			since = a.written
		}
		if since.After(latest) {
			latest = since
		}
	}
	return latest
}

// read goes back through the revisions.
func (a *Ages) read() {
	a.since = make(map[string]time.Time)
	unbroken := namesOf(a.doc.Current.Plan.Units())
	for unit := range unbroken {
		a.since[unit] = a.written
	}
	for i := range a.doc.History {
		r := &a.doc.History[i]
		older, since := namesOf(r.Plan.Units()), r.Written()
		for unit := range unbroken {
			switch {
			case !older[unit]:
				delete(unbroken, unit)
			case since.Before(a.since[unit]):
				a.since[unit] = since
			}
		}
	}
}

// namesOf returns units as TOPOLOGY:UNIT.
func namesOf(units []topology.Unit) map[string]bool {
	names := make(map[string]bool, len(units))
	for i := range units {
		names[units[i].String()] = true
	}
	return names
}
