package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// SampleKind heads every line with a sample.
const SampleKind = "Sample"

// Sample is how a node's devices are used at one moment. It is no fact of the
// node and never part of its report.
type Sample struct {
	Devices []DeviceUse `json:"devices"`
}

// DeviceUse is the use of one GPU, or of one MIG instance. What the device or its
// driver does not tell is nil, never zero.
type DeviceUse struct {
	// UUID is GPU-... or MIG-....
	UUID string `json:"uuid"`
	// Utilization is the share of time in which a kernel ran, 0 to 1. A MIG
	// instance has one of Hopper and newer.
	Utilization *float64 `json:"utilization,omitempty"`
	// SMActivity is the share of SMs that were busy, 0 to 1, of Hopper and newer.
	SMActivity *float64 `json:"smActivity,omitempty"`
	// MemoryUsed and MemoryTotal are in bytes.
	MemoryUsed  *uint64 `json:"memoryUsed,omitempty"`
	MemoryTotal *uint64 `json:"memoryTotal,omitempty"`
	// Power is in watts. A MIG instance has none, nor an Energy.
	Power *float64 `json:"power,omitempty"`
	// Energy is in joules since the driver was loaded.
	Energy *float64 `json:"energy,omitempty"`
	// Processes is how many programs have a context on the device. A container may
	// see none of them; then it is nil, unless no memory is in use.
	Processes *int `json:"processes,omitempty"`
}

// leastActivity is the SM activity below which a device does nothing: NVML's
// utilisation, in whole percents, would say 0.
const leastActivity = 0.005

// Busy says whether a program has the device, or something runs on it.
func (d *DeviceUse) Busy() bool {
	return d.Processes != nil && *d.Processes > 0 || d.Utilization != nil && *d.Utilization > 0 || d.SMActivity != nil && *d.SMActivity >= leastActivity
}

// Idle says whether it is known that no program has the device and that nothing
// runs on it. A device may be neither idle nor busy, for want of either fact. A
// MIG instance has no utilisation, and so it is idle without a program.
func (d *DeviceUse) Idle() bool {
	known := d.Utilization != nil || d.SMActivity != nil || strings.HasPrefix(d.UUID, "MIG-")
	return d.Processes != nil && known && !d.Busy()
}

type sampleLine struct {
	Kind string `json:"kind"`
	Sample
}

// sampleHead begins every encoded sample, and no report.
var sampleHead = []byte(`{"kind":"` + SampleKind + `"`)

// IsSample says whether a line of a probe is a sample, as [EncodeSample] makes
// them, good or not.
func IsSample(line []byte) bool { return bytes.HasPrefix(line, sampleHead) }

// EncodeSample returns a sample as one line of JSON without a newline.
func EncodeSample(s Sample) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("encode sample: %w", err)
	}
	if s.Devices == nil {
		s.Devices = []DeviceUse{}
	}
	return json.Marshal(sampleLine{SampleKind, s})
}

// ParseSample reads such a line. Unknown keys and values that cannot be are
// errors.
func ParseSample(line []byte) (Sample, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var s sampleLine
	if err := dec.Decode(&s); err != nil {
		return Sample{}, fmt.Errorf("sample: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Sample{}, errors.New("sample: text after its end")
	}
	if s.Kind != SampleKind {
		return Sample{}, fmt.Errorf("sample: kind %q: want %q", s.Kind, SampleKind)
	}
	if err := s.check(); err != nil {
		return Sample{}, fmt.Errorf("sample: %w", err)
	}
	return s.Sample, nil
}

func (s *Sample) check() error {
	seen := make(map[string]bool, len(s.Devices))
	for i := range s.Devices {
		d := &s.Devices[i]
		if err := d.check(); err != nil {
			return fmt.Errorf("devices[%d].%w", i, err)
		}
		if seen[d.UUID] {
			return fmt.Errorf("devices[%d].uuid %q: stands twice", i, d.UUID)
		}
		seen[d.UUID] = true
	}
	return nil
}

// IsDeviceUUID says whether s has the form of a GPU's or a MIG instance's UUID.
// Before driver 470 a MIG instance's had slashes.
func IsDeviceUUID(s string) bool {
	const most = 96
	if len(s) > most || len(s) < 5 || !strings.HasPrefix(s, "GPU-") && !strings.HasPrefix(s, "MIG-") {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '/'
	})
}

// maxPower and maxEnergy bound what a device can say: NVML counts millijoules in
// 64 bits.
const (
	maxPower  = 1e6
	maxEnergy = 2e16
)

func (d *DeviceUse) check() error {
	if !IsDeviceUUID(d.UUID) {
		return fmt.Errorf("uuid %q: want GPU-… or MIG-…", d.UUID)
	}
	for _, f := range []struct {
		name  string
		value *float64
		most  float64
	}{{"utilization", d.Utilization, 1}, {"smActivity", d.SMActivity, 1}, {"power", d.Power, maxPower}, {"energy", d.Energy, maxEnergy}} {
		if f.value != nil && !(*f.value >= 0 && *f.value <= f.most) { // not what is no number either
			return fmt.Errorf("%s %g: want 0 to %g", f.name, *f.value, f.most)
		}
	}
	if d.Processes != nil && *d.Processes < 0 {
		return fmt.Errorf("processes %d: want 0 or more", *d.Processes)
	}
	return nil
}
