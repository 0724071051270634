package probe

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/topology"
)

// Supervisor keeps a probe running and sends what it hears.
type Supervisor struct {
	// Child is the probe. Start is 2 minutes by default, because NVML starts one GPU
	// after the other if no persistence daemon holds them. Silence is 30 s.
	Child
	// Node is the name that reports must carry.
	Node string
	// Pause is the wait before the probe is started again, 1 s by default. It
	// doubles up to a minute while no report comes.
	Pause time.Duration
	// Samples gets the samples. A sample is lost while the channel is full. Samples
	// are refused if the channel is nil.
	Samples chan<- topology.Sample
	// Wanted says which devices are sampled from now on, by UUID; none ends the
	// sampling. It is read while a probe runs.
	Wanted <-chan []string
	// SampleEvery is the time between two samples, SampleEvery by default.
	SampleEvery time.Duration
}

// WithDefaults fills in the name of the child and what is not set.
func (s Supervisor) WithDefaults() Supervisor {
	s.Name, s.Suspect = "probe", "NVML may hang on a faulty GPU"
	s.Start = cmp.Or(s.Start, 2*time.Minute)
	s.Silence = cmp.Or(s.Silence, 30*time.Second)
	s.Pause = cmp.Or(s.Pause, time.Second)
	s.SampleEvery = cmp.Or(s.SampleEvery, SampleEvery)
	return s
}

// Run runs one probe after the other until ctx ends. Then none is left, except one
// that the kernel cannot end.
func (s Supervisor) Run(ctx context.Context, events chan<- Event) {
	s = s.WithDefaults()
	var wanted []string // by the last word
	for tries := 0; ; tries++ {
		good, err := s.run(ctx, &session{Supervisor: &s, events: events, devices: &wanted, decoder: Decoder{Node: s.Node}})
		if ctx.Err() != nil {
			return
		}
		if good {
			tries = 0
		}
		e := Event{Kind: Ended, Reason: EndExit, Err: err, Pause: again.Pause(tries+1, s.Pause, time.Minute)}
		var end endError
		if errors.As(err, &end) {
			e.Reason = end.reason
		}
		send(ctx, events, e)
		select {
		case <-ctx.Done():
			return
		case <-time.After(e.Pause):
		}
	}
}

func send(ctx context.Context, events chan<- Event, e Event) {
	select {
	case events <- e:
	case <-ctx.Done():
	}
}

// session is the parent of one probe.
type session struct {
	*Supervisor
	events  chan<- Event
	devices *[]string // what is to be sampled, for this probe and the next
	decoder Decoder
}

func (s *session) hear(ctx context.Context, line []byte) (heartbeat bool, err error) {
	e, err := s.decoder.Decode(line)
	switch {
	case err == nil && e.Kind == Sampled && s.Samples != nil:
		select {
		case s.Samples <- e.Sample:
		default:
		}
		return false, nil
	case err == nil && e.Kind == Sampled:
		err = errors.New("probe: a sample that nobody wants")
	}
	if err != nil {
		e = Event{Kind: Refused, Err: err}
	}
	send(ctx, s.events, e)
	return err == nil, err
}

func (s *session) silent(ctx context.Context) { send(ctx, s.events, Event{Kind: Silent}) }

// tell tells the probe what to sample, at its start and whenever that changes.
func (s *session) tell(ctx context.Context, child io.Writer) {
	told := Sampling{}.String() // a new probe samples nothing
	for {
		line := Sampling{Every: s.SampleEvery, Devices: *s.devices}.String()
		if line != told {
			if _, err := io.WriteString(child, line+"\n"); err != nil {
				return // the probe has ended
			}
			told = line
		}
		select {
		case <-ctx.Done():
			return
		case *s.devices = <-s.Wanted:
		}
	}
}
