package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// The state is what an agent remembers for the one after it, in the run directory.
const (
	stateName = "agent.json"
	stateKind = "AgentState"
)

// savedState is true of one boot only.
type savedState struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	BootID     string              `json:"bootID,omitempty"`
	Jobs       map[string]savedJob `json:"jobs,omitempty"`
	Life       liveness.Known      `json:"life"`
}

// savedJob is what was seen of a run and its record does not say.
type savedJob struct {
	rundir.Run
	Life liveness.Run `json:"life"`
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
	if bytes.Equal(data, f.last) || len(s.Jobs) == 0 && f.last == nil {
		return nil
	}
	if err := rundir.WriteOwn(f.path, append(data, '\n')); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	f.last = data
	return nil
}

// read returns the state of an earlier agent, nil if there is none.
func (f *stateFile) read() (*savedState, error) {
	data, err := atomicfile.Read(f.path)
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
	s := savedState{APIVersion: topology.APIVersion, Kind: stateKind, BootID: r.records.boot, Jobs: make(map[string]savedJob), Life: r.life.Known}
	for key, j := range r.records.jobs {
		s.Jobs[key] = savedJob{j.record.Run, j.life}
	}
	r.log.Note("state of jobs", r.state.write(&s))
}

// recall takes over what an earlier agent of the same boot has seen of jobs. If that cannot be
// read, it is lost.
func (r *Registry) recall() {
	r.usage.lastSample = r.clock().up
	s, err := r.state.read()
	if err != nil {
		r.log.Warn("state of the earlier agent cannot be read: what it has seen of jobs is lost", "err", err)
	}
	if s == nil || s.BootID != r.records.boot || r.records.boot == "" {
		return
	}
	r.records.recall(s)
	r.life.Known = s.Life
}

// recall reads the records of the runs that the state knows.
func (r *records) recall(s *savedState) {
	for key, saved := range s.Jobs {
		record, err := r.runDir.ReadRecord(key)
		if err == nil && record != nil && record.Run == saved.Run && r.ofBoot(record) {
			r.jobs[key] = &job{key: key, record: *record, life: saved.Life}
		}
	}
}
