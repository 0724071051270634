package probe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// Sampling is a line on a probe's standard input: which devices to sample from now
// on, in place of those before. No devices end the sampling.
type Sampling struct {
	Every   time.Duration
	Devices []string
}

// The two forms of the line: "sample 10s GPU-…,MIG-…" and "sample off".
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

// String returns the line without its end.
func (s Sampling) String() string {
	if len(s.Devices) == 0 {
		return samplingWord + " " + samplingOff
	}
	return fmt.Sprintf("%s %s %s", samplingWord, s.Every, strings.Join(s.Devices, ","))
}

// ParseSampling reads a line of [Sampling.String].
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
