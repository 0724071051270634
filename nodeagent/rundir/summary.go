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

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/topology"
)

// Summary is what is kept of an ended job on this node.
type Summary struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Key is the record's.
	Key    string `json:"key"`
	Record Record `json:"record"`
	// Use is nil if no agent took a sample.
	Use *Use `json:"use,omitempty"`
	// Ended is in seconds since 1970.
	Ended int64 `json:"ended"`
	// ExitCode is code:signal, empty if Slurm did not say it.
	ExitCode string `json:"exitCode,omitempty"`
}

const (
	summaryKind   = "JobSummary"
	summaryFolder = "summaries"
	// maxFileName is the longest name that a file can have, in bytes.
	maxFileName = 255
)

// SummaryDir is the run directory's spool of summaries.
func (d Dir) SummaryDir() string { return filepath.Join(string(d), summaryFolder) }

// Name is the name of the summary's file, which no other run and no other node has. A
// job can run twice within a second; then its SLUIDs differ.
func (s *Summary) Name() string {
	start := s.Record.StartTime
	if !isPlainPart(start) || len(start) > 20 {
		start = "0"
	}
	name := start + "-" + s.Key + "-" + keyPart(s.Record.Node)
	if run := keyPart(s.Record.SLUID); run != "" && len(name)+len(run) < maxFileName-len("-.json") {
		name += "-" + run
	}
	return name + ".json"
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

// AmendSummary puts into the summary of a run, if it is there, the Xids of its GPUs up to a
// sample that came after the run's end. dir is the run directory's, or the
// site's own.
func AmendSummary(dir string, key string, record *Record, u *Use) error {
	s := Summary{Key: key, Record: *record}
	path := filepath.Join(dir, s.Name())
	old, err := readSummary(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody has taken it
	} else if err != nil {
		return fmt.Errorf("amend job summary: %w", err)
	}
	if old.Key != key || old.Record.Run != record.Run || old.Use == nil {
		return nil
	}
	old.Use.amend(u)
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("amend job summary: %w", err)
	}
	data, err := json.Marshal(old)
	if err != nil {
		return fmt.Errorf("amend job summary: %w", err)
	}
	if len(data) >= maxSummary {
		return fmt.Errorf("amend job summary: %d bytes, want less than %d", len(data), maxSummary)
	}
	return atomicfile.WriteMode(path, append(data, '\n'), info.Mode().Perm())
}

// ReadSummaries reads the summaries of a directory, the oldest first. The error names each
// file that cannot be read. A missing directory has no summaries.
func ReadSummaries(dir string) ([]Summary, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read job summaries: %w", err)
	}
	var all []Summary
	var failed error
	for _, e := range entries {
		if !isSummary(e.Name()) {
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
