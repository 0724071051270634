package jobs

import (
	"github.com/quoin-hpc/quoin/dcgm/document"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// stateKey is the key of agent.json in the run directory: what an agent remembers for the one
// after it.
const stateKey = "agent"

// savedState is true of one boot only.
type savedState struct {
	document.Head
	BootID string              `json:"bootID,omitempty"`
	Jobs   map[string]savedJob `json:"jobs,omitempty"`
	Life   liveness.Known      `json:"life"`
}

// savedJob is what was seen of a run and its record does not say.
type savedJob struct {
	rundir.Run
	Life liveness.Run `json:"life"`
}

func (r *Registry) state() document.Store[savedState] {
	return document.Store[savedState]{Dir: string(r.config.RunDir), Kind: "AgentState", Mode: document.Own, OneLine: true}
}

// saveState writes the state if it has changed.
func (r *Registry) saveState() {
	s := savedState{BootID: r.records.boot, Jobs: make(map[string]savedJob), Life: r.life.Known}
	for key, j := range r.records.jobs {
		s.Jobs[key] = savedJob{j.record.Run, j.life}
	}
	r.log.Note("state of jobs", r.state().Put(stateKey, s))
}

// recall takes over what an earlier agent of the same boot has seen of jobs. If that cannot be
// read, it is lost.
func (r *Registry) recall() {
	r.usage.lastSample = r.clock().up
	s, _, err := r.state().Find(stateKey)
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
