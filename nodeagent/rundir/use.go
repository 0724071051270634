package rundir

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/dcgm/document"
	"github.com/quoin-hpc/quoin/topology"
)

// Use is how a job has used its devices on this node so far. The agent keeps it beside
// the record of a running job.
type Use struct {
	document.Head
	JobID string `json:"jobID"`
	Run
	// Since is when the agent first saw the job, Until when it last took a sample.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Contained says that the job's external step, or its batch step, was seen to
	// live here: when it is gone the job has ended on this node.
	Contained bool `json:"contained,omitempty"`
	// Clique is the node's NVLink clique.
	Clique  string      `json:"clique,omitempty"`
	Devices []DeviceUse `json:"devices" max:"1024"`
}

// MarshalJSON keeps encoding/json from looking at the types of a use before there is one: the
// Epilog of a job that no agent has sampled would take a tenth of a millisecond longer.
func (u *Use) MarshalJSON() ([]byte, error) {
	type plain Use
	return json.Marshal((*plain)(u))
}

// DeviceUse sums up the samples of one device that the job held. A fact that could not
// be sampled is nil. If several jobs hold a device, each gets the whole use.
type DeviceUse struct {
	UUID string `json:"uuid"`
	// ExporterID is as in the inventory: GPU, or GPU.instance.
	ExporterID string `json:"exporterID,omitempty"`
	Product    string `json:"product,omitempty"`
	// Released says that the job had the device before and no longer has it.
	Released bool `json:"released,omitempty"`
	// Samples is how many were taken, over Seconds.
	Samples int     `json:"samples"`
	Seconds float64 `json:"seconds"`
	// IdleSeconds are those without a process and without utilisation. IdleStretch are those
	// since the device was last used.
	IdleSeconds float64 `json:"idleSeconds"`
	IdleStretch float64 `json:"idleStretch,omitempty"`
	// Used is true once a sample has shown a process or utilisation.
	Used        bool   `json:"used"`
	Utilization *Stat  `json:"utilization,omitempty"` // 0 to 1
	SMActivity  *Stat  `json:"smActivity,omitempty"`  // 0 to 1
	Memory      *Stat  `json:"memory,omitempty"`      // bytes
	MemoryTotal uint64 `json:"memoryTotal,omitempty"` // bytes
	Power       *Stat  `json:"power,omitempty"`       // watts
	// Energy is in joules: the difference of the device's counter; power over
	// time where there is none.
	Energy *float64 `json:"energy,omitempty"`
	// Sampled is when the last sample was taken, Counter the device's energy
	// counter in it.
	Sampled *time.Time `json:"sampled,omitempty"`
	Counter *float64   `json:"counter,omitempty"`
	// Before are programs that were on the device before the job and still are, by PID. They
	// are not the job's, and its memory is without theirs. BeforeMemory is what they had in use
	// when the job began, in bytes.
	Before       []uint32 `json:"before,omitempty" max:"1024"`
	BeforeMemory uint64   `json:"beforeMemory,omitempty"`
	// Xids are those that came while the job held the GPU, by number; nil if nobody watched.
	// XidGap says that nobody watched for a part of the time. XidCounts are those of the last
	// sample that had any.
	Xids      map[int]uint64      `json:"xids,omitzero"`
	XidGap    bool                `json:"xidGap,omitempty"`
	XidCounts *topology.XidCounts `json:"xidCounts,omitempty"`
}

// Finish adds the Xids of a sample that was taken after the job's end. Devices that taken names
// have another job by now.
func (u *Use) Finish(s topology.Sample, taken func(uuid string) bool) {
	for i := range u.Devices {
		d := &u.Devices[i]
		if x, watched := s.Xids[d.UUID]; watched && !d.Released && !taken(d.UUID) {
			d.addXids(x)
		}
	}
}

// ended returns the use without what is of use while the job runs alone.
func (u *Use) ended() *Use {
	if u == nil {
		return nil
	}
	out := *u
	out.Devices = slices.Clone(u.Devices)
	for i := range out.Devices {
		out.Devices[i].Before, out.Devices[i].XidCounts, out.Devices[i].IdleStretch = nil, nil, 0
	}
	return &out
}

