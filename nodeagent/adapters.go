package nodeagent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/adapters"
)

// AdapterReader reads the machine's network adapters. An [adapters.Reader] does.
type AdapterReader interface {
	Read() (*adapters.Reading, error)
}

// adapterAnswer is a reading, or why there is none.
type adapterAnswer struct {
	reading *adapters.Reading
	err     error
}

// adaptersPatience is the time after which a reading counts as stuck.
const adaptersPatience = 30 * time.Second

// readAdapters reads the network adapters in turns. A file of sysfs may wait for an adapter's
// firmware for a minute, or for ever. Nothing waits for a reading, and there is no second one
// beside it.
func (a *Agent) readAdapters(ctx context.Context) {
	for a.config.Adapters != nil && ctx.Err() == nil {
		stuck := time.AfterFunc(adaptersPatience, func() { send(ctx, a.adapters, adapterAnswer{err: errAdaptersStuck}) })
		reading, err := a.config.Adapters.Read()
		stuck.Stop()
		send(ctx, a.adapters, adapterAnswer{reading, err})
		select {
		case <-ctx.Done():
		case <-time.After(a.config.AdaptersEvery):
		}
	}
}

// errAdaptersStuck is the answer of a reading that does not end.
var errAdaptersStuck = errors.New("no network adapter has answered within " + adaptersPatience.String() + ": one may be dead; see dmesg")

// onAdapters takes a reading of the adapters, and logs what is wrong with it.
func (a *Agent) onAdapters(got adapterAnswer) {
	problem := got.err
	if got.err != nil {
		a.facts.adapters.miss(got.err.Error())
	} else {
		a.facts.adapters.take(got.reading)
		problem = got.reading.LLDP
	}
	a.log.Note("network adapters", problem)
}

// adapterFacts are what is known of the network adapters in this boot.
type adapterFacts struct {
	read  bool   // they were read since the agent started
	why   string // they were never read: why
	known []topology.Adapter
	// unread are facts that could not be read and are not known. They stay, because a broken
	// adapter may come and go.
	unread []adapters.Unread
	more   int // adapters for which the report has no room
	// earlier are those of an earlier boot.
	earlier []topology.Adapter
}

func (f *adapterFacts) take(reading *adapters.Reading) {
	f.read, f.why, f.more = true, "", max(f.more, reading.More)
	f.known = adapters.Keep(f.known, reading.Adapters)
	for i := range reading.Unread {
		if u := &reading.Unread[i]; !slices.ContainsFunc(f.unread, func(old adapters.Unread) bool { return old.Of(u) }) {
			f.unread = append(f.unread, *u)
		}
	}
	f.unread = slices.DeleteFunc(f.unread, func(u adapters.Unread) bool { return u.Known(f.known) })
}

// miss notes why the adapters were not read, if they never were.
func (f *adapterFacts) miss(why string) {
	if !f.read && f.why == "" {
		f.why = why
	}
}

// recall takes the adapters that an earlier agent reported.
func (f *adapterFacts) recall(stored *topology.Node, sameBoot bool) {
	if sameBoot {
		f.known = adapters.Keep(stored.Adapters, f.known)
	} else {
		f.earlier = stored.Adapters
	}
}

// report shows the adapters in a report.
func (f *adapterFacts) report(n *topology.Node) {
	if f.why != "" {
		n.Problems = append(n.Problems, topology.Finding{Reason: topology.ReasonFactUnreadable, Message: f.why})
	}
	if f.read || len(f.known) > 0 { // else the probe says what is known
		n.Adapters = adapters.KeepNeighbors(f.earlier, f.known)
		n.Problems = append(n.Problems, adapters.Problems(n, f.unread, f.more)...)
	}
}
