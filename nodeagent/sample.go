package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// Sampled wants samples of the node's devices while jobs hold them.
type Sampled interface {
	// Wanted returns the UUIDs of the devices to sample; none stops the sampling.
	Wanted() []string
	// Changed is signalled when Wanted has changed.
	Changed() <-chan struct{}
	// Take takes a sample. It may lack devices that were wanted.
	Take(s topology.Sample)
}

// Sampling is what a probe is told on its standard input: to sample devices from
// now on, instead of those before. No devices end the sampling.
type Sampling struct {
	Every   time.Duration
	Devices []string
}

// The two forms of such a line: "sample 10s GPU-…,MIG-…" and "sample off".
const (
	samplingWord = "sample"
	samplingOff  = "off"
)

// maxDevices and minEvery bound what a probe can be told. GPM needs a tenth of a
// second between two samples.
const (
	maxDevices = 1024
	minEvery   = 100 * time.Millisecond
)

// String is the line without its end.
func (s Sampling) String() string {
	if len(s.Devices) == 0 {
		return samplingWord + " " + samplingOff
	}
	return fmt.Sprintf("%s %s %s", samplingWord, s.Every, strings.Join(s.Devices, ","))
}

// ParseSampling reads such a line.
func ParseSampling(line string) (Sampling, error) {
	words := strings.Fields(line)
	switch {
	case len(words) == 2 && words[0] == samplingWord && words[1] == samplingOff:
		return Sampling{}, nil
	case len(words) != 3 || words[0] != samplingWord:
		return Sampling{}, fmt.Errorf("line %q: want sample TIME UUID,UUID,… or sample off", shorten(line))
	}
	every, err := time.ParseDuration(words[1])
	if err != nil || every < minEvery {
		return Sampling{}, fmt.Errorf("line %q: time between two samples: want %s or more, such as 10s", shorten(line), minEvery)
	}
	s := Sampling{Every: every}
	for uuid := range strings.SplitSeq(words[2], ",") {
		switch {
		case !topology.IsDeviceUUID(uuid):
			return Sampling{}, fmt.Errorf("line %q: device %q: want GPU-… or MIG-…", shorten(line), shorten(uuid))
		case len(s.Devices) == maxDevices:
			return Sampling{}, fmt.Errorf("line %q: want at most %d devices", shorten(line), maxDevices)
		case !slices.Contains(s.Devices, uuid):
			s.Devices = append(s.Devices, uuid)
		}
	}
	return s, nil
}

// shorten cuts text from outside for a message.
func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// ReadSamplings gives each line of a probe's standard input to told, and those
// that it cannot read to refused, until the end of the input.
func ReadSamplings(r io.Reader, told func(Sampling), refused func(error)) {
	readLines(r, maxLine, func(line []byte) {
		if s, err := ParseSampling(string(line)); err != nil {
			refused(err)
		} else {
			told(s)
		}
	})
}

// tell tells a child what to sample, now and whenever it changes, until ctx ends
// or the child hears nothing more.
func (a *Agent) tell(ctx context.Context, child io.Writer) {
	said := Sampling{}.String() // as a new child does
	for {
		s := Sampling{Every: a.config.SampleEvery, Devices: a.config.Sampled.Wanted()}
		if line := s.String(); line != said {
			if _, err := io.WriteString(child, line+"\n"); err != nil {
				return // the child has ended
			}
			said = line
			a.log.Debug("probe told to sample", "devices", len(s.Devices))
		}
		select {
		case <-ctx.Done():
			return
		case <-a.config.Sampled.Changed():
		}
	}
}

// takeSample takes a line of the probe that is a sample. It is no sign that the
// facts were read.
func (a *Agent) takeSample(line []byte) error {
	if a.config.Sampled == nil {
		return errors.New("probe: a sample that nobody wants")
	}
	s, err := topology.ParseSample(line)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	a.config.Sampled.Take(s)
	return errAside
}
