package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/dcgm/document"
)

// folders are the folders with files of jobs.
var folders = []string{jobsFolder, useFolder, summaryFolder, endedFolder, markFolder, copyFolder}

// Tidy removes files that killed writers left in a run directory.
func (d Dir) Tidy() {
	atomicfile.Tidy(string(d))
	for _, name := range folders {
		if folder := filepath.Join(string(d), name); document.CheckFolder(folder) == nil {
			atomicfile.Tidy(folder)
		}
	}
}

// Restrict makes the folders of records, uses and summaries, and lets root and the group
// read them. What is in a folder that others could read is changed too. New files get the
// group of their folder. 0 is no group.
func Restrict(d Dir, group int) error {
	var failed error
	for _, name := range folders {
		if err := restrict(filepath.Join(string(d), name), group); err != nil {
			failed = errors.Join(failed, fmt.Errorf("restrict who reads files of jobs: %w", err))
		}
	}
	return failed
}

func restrict(folder string, group int) error {
	if err := document.MakeFolder(folder, document.PrivateDir); err != nil {
		return err
	}
	want := fs.ModeDir | document.PrivateDir
	if group > 0 {
		want |= fs.ModeSetgid
	}
	info, err := os.Stat(folder)
	if err != nil || info.Mode() == want && isOfGroup(info, group) {
		return err
	}
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if e.Type().IsRegular() {
			err = errors.Join(err, give(filepath.Join(folder, e.Name()), group, document.Private))
		}
	}
	// Last, because a folder that is as it should be is not looked into again.
	return errors.Join(err, give(folder, group, want))
}

// give sets group and mode. A file that is gone meanwhile is no error.
func give(path string, group int, mode fs.FileMode) error {
	var err error
	if group > 0 {
		err = os.Lchown(path, -1, group)
	}
	if err == nil { // chown takes away the bit that gives new files the group
		err = os.Chmod(path, mode)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func isOfGroup(info fs.FileInfo, group int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return group <= 0 || ok && int(stat.Gid) == group
}