// Stat is a mean over Seconds, and the largest sample.
type Stat struct {
	Mean    float64 `json:"mean"`
	Max     float64 `json:"max"`
	Seconds float64 `json:"seconds"`
}

// NewUse is the use of a job that was first seen at a time.
func NewUse(job string, run Run, since time.Time) *Use {
	return &Use{Head: document.HeadOf(useKind), JobID: job, Run: run, Since: since, Until: since, Devices: []DeviceUse{}}
}

// Hold sets the devices that the job has now. Other devices keep their sums and take
// no more samples. Devices without a UUID cannot be sampled and are left out. Hold asks which
// programs were on a new device before the job.
func (u *Use) Hold(devices []Entry, before func(uuid string) []uint32) {
	held := make([]DeviceUse, 0, len(devices))
	for _, e := range devices {
		if e.UUID == "" || slices.ContainsFunc(held, func(d DeviceUse) bool { return d.UUID == e.UUID }) {
			continue
		}
		d := DeviceUse{UUID: e.UUID, Released: true}
		if i := u.index(e.UUID); i >= 0 {
			d = u.Devices[i]
		}
		if d.Released {
			d.Sampled, d.Counter, d.XidCounts, d.IdleStretch = nil, nil, nil, 0
			d.Before, d.BeforeMemory = before(e.UUID), 0
		}
		d.ExporterID, d.Product, d.Released = e.ExporterID, e.Product, false
		held = append(held, d)
	}
	for _, d := range u.Devices {
		if !slices.ContainsFunc(held, func(h DeviceUse) bool { return h.UUID == d.UUID }) {
			d.Released = true
			held = append(held, d)
		}
	}
	u.Devices = held
}

// ProgramsBefore are the programs that were on a device before the job and still are, by PID.
func (u *Use) ProgramsBefore(uuid string) []uint32 {
	i := u.index(uuid)
	if i < 0 {
		return nil
	}
	return u.Devices[i].Before
}

func (u *Use) index(uuid string) int {
	return slices.IndexFunc(u.Devices, func(d DeviceUse) bool { return d.UUID == uuid })
}

// maxGap is how many intervals may pass between two samples. After a longer gap the second
// sample does not count for the time since the first.
const maxGap = 3

// Add adds a sample that was taken at a time. Samples are taken every interval. For
// each device that the job holds, a sample covers the time since the device's last
// sample; the first one covers the time since the job's last sample, or since the job
// was first seen. After a gap of more than three intervals, or if the clock went back,
// it covers one interval. Devices that the sample lacks keep their sums.
func (u *Use) Add(s topology.Sample, at time.Time, interval time.Duration) {
	for i := range u.Devices {
		d := &u.Devices[i]
		if d.Released {
			continue
		}
		if x, watched := s.Xids[d.UUID]; watched {
			d.addXids(x)
		} else {
			d.XidGap = d.XidGap || d.XidCounts != nil
		}
		if programs, known := s.Programs[d.UUID]; known {
			d.keepBefore(programs)
		}
		k := slices.IndexFunc(s.Devices, func(of topology.DeviceUse) bool { return of.UUID == d.UUID })
		if k < 0 {
			continue
		}
		since := u.Until // it may be the job's since then only
		if d.Sampled != nil {
			since = *d.Sampled
		}
		gap, covered := at.Sub(since), interval
		if gap > maxGap*interval {
			d.IdleStretch = 0
		} else if gap >= 0 {
			covered = gap
		}
		d.add(&s.Devices[k], covered.Seconds())
		d.Sampled = &at
	}
	if s.Devices != nil {
		u.Until = at
	}
}

// add adds a sample that covers so many seconds.
func (d *DeviceUse) add(s *topology.DeviceUse, seconds float64) {
	d.Samples++
	d.Seconds += seconds
	switch {
	case s.Idle():
		d.IdleSeconds += seconds
		d.IdleStretch += seconds
	case s.Busy():
		d.IdleStretch = 0
	}
	d.Used = d.Used || s.Busy()
	d.Utilization = d.Utilization.with(s.Utilization, seconds)
	d.SMActivity = d.SMActivity.with(s.SMActivity, seconds)
	d.Power = d.Power.with(s.Power, seconds)
	if s.MemoryUsed != nil {
		used := float64(*s.MemoryUsed)
		d.Memory = d.Memory.with(&used, seconds)
	}
	if s.MemoryTotal != nil {
		d.MemoryTotal = *s.MemoryTotal
	}
	d.addEnergy(s, seconds)
}

