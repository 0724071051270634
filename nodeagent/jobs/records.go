package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// isSame says whether two looks at a path have found the same file, which nobody has
// replaced in between. nil stands for no file.
func isSame(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// job is a record, and what is known of its run.
type job struct {
	key    string
	record rundir.Record
	file   fs.FileInfo // nil if the record is to be read again
	life   liveness.Run

	// now is the record as the inventory has its devices now, and devices are these. now is nil until
	// the devices are known. The job's line belongs into the files of now.GPUs.
	now     *rundir.Record
	devices []rundir.Entry

	use *rundir.Use
	// info are the job's series, one per device, made of the report infoOf. They are
	// nil until they are made.
	info   []infoSeries
	infoOf *topology.Node
}

// sameRun says whether two records are of one run.
func sameRun(a, b *rundir.Record) bool {
	return a.Identity() == b.Identity() && a.Run == b.Run && a.BootID == b.BootID
}

// records are the hook's records of jobs, and the inventory that tells their devices.
type records struct {
	runDir    rundir.Dir
	boot      string // empty if it is not known
	log       *slog.Logger
	jobs      map[string]*job        // by the record's key
	broken    map[string]fs.FileInfo // records that cannot be read
	inventory stampedInventory
}

func (r *records) path(key string) string { return filepath.Join(r.runDir.Records(), key+".json") }

// read reads the records that have changed, and resolves their devices. fresh says
// that a run is new.
func (r *records) read() (fresh bool, err error) {
	files, err := r.list()
	if err != nil {
		return false, err
	}
	gone := func(key string) bool { return files[key] == nil }
	maps.DeleteFunc(r.jobs, func(key string, _ *job) bool { return gone(key) })
	maps.DeleteFunc(r.broken, func(key string, _ fs.FileInfo) bool { return gone(key) })
	for key, file := range files {
		fresh = r.readOne(key, file) || fresh
	}
	changed := r.inventory.refresh(r.runDir, r.boot)
	for _, j := range r.jobs {
		if changed || j.now == nil {
			now, devices := j.record.Resolve(r.inventory.of)
			j.now, j.devices, j.info = &now, devices, nil
		}
	}
	return fresh, nil
}

// list returns the files of the records by key.
func (r *records) list() (map[string]fs.FileInfo, error) {
	entries, err := os.ReadDir(r.runDir.Records())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read job records: %w", err)
	}
	files := make(map[string]fs.FileInfo, len(entries))
	for _, e := range entries {
		key, is := strings.CutSuffix(e.Name(), ".json")
		if !is || strings.HasPrefix(key, ".") {
			continue
		}
		if info, err := e.Info(); err == nil {
			files[key] = info
		}
	}
	return files, nil
}

// readOne reads one record unless it is known, and says whether its run is new.
func (r *records) readOne(key string, file fs.FileInfo) (fresh bool) {
	before := r.jobs[key]
	if before != nil && isSame(before.file, file) {
		return false
	}
	if isSame(r.broken[key], file) {
		return false
	}
	record, err := r.runDir.ReadRecord(key)
	if err == nil && record != nil && !record.Written.Equal(file.ModTime()) {
		file = nil // replaced just now: it is read again the next time
	}
	switch {
	case err != nil:
		r.broken[key] = file
		delete(r.jobs, key)
		r.log.Warn("record of a job cannot be read: its labels stay until its Epilog", "job", rundir.JobOfKey(key), "err", err)
		return false
	case record == nil: // removed just now
		delete(r.jobs, key)
		return false
	}
	delete(r.broken, key)
	j := &job{key: key, record: *record, file: file}
	r.jobs[key] = j
	if before == nil || !sameRun(&before.record, record) {
		return true
	}
	j.life, j.use = before.life, before.use
	if !before.record.Written.Equal(record.Written) {
		j.life.PrologRuns()
	}
	return false
}

// ofBoot reports whether a record was made in this boot, or may have been.
func (r *records) ofBoot(record *rundir.Record) bool { return rundir.SameBoot(record.BootID, r.boot) }

// running says whether a job counts as one that runs now.
func (r *records) running(j *job) bool { return r.ofBoot(&j.record) && !j.life.Hidden }

// sorted returns the jobs by key.
func (r *records) sorted() []*job {
	out := make([]*job, 0, len(r.jobs))
	for _, key := range sortedKeys(r.jobs) {
		out = append(out, r.jobs[key])
	}
	return out
}

// lives returns the runs for the observer.
func (r *records) lives() []liveness.Job {
	out := make([]liveness.Job, 0, len(r.jobs))
	for _, j := range r.jobs {
		out = append(out, liveness.Job{Record: &j.record, Run: &j.life, OtherBoot: !r.ofBoot(&j.record)})
	}
	return out
}

// held returns the devices that jobs hold, by UUID.
func (r *records) held() map[string]bool { return r.uuids(r.running) }

// claimed returns the devices of all jobs of this boot, also of those whose steps are not seen.
func (r *records) claimed() map[string]bool {
	return r.uuids(func(j *job) bool { return r.ofBoot(&j.record) })
}

// uuids returns the devices of the jobs that count.
func (r *records) uuids(counts func(*job) bool) map[string]bool {
	uuids := make(map[string]bool)
	for _, j := range r.jobs {
		if counts(j) {
			for _, uuid := range j.now.UUIDs {
				uuids[uuid] = true
			}
		}
	}
	return uuids
}

// ids returns how many records each job has. Two slurmds of this host may have one each.
func (r *records) ids() map[string]int {
	ids := make(map[string]int, len(r.jobs))
	for _, j := range r.jobs {
		ids[j.record.JobID]++
	}
	return ids
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
