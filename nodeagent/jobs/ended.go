package jobs

import (
	"errors"
	"fmt"
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

func (e *endedJob) waits(now moment) bool { return now.up-e.at <= finishWithin }

// noteEnded remembers the jobs that were there before and are gone now, until their summaries
// are made.
func (r *Registry) noteEnded(before map[string]*job, now moment) {
	r.ended = slices.DeleteFunc(r.ended, func(e *endedJob) bool { return now.up-e.at > time.Minute }) // without an ending
	for _, key := range sortedKeys(before) {
		j := before[key]
		if next := r.records.jobs[key]; j.use != nil && (next == nil || !sameRun(&next.record, &j.record)) {
			r.ended = append(r.ended, &endedJob{job: j, at: now.up})
		}
	}
}

// finish adds a sample to the jobs that have just ended, as far as nobody has their devices
// again.
func (r *Registry) finish(s topology.Sample, now moment) {
	held := r.records.held()
	for _, e := range r.ended {
		if e.waits(now) {
			e.use.Finish(s, func(uuid string) bool { return held[uuid] })
		}
	}
}

// bury makes summaries of the endings, and returns the keys of the endings that wait: for their
// last sample, or because their summary cannot be written. An ending whose record is still there is being released.
func (r *Registry) bury(now moment) (waiting map[string]bool) {
	endings, failed := r.config.RunDir.Endings()
	waiting = make(map[string]bool)
	for _, s := range endings {
		i := slices.IndexFunc(r.ended, func(e *endedJob) bool { return e.key == s.Key && e.record.Run == s.Record.Run })
		j := r.records.jobs[s.Key]
		if waits := i >= 0 && r.ended[i].waits(now); waits || j != nil && sameRun(&j.record, &s.Record) {
			waiting[s.Key] = true
			continue
		}
		if i >= 0 {
			s.Use = r.ended[i].use
		} else if use, err := r.config.RunDir.Uses().Of(s.Key, &s.Record); err != nil {
			r.log.Warn("use of a job cannot be read: its summary has none", "job", s.Record.JobID, "err", err)
		} else {
			s.Use = use
		}
		if err := r.summarize(s); err != nil {
			waiting[s.Key] = true // its use is still needed
			failed = errors.Join(failed, err)
		} else if i >= 0 {
			r.ended = slices.Delete(r.ended, i, i+1)
		}
	}
	if len(endings) > len(waiting) {
		pruned, err := r.config.RunDir.PruneSummaries()
		r.copies.prune(pruned)
		failed = errors.Join(failed, err)
	}
	r.log.Note("summaries of ended jobs", failed)
	return waiting
}

// summarize writes the summary of a run, also for the site's folder, and then removes the
// ending. If nobody saw the run end before the machine booted, the run ended with its last sample.
func (r *Registry) summarize(s rundir.Summary) error {
	if s.Use != nil && s.ExitCode == "" && !r.records.ofBoot(&s.Record) {
		s.Ended = s.Use.Until.Unix()
	}
	err := rundir.WriteSummary(r.config.RunDir, s)
	if r.config.SummaryDir != "" {
		err = errors.Join(err, rundir.QueueCopy(r.config.RunDir, s))
	}
	if err != nil {
		return err
	}
	return r.config.RunDir.RemoveEnding(s)
}

// copies brings summaries to the site's folder. Because the folder may be a share that hangs, one goroutine of its own
// copies the summaries, and the agent does not wait until they are copied.
type copies struct {
	copy    func(siteDir string, pruned []string) error
	running bool
	since   time.Duration // when the last one began
	done    chan error    // its outcome; the channel has room for one
	pruned  []string      // summaries whose copies are to be removed
}

// prune notes summaries whose copies are to be removed, the oldest first. While the site's folder hangs, it gets no
// more copies. So the first [rundir.MaxSummaries] are all that can have a copy.
func (c *copies) prune(keys []string) {
	c.pruned = append(c.pruned, keys...)
	c.pruned = c.pruned[:min(len(c.pruned), rundir.MaxSummaries)]
}

// copyAfter is how long copying may take until the log says so.
const copyAfter = time.Minute

// copySummaries starts copying what waits, unless the last copying has not come back.
func (r *Registry) copySummaries(now moment) {
	c := &r.copies
	select {
	case err := <-c.done:
		c.running = false
		r.log.Note("copies of summaries", err)
	default:
	}
	switch {
	case r.config.SummaryDir == "":
		c.pruned = nil
	case !c.running:
		pruned := c.pruned
		c.running, c.since, c.pruned = true, now.up, nil
		go func() { c.done <- c.copy(r.config.SummaryDir, pruned) }()
	case now.up-c.since > copyAfter:
		r.log.Note("copies of summaries", fmt.Errorf("%s does not answer", r.config.SummaryDir))
	}
}
