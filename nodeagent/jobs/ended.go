package jobs

import (
	"errors"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// endedJob is a job whose record is gone, and when it was seen to be gone. A job often ends
// because of an error of its GPU, which no sample of its time shows. The probe takes a sample
// of the job's devices when they are no longer wanted, and that one does.
type endedJob struct {
	*job
	at time.Duration
}

// finishWithin is how long after the end of a job a sample still tells of the job. A sample
// is asked for at once, so it is far less.
const finishWithin = 5 * time.Second

// noteEnded remembers the jobs that were there before and are gone now. It forgets jobs that
// ended too long ago for a sample to tell of them, because there may never be one.
func (r *Registry) noteEnded(before map[string]*job, now moment) {
	r.ended = slices.DeleteFunc(r.ended, func(e endedJob) bool { return now.up-e.at > finishWithin })
	for _, key := range sortedKeys(before) {
		j := before[key]
		if next := r.records.jobs[key]; j.use != nil && (next == nil || !sameRun(&next.record, &j.record)) {
			r.ended = append(r.ended, endedJob{j, now.up})
		}
	}
}

// finish puts the samples just after the end of a job into its summary, as far as nobody
// has the job's devices again.
func (r *Registry) finish(s topology.Sample, now moment) {
	held := r.records.held()
	var failed error
	for _, e := range r.ended {
		if now.up-e.at > finishWithin || !e.use.Finish(s, func(uuid string) bool { return held[uuid] }) {
			continue
		}
		for _, dir := range []string{r.config.RunDir.SummaryDir(), r.config.SummaryDir} {
			if dir != "" {
				failed = errors.Join(failed, rundir.AmendSummary(dir, e.key, &e.record, e.use))
			}
		}
	}
	r.log.note("summaries of ended jobs", failed)
}
