package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

// What the node knows of jobs is for root, and for a group that the site names: Slurm has
// PrivateData for the same reason. What no person needs to read is for root alone.
const (
	privateFile fs.FileMode = 0o640
	privateDir  fs.FileMode = 0o750
	ownFile     fs.FileMode = 0o600
)

// WriteOwn writes a file of the run directory for root alone.
func WriteOwn(path string, data []byte) error { return atomicfile.WriteMode(path, data, ownFile) }

// Restrict makes the folders of records, uses and summaries, and lets root and the group
// read them. What is in a folder that others could read is changed too. New files get the
// group of their folder. 0 is no group.
func Restrict(d Dir, group int) error {
	var failed error
	for _, name := range []string{jobsFolder, useFolder, summaryFolder, endedFolder} {
		if err := restrict(filepath.Join(string(d), name), group); err != nil {
			failed = errors.Join(failed, fmt.Errorf("restrict who reads files of jobs: %w", err))
		}
	}
	return failed
}

// makeFolder makes a folder with a mode. Everybody may enter the folders above it. A folder
// that not everybody may read is the run directory's own, and must not be a link.
func makeFolder(path string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if mode != 0o755 {
		return folder(path).check()
	}
	return nil
}

func restrict(folder string, group int) error {
	if err := makeFolder(folder, privateDir); err != nil {
		return err
	}
	want := fs.ModeDir | privateDir
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
			err = errors.Join(err, give(filepath.Join(folder, e.Name()), group, privateFile))
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
