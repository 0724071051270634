// Package report says how jobs use their GPUs, or have used them: what quoin job
// shows. It reads the records and uses of the run directory and the summaries of
// ended jobs, and writes tables and JSON.
package report

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// Source says where jobs are found, and which of them are wanted.
type Source struct {
	// RunDir is this node's run directory. RunDirGiven says that the user named it, and
	// so that it must be there.
	RunDir      rundir.Dir
	RunDirGiven bool
	// Elsewhere says that others than records and summaries tell of jobs, so that the run
	// directory may be missing.
	Elsewhere bool
	// SummaryDirs have summaries of ended jobs. If there are none, these are read: the
	// run directory's own, and the one that the hook is told.
	SummaryDirs []string
	// Cluster and Start, if they are not empty, choose the runs.
	// Start is in seconds since 1970.
	Cluster, Start string
	// Skip is told of each file that cannot be read and is passed over.
	Skip func(error)
}

// Read reads what is known of all jobs.
func (s Source) Read() ([]Run, error) {
	dirs := s.SummaryDirs
	nodes, err := s.readRunDir()
	if err != nil {
		return nil, err
	}
	for _, dir := range s.SummaryDirs {
		if err := checkDirectory(dir); err != nil {
			return nil, fmt.Errorf("read summaries: %w; correct --summary-dir", err)
		}
	}
	if len(dirs) == 0 {
		dirs = []string{s.RunDir.SummaryDir()}
		if c, err := s.RunDir.ReadHookConfig(); err != nil {
			s.Skip(err)
		} else if c != nil && c.SummaryDir != "" {
			dirs = append(dirs, c.SummaryDir)
		}
	} else if s.RunDirGiven {
		dirs = append(dirs, s.RunDir.SummaryDir())
	}
	for _, dir := range dirs {
		if s.Elsewhere && len(s.SummaryDirs) == 0 && errors.Is(checkDirectory(dir), fs.ErrNotExist) {
			continue
		}
		summaries, err := rundir.ReadSummaries(dir)
		s.skip(err)
		for _, sum := range summaries {
			nodes = append(nodes, nodeRun{record: sum.Record, use: sum.Use, ended: sum.Ended, exit: sum.ExitCode})
		}
	}
	nodes = slices.DeleteFunc(nodes, func(n nodeRun) bool {
		return s.Cluster != "" && n.record.Cluster != s.Cluster || s.Start != "" && n.record.StartTime != s.Start
	})
	return groupRuns(nodes), nil
}

// readRunDir reads the jobs that run here, and the jobs that have ended and have no summary yet. The run directory may be missing on a
// machine without GPUs, such as slurmctld's, if summaries are elsewhere.
func (s Source) readRunDir() ([]nodeRun, error) {
	if err := checkDirectory(string(s.RunDir)); errors.Is(err, fs.ErrNotExist) && (s.Elsewhere || len(s.SummaryDirs) > 0) && !s.RunDirGiven {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read jobs: %w; does quoin agent run on this node? Set agent.runDir, or give --summary-dir if summaries are kept elsewhere", err)
	}
	records, failed := s.RunDir.ReadRecords()
	if err := failed[""]; errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: want root, or a member of the group agent.jobsGroup", err)
	}
	for _, key := range slices.Sorted(maps.Keys(failed)) {
		s.skip(failed[key])
	}
	var nodes []nodeRun
	for _, key := range slices.Sorted(maps.Keys(records)) {
		r := records[key]
		u, err := s.RunDir.Uses().Of(key, &r)
		s.skip(err)
		nodes = append(nodes, nodeRun{record: r, use: u})
	}
	endings, err := s.RunDir.Endings()
	s.skip(err)
	for _, e := range endings {
		u, err := s.RunDir.Uses().Of(e.Key, &e.Record)
		s.skip(err)
		nodes = append(nodes, nodeRun{record: e.Record, use: u, ended: e.Ended, exit: e.ExitCode, waits: true})
	}
	return nodes, nil
}

func (s Source) skip(err error) {
	if err != nil {
		s.Skip(err)
	}
}

func checkDirectory(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return &fs.PathError{Op: "read", Path: path, Err: syscall.ENOTDIR}
	}
	return err
}