// keepBefore drops the programs from before the job that have ended.
func (d *DeviceUse) keepBefore(now []topology.Program) {
	d.Before = slices.DeleteFunc(d.Before, func(pid uint32) bool {
		return !slices.ContainsFunc(now, func(p topology.Program) bool { return p.PID == pid })
	})
	if d.BeforeMemory > 0 {
		return
	}
	for _, p := range now {
		if p.Memory != nil && slices.Contains(d.Before, p.PID) {
			d.BeforeMemory += *p.Memory
		}
	}
}

// addXids adds the Xids that came since the last sample. Those of the first came before.
func (d *DeviceUse) addXids(now topology.XidCounts) {
	if d.Xids == nil {
		d.Xids = map[int]uint64{}
	}
	last := d.XidCounts
	if d.XidCounts = &now; last == nil {
		return
	}
	var before map[int]uint64
	if now.Since == last.Since {
		before = last.Came
	} else {
		d.XidGap = true
	}
	for code, n := range now.Came {
		if _, known := d.Xids[code]; n > before[code] && (known || len(d.Xids) < maxXids) {
			d.Xids[code] += n - before[code]
		}
	}
}

// maxXids bounds the different Xids of a GPU in a use.
const maxXids = 32

// addEnergy adds the energy since the previous sample. The device's counter also knows
// it over gaps. A counter that went back began at zero when the driver was reloaded.
func (d *DeviceUse) addEnergy(s *topology.DeviceUse, seconds float64) {
	var joules float64
	switch {
	case s.Energy != nil && d.Counter != nil && *s.Energy >= *d.Counter:
		joules = *s.Energy - *d.Counter
	case s.Energy != nil && d.Counter != nil:
		joules = *s.Energy
	case s.Power != nil:
		joules = *s.Power * seconds
	default:
		d.Counter = s.Energy
		return
	}
	d.Counter = s.Energy
	if d.Energy != nil {
		joules += *d.Energy
	}
	d.Energy = &joules
}

// with returns the statistic with one more value, which covers so many seconds. It is
// nil until there is a value.
func (s *Stat) with(value *float64, seconds float64) *Stat {
	switch {
	case value == nil:
		return s
	case s == nil:
		return &Stat{Mean: *value, Max: *value, Seconds: seconds}
	}
	out := Stat{Mean: s.Mean, Max: max(s.Max, *value), Seconds: s.Seconds + seconds}
	switch {
	case s.Seconds == 0: // the first spoke for no time
		out.Mean = *value
	case seconds > 0:
		out.Mean += (*value - s.Mean) * (seconds / out.Seconds)
	}
	return &out
}

const (
	useFolder = "use"
	useKind   = "JobUse"
)

// Uses are the uses of jobs in a run directory, by the keys of the jobs' records.
type Uses struct{ document.Store[Use] }

// Uses returns the directory's uses of jobs.
func (d Dir) Uses() Uses {
	return Uses{document.Store[Use]{Dir: filepath.Join(string(d), useFolder), Kind: useKind, Mode: document.Private}}
}

// Check refuses the use of another job.
func (u *Use) Check(key string) error { return checkKey(key, u.JobID) }

// Write writes the use of the job whose record has this key.
func (f Uses) Write(key string, u *Use) error { return f.Put(key, *u) }

// Read reads a job's use, nil without one.
func (f Uses) Read(key string) (*Use, error) {
	u, _, err := f.Find(key)
	return u, err
}

// Of reads the use of a record's run, nil without one. key is the record's.
func (f Uses) Of(key string, r *Record) (*Use, error) {
	u, err := f.Read(key)
	if u == nil || u.JobID != r.JobID || u.Run != r.Run {
		return nil, err // of another run
	}
	return u, nil
}
