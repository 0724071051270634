package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	useFolder = "use"
	useKind   = "JobUse"
)

// isUseKey knows the form of a record's key: a job id, followed by @cluster@node if the
// job id alone would name two jobs.
func isUseKey(key string) bool {
	return dcgm.ConsistsOf(key, 1, 241, "_.+@-") && key[0] != '.' && key[0] != '@'
}

func usePath(runDir, key string) (string, error) {
	if !isUseKey(key) {
		return "", fmt.Errorf("key of a job's record %q: want the name of its file without .json", key)
	}
	return filepath.Join(runDir, useFolder, key+".json"), nil
}

// Write writes the use of the job whose record has this key.
func (f Uses) Write(key string, u *Use) error {
	if _, err := usePath(string(f.dir), key); err != nil {
		return err
	}
	out := *u
	out.APIVersion, out.Kind = topology.APIVersion, useKind
	if err := out.check(); err != nil {
		return fmt.Errorf("write use of job %s: %w", u.JobID, err)
	}
	return writeJSON(string(f.dir), filepath.Join(useFolder, key+".json"), out)
}

// Read reads a job's use, nil without one.
func (f Uses) Read(key string) (*Use, error) {
	path, err := usePath(string(f.dir), key)
	if err != nil {
		return nil, err
	}
	data, err := atomicfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read use of a job: %w", err)
	}
	return parseUse(path, data)
}

// Of reads the use of a record's run, nil without one. key is the record's.
func (f Uses) Of(key string, r *Record) (*Use, error) {
	u, err := f.Read(key)
	if u == nil || u.JobID != r.JobID || u.Run != r.Run {
		return nil, err // of another run
	}
	return u, nil
}

// Remove removes a job's use, which may be missing.
func (f Uses) Remove(key string) error {
	path, err := usePath(string(f.dir), key)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove use of a job: %w", err)
	}
	return nil
}

// Keys lists the keys for which there is a use.
func (f Uses) Keys() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(string(f.dir), useFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list uses of jobs: %w", err)
	}
	var keys []string
	for _, e := range entries {
		if key, is := strings.CutSuffix(e.Name(), ".json"); is && isUseKey(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Tidy removes files that killed writers left.
func (f Uses) Tidy() { atomicfile.Tidy(filepath.Join(string(f.dir), useFolder)) }

// parseUse reads a use. Unknown keys of a newer version are left out.
func parseUse(path string, data []byte) (*Use, error) {
	var u Use
	if err := json.Unmarshal(data, &u); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if u.APIVersion != topology.APIVersion || u.Kind != useKind {
		return nil, fmt.Errorf("%s: apiVersion %q, kind %q: want %q, %q", path, u.APIVersion, u.Kind, topology.APIVersion, useKind)
	}
	if err := u.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &u, nil
}

// check refuses values that no sum of samples can have.
func (u *Use) check() error {
	if err := dcgm.CheckJobID(u.JobID); err != nil {
		return err
	}
	seen := make(map[string]bool, len(u.Devices))
	for i := range u.Devices {
		d := &u.Devices[i]
		if d.UUID == "" || seen[d.UUID] {
			return fmt.Errorf("devices[%d].uuid %q: want each device once, by its UUID", i, d.UUID)
		}
		seen[d.UUID] = true
		if err := d.check(); err != nil {
			return fmt.Errorf("devices[%d].%w", i, err)
		}
	}
	return nil
}

func (d *DeviceUse) check() error {
	if d.Samples < 0 {
		return fmt.Errorf("samples %d: want 0 or more", d.Samples)
	}
	type number struct {
		name  string
		value *float64
	}
	for _, n := range []number{{"seconds", &d.Seconds}, {"idleSeconds", &d.IdleSeconds}, {"energy", d.Energy}, {"counter", d.Counter}} {
		if n.value != nil && !possible(*n.value) {
			return fmt.Errorf("%s %g: want 0 or more", n.name, *n.value)
		}
	}
	type stat struct {
		name string
		*Stat
	}
	for _, s := range []stat{{"utilization", d.Utilization}, {"smActivity", d.SMActivity}, {"memory", d.Memory}, {"power", d.Power}} {
		if s.Stat != nil && (!possible(s.Mean) || !possible(s.Max) || !possible(s.Seconds)) {
			return fmt.Errorf("%s %+v: want numbers of 0 or more", s.name, *s.Stat)
		}
	}
	return nil
}

// possible refuses negative and infinite values and NaN.
func possible(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }
