package nodeagent

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// fileStamp tells whether a file is still the one that was read.
type fileStamp struct {
	device, inode uint64
	size, written int64
}

func stampOf(info fs.FileInfo) fileStamp {
	s := fileStamp{size: info.Size(), written: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode = stat.Dev, stat.Ino
	}
	return s
}

// identity is what stays the same while a file or folder is the same one.
func (s fileStamp) identity() fileStamp { return fileStamp{device: s.device, inode: s.inode} }

// job is a record, and what is known of its run.
type job struct {
	key    string
	record rundir.Record
	stamp  fileStamp
	life   life

	resolved // by the inventory of now; its names are the files that the job's line belongs into

	use *rundir.Use
	// info are the job's series, one per device; nil until they are made.
	info []infoSeries
}

// life is what was seen of a run.
type life struct {
	// contained are the sources that have shown the run's lasting step, missing
	// since when, and looks how often, they show none; zero while they do.
	contained map[string]bool
	missing   time.Duration
	looks     int
	seen      bool
	// idle is since when slurmd has no Prolog of it running.
	idle absence
	// shown says that all of the run's lines were seen in the mapping, taken since
	// when an Epilog that did not come to its end has taken them away.
	shown bool
	taken absence
	verdict
}

// jobOfKey returns the job id in a record's key.
func jobOfKey(key string) string {
	id, _, _ := strings.Cut(key, "@")
	return id
}

// same says whether two records are of one run.
func sameRun(a, b *rundir.Record) bool {
	return a.Identity() == b.Identity() && a.Run == b.Run && a.BootID == b.BootID
}

// scan reads the records that have changed since the last time, and what tells
// their devices and places.
func (j *Jobs) scan(now moment) {
	if boot := readBoot(j.config.BootIDFile); boot != "" {
		j.boot = boot
	}
	stamps, err := j.listRecords()
	j.say("records of jobs", err)
	if err != nil {
		return // those that are known stay
	}
	gone := func(key string) bool { _, is := stamps[key]; return !is }
	known := len(j.jobs)
	maps.DeleteFunc(j.jobs, func(key string, _ *job) bool { return gone(key) })
	j.untidy = j.untidy || len(j.jobs) < known
	maps.DeleteFunc(j.broken, func(key string, _ fileStamp) bool { return gone(key) })
	for key, stamp := range stamps {
		j.readRecord(key, stamp, now)
	}
	inventory := j.inventory.refresh(j.config.RunDir, j.boot)
	j.say("inventory", j.inventory.problem)
	for _, b := range j.jobs {
		if inventory || b.names == nil {
			b.resolved = resolveJob(j.inventory.of, &b.record)
			b.info = nil
		}
	}
	j.hold(now)
	j.scanned = now
}

// listRecords returns the files of the records by key.
func (j *Jobs) listRecords() (map[string]fileStamp, error) {
	folder := filepath.Join(j.config.RunDir, jobsFolder)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read job records: %w", err)
	}
	stamps := make(map[string]fileStamp, len(entries))
	for _, e := range entries {
		key, is := strings.CutSuffix(e.Name(), ".json")
		if !is || strings.HasPrefix(key, ".") {
			continue
		}
		if info, err := e.Info(); err == nil {
			stamps[key] = stampOf(info)
		}
	}
	return stamps, nil
}

// readRecord reads one record unless it is known.
func (j *Jobs) readRecord(key string, stamp fileStamp, now moment) {
	before := j.jobs[key]
	if before != nil && before.stamp == stamp {
		return
	}
	if was, is := j.broken[key]; is && was == stamp {
		return
	}
	r, err := rundir.ReadRecord(j.config.RunDir, key)
	if err == nil && r != nil && r.Written.UnixNano() != stamp.written {
		stamp = fileStamp{} // replaced just now: it is read again the next time
	}
	switch {
	case err != nil:
		j.broken[key] = stamp
		delete(j.jobs, key)
		j.log.Warn("record of a job cannot be read: its label stays until its Epilog", "job", jobOfKey(key), "err", err)
		return
	case r == nil: // removed just now
		delete(j.jobs, key)
		return
	}
	delete(j.broken, key)
	b := &job{key: key, record: *r, stamp: stamp}
	if before != nil && sameRun(&before.record, r) {
		if b.life, b.use = before.life, before.use; !before.record.Written.Equal(r.Written) {
			b.life.missing, b.life.looks, b.life.idle = 0, 0, absence{} // its Prolog runs
		}
	} else {
		j.eager = now.up + eagerFor
	}
	j.jobs[key] = b
}

// ofBoot says whether a record is of this boot, as far as that can be told.
func (j *Jobs) ofBoot(r *rundir.Record) bool {
	return r.BootID == "" || j.boot == "" || r.BootID == j.boot
}

// running says whether a job counts as one that runs now.
func (j *Jobs) running(b *job) bool { return j.ofBoot(&b.record) && !b.life.hidden }

// sorted returns the jobs by key.
func (j *Jobs) sorted() []*job {
	out := make([]*job, 0, len(j.jobs))
	for _, key := range slices.Sorted(maps.Keys(j.jobs)) {
		out = append(out, j.jobs[key])
	}
	return out
}

// seconds reads Unix seconds as Slurm prints them.
func seconds(text string) (time.Time, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}, false
	}
	return time.Unix(n, 0), true
}
