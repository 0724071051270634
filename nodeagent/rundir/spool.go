package rundir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The summaries of a node are bounded in number and in bytes; the oldest go first.
const (
	MaxSummaries    = 1000
	MaxSummaryBytes = 8 << 20
	// maxSummary bounds one summary, in bytes.
	maxSummary = 64 << 10
	// pruneEvery is the number of new summaries between two looks, each of which takes
	// milliseconds. A look makes room for as many.
	pruneEvery = 16
)

// PruneSummaries is called after each new summary. It removes the oldest of a run
// directory that are over the bounds, and their copies in the site's directory,
// which may be empty for none.
func (d Dir) PruneSummaries(siteDir string) error {
	dir := d.SummaryDir()
	removed, err := prune(dir)
	if siteDir == "" || filepath.Clean(siteDir) == dir {
		return err
	}
	for _, name := range removed {
		_ = os.Remove(filepath.Join(siteDir, name)) // the site may have taken it
	}
	return err
}

// prune returns the names of the removed files.
func prune(dir string) (removed []string, err error) {
	names, err := summaryNames(dir)
	if err != nil || len(names) <= MaxSummaries && len(names)%pruneEvery != 0 {
		return nil, err
	}
	files, failed := statSummaries(dir, names)
	slices.SortFunc(files, lastFirst)
	var bytes int64
	for i, info := range files {
		bytes += info.Size()
		if i < MaxSummaries-pruneEvery && bytes <= MaxSummaryBytes-pruneEvery*maxSummary {
			continue
		}
		if err := os.Remove(filepath.Join(dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("prune job summaries: %w", err))
			continue
		}
		removed = append(removed, info.Name())
	}
	return removed, failed
}

func statSummaries(dir string, names []string) (files []fs.FileInfo, failed error) {
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err == nil {
			files = append(files, info)
		} else if !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("prune job summaries: %w", err))
		}
	}
	return files, failed
}

func summaryNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read job summaries: %w", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read job summaries: %w", err)
	}
	return slices.DeleteFunc(names, func(n string) bool { return !isSummary(n) }), nil
}

func isSummary(name string) bool {
	return strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".")
}

// lastFirst orders summaries by the time of writing, which is the end of the job: a
// long job is not old because it started early.
func lastFirst(a, b fs.FileInfo) int {
	return cmp.Or(b.ModTime().Compare(a.ModTime()), strings.Compare(b.Name(), a.Name()))
}
