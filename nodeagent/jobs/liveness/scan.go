package liveness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Slurm's numbers of the steps that live as long as their job: the external step
// (PrologFlags=Contain), and the batch step on the job's first node.
const (
	externStep = 4294967292
	batchStep  = 4294967291
)

// sighting is a step of a job, or what is left of one, that a source shows.
type sighting struct {
	// source is the path of the spool directory or of the control groups.
	source string
	// node is the slurmd's name. It is empty if the source does not say it.
	node string
	// alive says that the step lives. If it is false, nobody can tell.
	alive bool
	// lasting says that the step lives as long as its job. extern marks the
	// external step. If slurmd makes external steps, every job has one.
	lasting, extern bool
}

// wantedJobs are the ids of jobs to look for, by the names of their control groups.
type wantedJobs map[string]string

// add adds a job. Slurm 26.05 names a job's group by the SLUID of the run, and 24.11 by the job's
// id. The SLUID is empty if it is not known.
func (w wantedJobs) add(id, sluid string) {
	w["job_"+id] = id
	if sluid != "" {
		w[sluid] = id
	}
}

// has says whether a job of this id is wanted.
func (w wantedJobs) has(id string) bool { return w["job_"+id] != "" }

// evidence is what one scan has shown of the node's jobs.
type evidence struct {
	readable map[string]bool
	jobs     map[string][]sighting
	// nameless says that a job lives whose id nobody knows: its control group has a SLUID that no
	// record has.
	nameless bool
}

// stepScanner finds the steps of jobs.
type stepScanner struct {
	// spools are directories such as slurmd's SlurmdSpoolDir, cgroupRoot is where
	// the control groups are mounted. Either may be missing.
	spools     []string
	cgroupRoot string

	groups   []stepGroups
	nextWalk time.Duration
}

// scan returns the traces of jobs. unseen says that one of the jobs
// is new: then control groups are searched again. at is the time of the scan.
func (s *stepScanner) scan(wanted wantedJobs, unseen bool, at time.Duration) evidence {
	e := evidence{readable: make(map[string]bool), jobs: make(map[string][]sighting)}
	if len(wanted) == 0 {
		return e
	}
	for _, dir := range s.spools {
		s.scanSpool(dir, wanted, &e)
	}
	if unseen {
		s.findGroups(at)
	}
	for _, g := range s.groups {
		e.readable[g.path] = g.scan(wanted, &e)
	}
	return e
}

// canTell says whether a source could be read, or is a directory of control groups
// that is gone with all its steps.
func (s *stepScanner) canTell(e *evidence, source string) bool {
	if e.readable[source] {
		return true
	}
	if rel, err := filepath.Rel(s.cgroupRoot, source); err != nil || s.cgroupRoot == "" || strings.HasPrefix(rel, "..") {
		return false
	}
	if _, err := os.Stat(source); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	entries, err := os.ReadDir(s.cgroupRoot)
	return err == nil && len(entries) > 0 // not just unmounted
}

// scanSpool tries the sockets on which slurmstepd listens, one per step and
// named <node>_<job>.<step>. The file of a killed slurmstepd stays, but nobody
// answers there.
func (s *stepScanner) scanSpool(dir string, wanted wantedJobs, e *evidence) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return
	}
	e.readable[dir] = true
	for _, entry := range entries {
		node, job, step, ok := parseSocket(entry.Name())
		if !ok || !wanted.has(job) || entry.Type()&fs.ModeSocket == 0 {
			continue
		}
		if info, err := entry.Info(); err != nil || !trusted(info) {
			continue
		}
		answers, there := listens(d, entry.Name())
		if there {
			e.jobs[job] = append(e.jobs[job], sighting{source: dir, node: node, alive: answers, lasting: step == externStep || step == batchStep, extern: step == externStep})
		}
	}
}

// trusted says whether root owns a file, or the user of this process, if that is not root.
// What others make is no evidence: slurmd and its steps are root's.
func trusted(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && trustedUser(stat.Uid)
}

func trustedUser(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// parseSocket reads "n01_17.4294967292".
func parseSocket(name string) (node, job string, step uint64, ok bool) {
	at := strings.LastIndexByte(name, '_')
	if at <= 0 {
		return "", "", 0, false
	}
	job, number, ok := strings.Cut(name[at+1:], ".")
	step, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || !isNumber(job) {
		return "", "", 0, false
	}
	return name[:at], job, step, true
}

func isNumber(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// listens reports whether somebody listens on a socket in a directory. It names the
// socket by the directory's descriptor, because a socket's path has at most 107
// bytes. A socket that cannot be tried counts as one that answers.
func listens(dir *os.File, name string) (answers, there bool) {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true, true
	}
	defer unix.Close(s) //nolint:errcheck // nothing was sent
	err = unix.Connect(s, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + name})
	return !errors.Is(err, unix.ECONNREFUSED), !errors.Is(err, unix.ENOENT)
}
