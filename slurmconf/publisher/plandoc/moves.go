package plandoc

import (
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// window is how long nodes that moved or left count for BigChange, and how long a node that moved ignores a
// change of its NVLink partition. A loss that comes in steps, such as a rack that fails tray by tray, is seen as one,
// and a working day has several windows.
const window = time.Hour

// maxSteps bounds the steps of a document. Steps beyond it are joined.
const maxSteps = 60

// Step is one publication's changes that the guard counts, as host lists.
type Step struct {
	Time time.Time `json:"time"`
	// Places are the nodes that moved or left.
	Places string `json:"places,omitempty"`
	// Devices are the nodes whose published devices changed or went.
	Devices string `json:"devices,omitempty"`
}

// Remember notes nodes whose place or devices changed, and forgets what is older than the
// window.
func (d *Document) Remember(now time.Time, places, devices []string) {
	d.Moves = slices.DeleteFunc(slices.Clone(d.Moves), func(s Step) bool { return !s.counts(now) })
	if len(places)+len(devices) == 0 {
		return
	}
	step := Step{now, hostlist.Compress(places), hostlist.Compress(devices)}
	if n := len(d.Moves); n >= maxSteps {
		last := &d.Moves[n-1]
		step.Places = hostlist.Compress(slices.Concat(names(last.Places), places))
		step.Devices = hostlist.Compress(slices.Concat(names(last.Devices), devices))
		*last = step
		return
	}
	d.Moves = append(d.Moves, step)
}

// Recent returns how often the places and the devices of nodes changed within the window, or since the
// last approval.
func (d *Document) Recent(now time.Time) (places, devices map[string]int) {
	places, devices = map[string]int{}, map[string]int{}
	for _, s := range d.Moves {
		if !s.counts(now) {
			continue
		}
		for _, n := range names(s.Places) {
			places[n]++
		}
		for _, n := range names(s.Devices) {
			devices[n]++
		}
	}
	return places, devices
}

// Until returns when the next step no longer counts, or zero if none does.
func (d *Document) Until(now time.Time) (until time.Time) {
	for i := range d.Moves {
		if d.Moves[i].counts(now) {
			until = again.First(until, d.Moves[i].Time.Add(window))
		}
	}
	return until
}

// counts reports whether the step was made within the window. A step of the future counts
// too: a clock was wrong.
func (s *Step) counts(now time.Time) bool { return now.Sub(s.Time) < window }

// names expands a host list. Lists that were read or made can be expanded.
func names(list string) []string {
	all, err := hostlist.Expand(list)
	if err != nil {
		return nil
	}
	return all
}
