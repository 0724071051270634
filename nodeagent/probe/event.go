package probe

import (
	"errors"
	"fmt"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// Kind says what an [Event] is about.
type Kind int

// What a parent hears of its probe.
const (
	// Reported: the machine was read, Report is what was found.
	Reported Kind = iota
	// Unchanged: the machine was read, and the last report still holds.
	Unchanged
	// Sampled: Sample is how devices are used. It does not say that the machine's
	// facts were read.
	Sampled
	// Refused: a line could not be used, Err says why.
	Refused
	// Silent: nothing more will be heard of this probe. It may not have ended yet.
	Silent
	// Ended: the probe has ended for Reason and Err. The next one starts after
	// Pause.
	Ended
)

// Event is one thing that a parent hears of its probe.
type Event struct {
	Kind   Kind
	Report *topology.Node
	Sample topology.Sample
	Reason string
	Err    error
	Pause  time.Duration
}

// Decoder turns the lines of one probe into events.
type Decoder struct {
	// Node is the name that reports must carry.
	Node string

	reported bool // a report came
	missed   bool // a line since the last report was refused
}

// Decode reads one line. An error means that the line is refused.
func (d *Decoder) Decode(line []byte) (Event, error) {
	e, err := d.decode(line)
	if err != nil {
		d.missed = true
	}
	return e, err
}

func (d *Decoder) decode(line []byte) (Event, error) {
	switch {
	case IsSample(line):
		s, err := ParseSample(line)
		if err != nil {
			return Event{}, fmt.Errorf("probe: %w", err)
		}
		return Event{Kind: Sampled, Sample: s}, nil
	case len(line) > 0:
		n, err := topology.ParseReport("probe", line)
		if err != nil {
			return Event{}, err
		}
		if n.Name != d.Node {
			return Event{}, fmt.Errorf("probe: report of node %q, want %q", n.Name, d.Node)
		}
		d.reported, d.missed = true, false
		return Event{Kind: Reported, Report: n}, nil
	case !d.reported:
		return Event{}, errors.New("probe: empty line before the first report")
	case d.missed: // the refused line may have been a report
		return Event{}, errors.New("probe: empty line after a refused one: which report it repeats is not known")
	}
	return Event{Kind: Unchanged}, nil
}
