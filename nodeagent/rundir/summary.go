package rundir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/topology"
)

// Summary is what is kept of an ended run of a job on this node. Whoever ends the run, which
// is mostly its Epilog, leaves the run's ending: a summary without a use. The agent takes the
// last sample, and makes the summary of the ending.
type Summary struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
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
	// markSuffix ends the name of a mark, so that a hook finds the marks among many endings.
	markSuffix = ".mark.json"
	// maxFileName is the longest name that a file can have, in bytes.
	maxFileName = 255
)

// SummaryDir is the run directory's spool of summaries.
func (d Dir) SummaryDir() string { return filepath.Join(string(d), summaryFolder) }

// Name is the name of the summary's file, which no other run and no other node has. A
// job can run twice within a second; then its SLUIDs differ.
func (s *Summary) Name() string {
	start := s.Record.StartTime
	if start == "" || !isPlainPart(start) || len(start) > 20 {
		start = "0"
	}
	name := start + "-" + s.Key + "-" + keyPart(s.Record.Node)
	if run := keyPart(s.Record.SLUID); run != "" && len(name)+len(run) < maxFileName-len("-.json") {
		name += "-" + run
	}
	if s.Unreleased {
		return name + markSuffix
	}
	return name + ".json"
}

// MarkOf is the mark of a run that ended at a time with an exit code, which may be empty.
func MarkOf(id JobIdentity, run Run, ended time.Time, exit string) Summary {
	record := Record{JobID: id.JobID, Cluster: id.Cluster, Node: id.Node, Run: run}
	return Summary{Key: id.longKey(), Record: record, Ended: ended.Unix(), ExitCode: exit, Unreleased: true}
}

func (d Dir) endedDir() string { return filepath.Join(string(d), endedFolder) }

// End leaves the ending of a run, before the run's record is removed. A mark needs no lock.
func (d Dir) End(s Summary) error { return writeSummary(d.endedDir(), s, privateFile, privateDir) }

// Endings reads the endings that no agent has made a summary of. The error names each file that
// cannot be read.
func (d Dir) Endings() ([]Summary, error) { return readSummaries(d.endedDir(), isEnding) }

// Marks reads the endings of runs whose GPUs are still to be released.
func (d Dir) Marks() ([]Summary, error) { return readSummaries(d.endedDir(), isMark) }

func isMark(name string) bool { return isSummary(name) && strings.HasSuffix(name, markSuffix) }

func isEnding(name string) bool { return isSummary(name) && !strings.HasSuffix(name, markSuffix) }

// RemoveEnding removes an ending or a mark that was read.
func (d Dir) RemoveEnding(s Summary) error {
	if err := d.folder(endedFolder).check(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(d.endedDir(), s.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the ending of a job: %w", err)
	}
	return nil
}

// PruneEndings removes the oldest endings if there are too many: no agent runs on this node.
func (d Dir) PruneEndings() error {
	if err := d.folder(endedFolder).check(); err != nil {
		return err
	}
	_, err := prune(d.endedDir())
	return err
}

// WriteSummary writes a summary into the run directory. A summary of the same run stays:
// its writer knew more, and was killed before it had removed the record.
func WriteSummary(d Dir, s Summary) error {
	return writeSummary(d.SummaryDir(), s, privateFile, privateDir)
}

// CopySummary does the same in the site's own directory, whose rights are the site's.
func CopySummary(dir string, s Summary) error { return writeSummary(dir, s, 0o644, 0o755) }

func writeSummary(dir string, s Summary, file, folder fs.FileMode) error {
	s.Record.leaveOut()
	if err := s.Record.check(); err != nil {
		return fmt.Errorf("write job summary: %w", err)
	}
	if JobOfKey(s.Key) != s.Record.JobID || !isKey(s.Key) {
		return fmt.Errorf("write job summary: key %.80q: want one of job %s", s.Key, s.Record.JobID)
	}
	s.APIVersion, s.Kind = topology.APIVersion, summaryKind
	s.Record.APIVersion, s.Record.Kind = topology.APIVersion, recordKind
	s.Use = s.Use.ended()
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write job summary: %w", err)
	}
	if len(data) >= maxSummary {
		return fmt.Errorf("write job summary: %d bytes, want less than %d", len(data), maxSummary)
	}
	if err := makeFolder(dir, folder); err != nil {
		return fmt.Errorf("write job summary: %w", err)
	}
	path := filepath.Join(dir, s.Name())
	if was, err := readSummary(path); err == nil && was.Key == s.Key && was.Record.Run == s.Record.Run {
		return nil
	}
	return atomicfile.WriteMode(path, append(data, '\n'), file)
}

// ReadSummaries reads the summaries of a directory, the oldest first. The error names each
// file that cannot be read. A missing directory has no summaries.
func ReadSummaries(dir string) ([]Summary, error) { return readSummaries(dir, isSummary) }

func readSummaries(dir string, is func(name string) bool) ([]Summary, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read job summaries: %w", err)
	}
	var all []Summary
	var failed error
	for _, e := range entries {
		if !is(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		s, err := readSummary(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned just now
		} else if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", path, err))
			continue
		}
		all = append(all, *s)
	}
	slices.SortStableFunc(all, func(a, b Summary) int { return cmp.Compare(a.Ended, b.Ended) })
	return all, failed
}

func readSummary(path string) (*Summary, error) {
	data, err := atomicfile.Read(path)
	if err != nil {
		return nil, err
	}
	return parseSummary(data)
}

func parseSummary(data []byte) (*Summary, error) {
	var s Summary
	if err := decode(data, summaryKind, &s); err != nil {
		return nil, err
	}
	if s.Record.Kind != recordKind || JobOfKey(s.Key) != s.Record.JobID {
		return nil, fmt.Errorf("record of kind %.80q, key %.80q of job %.80q: want %q and the job's key", s.Record.Kind, s.Key, s.Record.JobID, recordKind)
	}
	if err := s.Record.check(); err != nil {
		return nil, err
	}
	return &s, nil
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

// PruneSummaries is called after each new summary. It removes the oldest of a run
// directory that are over the bounds, and their copies in the site's directory,
// which may be empty for none.
func (d Dir) PruneSummaries(siteDir string) error {
	dir := d.SummaryDir()
	if err := d.folder(summaryFolder).check(); err != nil {
		return err
	}
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
