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
	"time"

	"github.com/quoin-hpc/quoin/dcgm/document"
)

// Summary is what is kept of an ended run of a job on this node. Whoever ends the run, which
// is mostly its Epilog, leaves the run's ending: a summary without a use. The agent takes the
// last sample, and makes the summary of the ending.
type Summary struct {
	document.Head
	// Key is the record's.
	Key    string `json:"key"`
	Record Record `json:"record"`
	// Use is nil if no agent took a sample, and in an ending.
	Use *Use `json:"use,omitempty"`
	// Ended is in seconds since 1970.
	Ended int64 `json:"ended"`
	// ExitCode is code:signal, empty if Slurm did not say it.
	ExitCode string `json:"exitCode,omitempty"`
	// Unreleased says that the run's GPUs are still to be released: the lock was not to be had.
	// Such an ending is a mark for the next holder of the lock. Its record names the run alone.
	Unreleased bool `json:"unreleased,omitempty"`
}

const (
	summaryKind   = "JobSummary"
	summaryFolder = "summaries"
	endedFolder   = "ended"
	markFolder    = "marks"
	copyFolder    = "uncopied"
	// maxName is the longest key of a summary that its SLUID may end, in bytes.
	maxName = 249
)

// SummaryDir is the run directory's spool of summaries.
func (d Dir) SummaryDir() string { return filepath.Join(string(d), summaryFolder) }

// fileKey is the key of the summary's file, which no other run and no other node has. A
// job can run twice within a second; then its SLUIDs differ.
func (s *Summary) fileKey() string {
	start := s.Record.StartTime
	if start == "" || !isPlainPart(start) || len(start) > 20 {
		start = "0"
	}
	name := start + "-" + s.Key + "-" + keyPart(s.Record.Node)
	if run := keyPart(s.Record.SLUID); run != "" && len(name)+len(run) < maxName {
		return name + "-" + run
	}
	return name
}

// MarkOf is the mark of a run that ended at a time with an exit code, which may be empty.
func MarkOf(id JobIdentity, run Run, ended time.Time, exit string) Summary {
	record := Record{JobID: id.JobID, Cluster: id.Cluster, Node: id.Node, Run: run}
	return Summary{Key: id.longKey(), Record: record, Ended: ended.Unix(), ExitCode: exit, Unreleased: true}
}

// summariesIn are the summaries of a folder, which is private unless the site made it.
func summariesIn(dir string, mode fs.FileMode) document.Store[Summary] {
	return document.Store[Summary]{Dir: dir, Kind: summaryKind, Mode: mode, Most: maxSummary, OneLine: true}
}

// endings are the endings of runs, without marks or marks alone: a hook looks at no other endings, which pile up
// if no agent runs.
func (d Dir) endings(marks bool) document.Store[Summary] {
	folder := endedFolder
	if marks {
		folder = markFolder
	}
	return summariesIn(filepath.Join(string(d), folder), document.Private)
}

func (d Dir) summaries() document.Store[Summary] {
	return summariesIn(d.SummaryDir(), document.Private)
}

// uncopied are the summaries that wait for their copy in the site's directory.
func (d Dir) uncopied() document.Store[Summary] {
	return summariesIn(filepath.Join(string(d), copyFolder), document.Private)
}

// End leaves the ending of a run, before the run's record is removed. A mark needs no lock.
func (d Dir) End(s Summary) error { return writeSummary(d.endings(s.Unreleased), s) }

// Endings reads the endings that no agent has made a summary of. The error names each file that
// cannot be read.
func (d Dir) Endings() ([]Summary, error) { return readSummaries(d.endings(false)) }

// Marks reads the endings of runs whose GPUs are still to be released.
func (d Dir) Marks() ([]Summary, error) { return readSummaries(d.endings(true)) }

// RemoveEnding removes an ending or a mark that was read.
func (d Dir) RemoveEnding(s Summary) error { return d.endings(s.Unreleased).Remove(s.fileKey()) }

// PruneEndings removes the oldest endings if there are too many: no agent runs on this node.
func (d Dir) PruneEndings() error {
	_, err := prune(d.endings(false))
	return err
}

// WriteSummary writes a summary into the run directory. A summary of the same run stays:
// its writer knew more, and was killed before it had removed the record.
func WriteSummary(d Dir, s Summary) error { return writeSummary(d.summaries(), s) }

// QueueCopy keeps a summary for CopySummaries.
func QueueCopy(d Dir, s Summary) error { return writeSummary(d.uncopied(), s) }

