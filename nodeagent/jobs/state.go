package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/sweep"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// The state is what an agent remembers for the one after it, in the run directory.
const (
	stateName = "agent.json"
	stateKind = "AgentState"
)

// savedState is true of one boot only. Its times are since the boot.
type savedState struct {
	APIVersion string                 `json:"apiVersion"`
	Kind       string                 `json:"kind"`
	BootID     string                 `json:"bootID,omitempty"`
	At         time.Duration          `json:"at"`
	Devices    map[string]savedDevice `json:"devices,omitempty"`
	Jobs       map[string]savedJob    `json:"jobs,omitempty"`
	Proven     []liveness.Source      `json:"proven,omitempty"`
	Absent     []savedLine            `json:"absent,omitempty"`
}

type savedDevice struct {
	Runs      []string      `json:"runs,omitempty"`
	Held      time.Duration `json:"held"`
	Idle      time.Duration `json:"idle,omitempty"`
	IdleSince time.Duration `json:"idleSince,omitempty"`
	Sampled   time.Duration `json:"sampled,omitempty"`
	Since     time.Duration `json:"since,omitempty"`
}

// savedJob is what was seen of a run and its record does not say.
type savedJob struct {
	rundir.Run
	liveness.Saved
}

// savedLine is a line that belongs to no job.
type savedLine struct {
	Dir  string `json:"dir"`
	Name string `json:"name"`
	Job  string `json:"job"`
	liveness.Absence
}

// stateFile writes the state when it has changed.
type stateFile struct {
	path string
	last []byte // as it was last written
}

func (f *stateFile) write(s *savedState) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if bytes.Equal(data, f.last) || len(s.Devices)+len(s.Jobs)+len(s.Absent) == 0 && f.last == nil {
		return nil
	}
	if err := atomicfile.Replace(filepath.Dir(f.path), f.path, append(data, '\n')); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	f.last = data
	return nil
}

// read returns the state of an earlier agent, nil if there is none.
func (f *stateFile) read() (*savedState, error) {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var s savedState
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	if s.APIVersion != topology.APIVersion || s.Kind != stateKind {
		return nil, fmt.Errorf("%s: apiVersion %q, kind %q: want %q, %q", f.path, s.APIVersion, s.Kind, topology.APIVersion, stateKind)
	}
	return &s, nil
}

// saveState writes the state if it has changed.
func (r *Registry) saveState() {
	s := savedState{APIVersion: topology.APIVersion, Kind: stateKind, BootID: r.records.boot, At: r.usage.at,
		Devices: make(map[string]savedDevice), Jobs: make(map[string]savedJob), Proven: r.life.Proven()}
	held := false
	for uuid, h := range r.usage.devices {
		held = held || len(h.runs) > 0
		s.Devices[uuid] = savedDevice{sortedKeys(h.runs), h.held, h.idle, h.idleSince, h.sampled, h.since}
	}
	for key, j := range r.records.jobs {
		s.Jobs[key] = savedJob{j.record.Run, j.life.Saved()}
	}
	for line, a := range r.orphans {
		s.Absent = append(s.Absent, savedLine{line.Dir, line.Name, line.Job, a.Saved()})
	}
	slices.SortFunc(s.Absent, func(a, b savedLine) int {
		return cmp.Or(strings.Compare(a.Dir, b.Dir), strings.Compare(a.Name, b.Name), strings.Compare(a.Job, b.Job))
	})
	if !held {
		s.At = 0 // nothing is counted: the file stays as it is
	}
	r.log.note("state", r.state.write(&s))
}

// recall takes over what an earlier agent of the same boot knew. If that cannot be
// read, it is lost and counters begin at zero.
func (r *Registry) recall() {
	now := r.clock()
	r.records.readBoot()
	r.usage.at, r.schedule.scanned, r.usage.lastSample, r.records.removed = now.up, now, now.up, true
	atomicfile.Tidy(r.config.RunDir)
	s, err := r.state.read()
	if err != nil {
		r.log.Warn("state of the earlier agent cannot be read: counters begin at zero", "err", err)
	}
	if s == nil || s.BootID != r.records.boot || r.records.boot == "" || s.At > now.up {
		return
	}
	r.records.recall(s)
	r.life.Prove(s.Proven)
	for _, l := range s.Absent {
		r.orphans[sweep.Line{Dir: l.Dir, Name: l.Name, Job: l.Job}] = &l.Absence
	}
	at := cmp.Or(s.At, now.up)
	r.usage.recall(s, r.records.runs())
	r.usage.at = at
	r.schedule.scanned = moment{now.wall.Add(at - now.up), at}
}

// recall reads the records of the runs that the state knows.
func (r *records) recall(s *savedState) {
	stamps, err := r.list()
	if err != nil {
		return
	}
	for key, saved := range s.Jobs {
		stamp, there := stamps[key]
		record, err := rundir.Dir(r.runDir).ReadRecord(key)
		if !there || err != nil || record == nil || record.Run != saved.Run || !r.ofBoot(record) {
			continue
		}
		r.jobs[key] = &job{key: key, record: *record, stamp: stamp, life: saved.Saved.Run()}
	}
}

// runs names the runs of all records.
func (r *records) runs() map[string]bool {
	out := make(map[string]bool, len(r.jobs))
	for _, j := range r.jobs {
		out[j.run()] = true
	}
	return out
}

// recall takes over what was counted of devices. runs are the runs that are still
// there.
func (u *deviceUsage) recall(s *savedState, runs map[string]bool) {
	for uuid, d := range s.Devices {
		h := &holding{held: d.Held, idle: d.Idle}
		for _, run := range d.Runs {
			if !runs[run] {
				continue
			}
			if h.runs == nil {
				h.runs = make(map[string]bool)
			}
			h.runs[run] = true
			h.idleSince, h.sampled, h.since = d.IdleSince, d.Sampled, d.Since
		}
		u.devices[uuid] = h
	}
}
