package dcgm

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The summaries of a node are bounded in number and in bytes; the oldest go first.
const (
	MaxSummaries    = 1000
	MaxSummaryBytes = 8 << 20
	// maxSummary bounds one, in bytes: so many are within the bounds in any case.
	maxSummary   = 64 << 10
	alwaysWithin = MaxSummaryBytes / maxSummary
	// pruneEvery is how many more there are when they are looked at again, which
	// takes milliseconds, and for how many room is made.
	pruneEvery = 16
)

// PruneSummaries is called after each new summary. It removes the oldest of a
// directory that are over the bounds, and returns their names.
func PruneSummaries(dir string) (removed []string, err error) {
	names, err := summaryNames(dir)
	if err != nil || len(names) <= alwaysWithin || len(names) <= MaxSummaries && len(names)%pruneEvery != 0 {
		return nil, err
	}
	keep := MaxSummaries
	if len(names) > MaxSummaries {
		keep -= pruneEvery
	}
	slices.SortFunc(names, newestFirst)
	var bytes int64
	var failed error
	for i, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			failed = errors.Join(failed, fmt.Errorf("prune job summaries: %w", err))
			continue
		}
		bytes += info.Size()
		if i < keep && bytes <= MaxSummaryBytes-pruneEvery*maxSummary {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("prune job summaries: %w", err))
			continue
		}
		removed = append(removed, name)
	}
	return removed, failed
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

// newestFirst orders summaries by the start of their jobs.
func newestFirst(a, b string) int {
	start := func(name string) uint64 {
		text, _, _ := strings.Cut(name, "-")
		n, _ := strconv.ParseUint(text, 10, 64) // 0: the oldest
		return n
	}
	return cmp.Or(cmp.Compare(start(b), start(a)), strings.Compare(b, a))
}