// CopySummaries copies the summaries that wait to the site's directory, and removes the copies of
// summaries that PruneSummaries has removed. It may not return if the directory is a share that hangs.
func (d Dir) CopySummaries(siteDir string, pruned []string) error {
	for _, key := range pruned {
		_ = summariesIn(siteDir, document.Public).Remove(key) // the site may have taken it
	}
	waiting, failed := readSummaries(d.uncopied())
	for i := range waiting {
		err := CopySummary(siteDir, waiting[i])
		if err == nil {
			err = d.uncopied().Remove(waiting[i].fileKey())
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// CopySummary writes a summary into the site's own directory, whose rights are the site's.
func CopySummary(dir string, s Summary) error {
	return writeSummary(summariesIn(dir, document.Public), s)
}

func writeSummary(to document.Store[Summary], s Summary) error {
	s.Record.leaveOut()
	s.Record.Head = document.HeadOf(recordKind)
	s.Use = s.Use.ended()
	key := s.fileKey()
	if old, _, err := to.Get(key); err == nil && old.Key == s.Key && old.Record.Run == s.Record.Run {
		return nil
	}
	return to.Put(key, s)
}

// Check refuses the summary of another job, and one with another document as its record.
func (s *Summary) Check(string) error {
	if s.Record.Kind != recordKind {
		return fmt.Errorf("record of kind %.80q: want %q", s.Record.Kind, recordKind)
	}
	return s.Record.Check(s.Key)
}

// ReadSummaries reads the summaries of a directory, the oldest first. The error names each
// file that cannot be read. A missing directory has no summaries.
func ReadSummaries(dir string) ([]Summary, error) {
	return readSummaries(summariesIn(dir, document.Public))
}

func readSummaries(from document.Store[Summary]) (all []Summary, failed error) {
	keys, failed := from.Keys()
	for _, key := range keys {
		s, _, err := from.Find(key) // nil if it was pruned just now
		if failed = errors.Join(failed, err); s != nil {
			all = append(all, *s)
		}
	}
	slices.SortStableFunc(all, func(a, b Summary) int { return cmp.Compare(a.Ended, b.Ended) })
	return all, failed
}

// The summaries of a node are bounded in number and in bytes; the oldest go first.
const (
	MaxSummaries    = 1000
	MaxSummaryBytes = 8 << 20
	// maxSummary bounds one summary, in bytes.
	maxSummary = 64 << 10
	// pruneEvery is the number of new summaries between two looks for old ones. A look
	// takes milliseconds, and makes room for as many summaries.
	pruneEvery = 16
)

// PruneSummaries is called after each new summary. If there are more summaries than the bounds allow, it removes the
// oldest, including summaries that wait for their copy. It returns the keys of summaries whose copies have to go too,
// the oldest first.
func (d Dir) PruneSummaries() (removed []string, failed error) {
	_, uncopied := prune(d.uncopied())
	removed, err := prune(d.summaries())
	return removed, errors.Join(err, uncopied)
}

// prune returns the keys of the removed files, the oldest first.
func prune(from document.Store[Summary]) (removed []string, failed error) {
	keys, err := from.Keys()
	if err != nil || len(keys) <= MaxSummaries && len(keys)%pruneEvery != 0 {
		return nil, err
	}
	files, failed := statSummaries(from.Dir, keys)
	slices.SortFunc(files, lastFirst)
	var bytes int64
	for i, info := range files {
		bytes += info.Size()
		if i < MaxSummaries-pruneEvery && bytes <= MaxSummaryBytes-pruneEvery*maxSummary {
			continue
		}
		key := strings.TrimSuffix(info.Name(), ".json")
		if err := from.Remove(key); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		removed = append(removed, key)
	}
	slices.Reverse(removed)
	return removed, failed
}

func statSummaries(dir string, keys []string) (files []fs.FileInfo, failed error) {
	for _, key := range keys {
		info, err := os.Lstat(filepath.Join(dir, key+".json"))
		if err == nil {
			files = append(files, info)
		} else if !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("prune job summaries: %w", err))
		}
	}
	return files, failed
}

// lastFirst orders summaries by the time of writing, which is the end of the job: a
// long job is not old because it started early.
func lastFirst(a, b fs.FileInfo) int {
	return cmp.Or(b.ModTime().Compare(a.ModTime()), strings.Compare(b.Name(), a.Name()))
}
