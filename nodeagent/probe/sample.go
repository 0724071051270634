package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// sampleKind heads every line with a sample.
const sampleKind = "Sample"

type sampleLine struct {
	Kind string `json:"kind"`
	topology.Sample
}

// sampleHead begins every encoded sample, and no report.
var sampleHead = []byte(`{"kind":"` + sampleKind + `"`)

// IsSample says whether a line of a probe is a sample, good or bad, as [EncodeSample]
// makes it.
func IsSample(line []byte) bool { return bytes.HasPrefix(line, sampleHead) }

// EncodeSample returns a sample as one line of JSON without a newline.
func EncodeSample(s topology.Sample) ([]byte, error) {
	if err := checkSample(&s); err != nil {
		return nil, fmt.Errorf("encode sample: %w", err)
	}
	return json.Marshal(sampleLine{sampleKind, s})
}

// ParseSample reads a line of [EncodeSample]. Impossible values are errors.
func ParseSample(line []byte) (topology.Sample, error) {
	var s sampleLine
	if err := json.Unmarshal(line, &s); err != nil {
		return topology.Sample{}, fmt.Errorf("sample: %w", err)
	}
	if s.Kind != sampleKind {
		return topology.Sample{}, fmt.Errorf("sample: kind %q: want %q", s.Kind, sampleKind)
	}
	if err := checkSample(&s.Sample); err != nil {
		return topology.Sample{}, fmt.Errorf("sample: %w", err)
	}
	return s.Sample, nil
}

func checkSample(s *topology.Sample) error {
	seen := make(map[string]bool, len(s.Devices))
	for i := range s.Devices {
		d := &s.Devices[i]
		if err := checkDevice(d); err != nil {
			return fmt.Errorf("devices[%d].%w", i, err)
		}
		if seen[d.UUID] {
			return fmt.Errorf("devices[%d].uuid %q: is there twice", i, d.UUID)
		}
		seen[d.UUID] = true
	}
	if n := len(s.Xids); n > maxDevices {
		return fmt.Errorf("xids: %d devices: want at most %d", n, maxDevices)
	}
	for _, uuid := range slices.Sorted(maps.Keys(s.Xids)) {
		if !topology.IsDeviceUUID(uuid) {
			return fmt.Errorf("xids: uuid %.100q: want GPU-… or MIG-…", uuid)
		}
		if n := len(s.Xids[uuid].Came); n > topology.MaxXidNumbers {
			return fmt.Errorf("xids: %s: %d numbers: want at most %d", uuid, n, topology.MaxXidNumbers)
		}
	}
	if n := len(s.Programs); n > maxDevices {
		return fmt.Errorf("programs: %d devices: want at most %d", n, maxDevices)
	}
	for _, uuid := range slices.Sorted(maps.Keys(s.Programs)) {
		if !topology.IsDeviceUUID(uuid) {
			return fmt.Errorf("programs: uuid %.100q: want GPU-… or MIG-…", uuid)
		}
		if n := len(s.Programs[uuid]); n > topology.MaxPrograms {
			return fmt.Errorf("programs: %s: %d: want at most %d", uuid, n, topology.MaxPrograms)
		}
	}
	return nil
}

// maxPower and maxEnergy bound what a device can say: NVML counts millijoules in
// 64 bits.
const (
	maxPower  = 1e6
	maxEnergy = 2e16
)

func checkDevice(d *topology.DeviceUse) error {
	if !topology.IsDeviceUUID(d.UUID) {
		return fmt.Errorf("uuid %q: want GPU-… or MIG-…", d.UUID)
	}
	for _, f := range []struct {
		name  string
		value *float64
		most  float64
	}{{"utilization", d.Utilization, 1}, {"smActivity", d.SMActivity, 1}, {"power", d.Power, maxPower}, {"energy", d.Energy, maxEnergy}} {
		if f.value != nil && !(*f.value >= 0 && *f.value <= f.most) { // also refuses NaN
			return fmt.Errorf("%s %g: want 0 to %g", f.name, *f.value, f.most)
		}
	}
	if d.Processes != nil && *d.Processes < 0 {
		return fmt.Errorf("processes %d: want 0 or more", *d.Processes)
	}
	return nil
}
