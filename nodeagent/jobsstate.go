package nodeagent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// stateFile is what an agent remembers for the one after it, in the run directory.
const (
	stateFile = "agent.json"
	stateKind = "AgentState"
)

// savedState is true of one boot only; times are since that.
type savedState struct {
	APIVersion string                 `json:"apiVersion"`
	Kind       string                 `json:"kind"`
	BootID     string                 `json:"bootID,omitempty"`
	At         time.Duration          `json:"at"`
	Devices    map[string]savedDevice `json:"devices,omitempty"`
	Jobs       map[string]savedJob    `json:"jobs,omitempty"`
	Proven     []provenSource         `json:"proven,omitempty"`
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

// savedJob is what was seen of a run that its record does not say.
type savedJob struct {
	rundir.Run
	Contained []string      `json:"contained,omitempty"`
	Shown     bool          `json:"shown,omitempty"`
	Missing   time.Duration `json:"missing,omitempty"`
	Looks     int           `json:"looks,omitempty"`
	Idle      absence       `json:"idle,omitzero"`
	Taken     absence       `json:"taken,omitzero"`
	Hidden    bool          `json:"hidden,omitempty"`
}

// savedLine is a line of nobody.
type savedLine struct {
	Dir  string `json:"dir"`
	Name string `json:"name"`
	Job  string `json:"job"`
	absence
}

// keepState writes the state when it has changed.
func (j *Jobs) keepState() {
	s := savedState{APIVersion: topology.APIVersion, Kind: stateKind, BootID: j.boot, At: j.usage.at,
		Devices: make(map[string]savedDevice), Jobs: make(map[string]savedJob)}
	held := false
	for uuid, h := range j.usage.devices {
		held = held || len(h.runs) > 0
		s.Devices[uuid] = savedDevice{slices.Sorted(maps.Keys(h.runs)), h.held, h.idle, h.idleSince, h.sampled, h.since}
	}
	for key, b := range j.jobs {
		l := &b.life
		s.Jobs[key] = savedJob{b.record.Run, slices.Sorted(maps.Keys(l.contained)), l.shown, l.missing, min(l.looks, minLooks), l.idle.kept(), l.taken, l.hidden}
	}
	for line, a := range j.absent {
		s.Absent = append(s.Absent, savedLine{line.dir, line.name, line.job, a.kept()})
	}
	slices.SortFunc(s.Absent, func(a, b savedLine) int {
		return cmp.Or(strings.Compare(a.Dir, b.Dir), strings.Compare(a.Name, b.Name), strings.Compare(a.Job, b.Job))
	})
	for p := range j.proven {
		s.Proven = append(s.Proven, p)
	}
	slices.SortFunc(s.Proven, provenSource.compare)
	if !held {
		s.At = 0 // nothing is counted: the file stays as it is
	}
	data, err := json.Marshal(s)
	if err != nil || bytes.Equal(data, j.state) || len(s.Devices)+len(s.Jobs)+len(s.Absent) == 0 && j.state == nil {
		return
	}
	if err = replaceFile(filepath.Join(j.config.RunDir, stateFile), append(data, '\n')); err == nil {
		j.state = data
	}
	j.say("state", err)
}

// recall takes what an agent before this one knew of the same boot. What cannot be
// read is lost, and counters begin anew.
func (j *Jobs) recall() {
	now := j.clock()
	j.boot = readBoot(j.config.BootIDFile)
	j.usage.at, j.scanned, j.usage.lastSample, j.untidy = now.up, now, now.up, true
	j.tidyStaged()
	data, err := os.ReadFile(filepath.Join(j.config.RunDir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var s savedState
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil || s.APIVersion != topology.APIVersion || s.Kind != stateKind {
		j.log.Warn("what the last agent knew cannot be read: counters begin anew", "file", stateFile, "err", err)
		return
	}
	if s.BootID != j.boot || j.boot == "" || s.At > now.up {
		return
	}
	j.recallJobs(&s)
	for _, p := range s.Proven {
		j.proven[p] = true
	}
	for _, l := range s.Absent {
		j.absent[mappingLine{l.Dir, l.Name, l.Job}] = &l.absence
	}
	at := s.At
	if at == 0 {
		at = now.up
	}
	for uuid, d := range s.Devices {
		h := &holding{held: d.Held, idle: d.Idle}
		for _, run := range d.Runs {
			if j.holdsRun(run) {
				if h.runs == nil {
					h.runs = make(map[string]bool)
				}
				h.runs[run] = true
				h.idleSince, h.sampled, h.since = d.IdleSince, d.Sampled, d.Since
			}
		}
		j.usage.devices[uuid] = h
	}
	j.usage.at = at
	j.scanned = moment{now.wall.Add(at - now.up), at}
}

// recallJobs reads the records of the runs that the state knows.
func (j *Jobs) recallJobs(s *savedState) {
	stamps, err := j.listRecords()
	if err != nil {
		return
	}
	for key, saved := range s.Jobs {
		stamp, there := stamps[key]
		r, err := rundir.ReadRecord(j.config.RunDir, key)
		if !there || err != nil || r == nil || r.Run != saved.Run || !j.ofBoot(r) {
			continue
		}
		b := &job{key: key, record: *r, stamp: stamp}
		b.life = life{shown: saved.Shown, missing: saved.Missing, looks: saved.Looks, idle: saved.Idle, taken: saved.Taken, verdict: verdict{hidden: saved.Hidden}}
		for _, source := range saved.Contained {
			b.life.containedBy(source)
		}
		j.jobs[key] = b
	}
}

// holdsRun says whether a run, as usage names it, is there.
func (j *Jobs) holdsRun(run string) bool {
	for key, b := range j.jobs {
		if runName(key, &b.record) == run {
			return true
		}
	}
	return false
}

// runName names a run of a record.
func runName(key string, r *rundir.Record) string { return key + " " + r.String() }

func (l *life) containedBy(source string) {
	if l.contained == nil {
		l.contained = make(map[string]bool)
	}
	l.contained[source] = true
}

// tidyStaged removes the states that killed agents have begun to write.
func (j *Jobs) tidyStaged() {
	entries, _ := os.ReadDir(j.config.RunDir) // missing at first
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), ".new-") && time.Since(info.ModTime()).Abs() > time.Minute {
			_ = os.Remove(filepath.Join(j.config.RunDir, e.Name())) // the next agent tries again
		}
	}
}
