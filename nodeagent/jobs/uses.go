package jobs

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// uses are the files that say how jobs have used their devices so far.
type uses struct {
	rundir.Uses
	log *slog.Logger
}

// keep gives a job a use of its run, with its devices.
func (u uses) keep(j *job, n *topology.Node, p *programs, now moment) {
	if j.use == nil {
		saved, err := u.Of(j.key, &j.record)
		if err != nil {
			u.log.Warn("use of a job cannot be read: its sums begin at zero", "job", j.record.JobID, "err", err)
		}
		if j.use = saved; saved == nil {
			j.use = rundir.NewUse(j.record.JobID, j.record.Run, now.wall)
		}
	}
	written := now.up - now.wall.Sub(j.record.Written)
	j.use.Hold(j.devices, func(uuid string) []uint32 { return p.before(uuid, written) })
	j.use.Contained = j.life.Contained
	if len(j.devices) > 0 && n != nil {
		j.use.Clique = cliqueOf(n, &j.devices[0])
	}
}

// add adds a sample to the uses of all jobs that run. It returns what they have grown by, by
// the UUIDs of devices.
func (u uses) add(r *records, s topology.Sample, p *programs, now time.Time, every time.Duration) (grown map[string]growth, failed error) {
	grown = make(map[string]growth)
	known := r.ids()
	for _, j := range r.sorted() {
		if j.use == nil || !r.running(j) {
			continue
		}
		before := slices.Clone(j.use.Devices)
		j.use.Add(p.of(j, known, s), now, every)
		for i := range before {
			g := grown[before[i].UUID]
			if after := &j.use.Devices[i]; after.Samples > before[i].Samples {
				g.add(&before[i], after)
				grown[after.UUID] = g
			}
		}
		failed = errors.Join(failed, u.write(r, j))
	}
	return grown, failed
}

// write writes a job's use. If the record is gone, the use is put into the summary from here.
func (u uses) write(r *records, j *job) error {
	if !isThere(r.path(j.key)) {
		return nil
	}
	return u.Write(j.key, j.use)
}

// tidy removes the uses of jobs that have no record, and no ending that waits for its summary.
func (u uses) tidy(r *records, waiting map[string]bool) error {
	keys, failed := u.Keys()
	for _, key := range keys {
		if r.jobs[key] == nil && !waiting[key] && !isThere(r.path(key)) {
			failed = errors.Join(failed, u.Remove(key))
		}
	}
	return failed
}
