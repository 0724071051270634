package dcgm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Record is what a Prolog leaves of a job, and its Epilog removes.
type Record struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	JobID      string `json:"jobID"`
	Run
	User      string `json:"user,omitempty"`
	Partition string `json:"partition,omitempty"`
	Account   string `json:"account,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
	Node      string `json:"node,omitempty"`
	// GPUs are the exporter's ids that the job holds, UUIDs their identities
	// where they are known.
	GPUs  []string `json:"gpus"`
	UUIDs []string `json:"uuids,omitempty"`
	// MappingDir is where the ids were written.
	MappingDir string `json:"mappingDir"`
}

// Run tells two runs of one job apart. SLURM_RESTART_COUNT would not: a requeued
// job's first Epilog already says 1.
type Run struct {
	// SLUID is Slurm's from 26.05; StartTime is in seconds since 1970.
	SLUID     string `json:"sluid,omitempty"`
	StartTime string `json:"startTime,omitempty"`
}

// After says whether r is a later run than other; not when it cannot be told,
// but that two SLUIDs differ without a time to compare.
func (r Run) After(other Run) bool {
	differ := r.SLUID != "" && other.SLUID != "" && r.SLUID != other.SLUID
	if r.SLUID != "" && r.SLUID == other.SLUID {
		return false
	}
	a, err1 := strconv.ParseInt(r.StartTime, 10, 64)
	b, err2 := strconv.ParseInt(other.StartTime, 10, 64)
	if err1 != nil || err2 != nil || a == b {
		return differ
	}
	return a > b
}

func (r Run) String() string {
	if r.SLUID != "" {
		return r.SLUID
	}
	return r.StartTime
}

const recordKind = "JobRecord"

// WriteRecord writes the job's record by rename.
func WriteRecord(runDir string, r Record) error { return r.write(runDir, jobsFolder) }

// ReadRecord reads a job's record; nil without an error when there is none.
func ReadRecord(runDir, job string) (*Record, error) { return readRecord(runDir, jobsFolder, job) }

// RemoveRecord removes a job's record, which may be missing.
func RemoveRecord(runDir, job string) error { return removeRecord(runDir, jobsFolder, job) }

// WriteRelease leaves a mark, without the lock, that a run has ended but could
// not be released. Whoever has the lock next makes up for it.
func WriteRelease(runDir, job string, run Run, mappingDir string) error {
	return Record{JobID: job, Run: run, MappingDir: mappingDir}.write(runDir, releaseFolder)
}

// ReadReleases reads the marks of runs that are still to be released.
func ReadReleases(runDir string) ([]Record, error) {
	entries, err := os.ReadDir(filepath.Join(runDir, releaseFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read marks of ended jobs: %w", err)
	}
	var marks []Record
	var failed error
	for _, e := range entries {
		job, is := strings.CutSuffix(e.Name(), ".json")
		if !is {
			continue
		}
		if r, err := readRecord(runDir, releaseFolder, job); err != nil {
			failed = errors.Join(failed, err)
		} else if r != nil {
			marks = append(marks, *r)
		}
	}
	return marks, failed
}

// RemoveRelease removes a mark.
func RemoveRelease(runDir, job string) error { return removeRecord(runDir, releaseFolder, job) }

// Tidy removes what killed writers have left in a run directory.
func Tidy(runDir string) {
	tidy(filepath.Join(runDir, jobsFolder))
	tidy(filepath.Join(runDir, releaseFolder))
}

func (r Record) write(runDir, folder string) error {
	if err := CheckJobID(r.JobID); err != nil {
		return err
	}
	r.APIVersion, r.Kind = APIVersion, recordKind
	return writeJSON(runDir, filepath.Join(folder, r.JobID+".json"), r)
}

func readRecord(runDir, folder, job string) (*Record, error) {
	if err := CheckJobID(job); err != nil {
		return nil, err
	}
	path := filepath.Join(runDir, folder, job+".json")
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read job record: %w", err)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.APIVersion != APIVersion || r.Kind != recordKind || r.JobID != job {
		return nil, fmt.Errorf("%s: apiVersion %q, kind %q, job %q: want %q, %q, %q", path, r.APIVersion, r.Kind, r.JobID, APIVersion, recordKind, job)
	}
	return &r, nil
}

func removeRecord(runDir, folder, job string) error {
	if err := os.Remove(filepath.Join(runDir, folder, job+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove job record: %w", err)
	}
	return nil
}

// maxGPUs bounds what a list of indices can ask for.
const maxGPUs = 4096

// Resolve returns the exporter's ids, and the UUIDs where they are known, of a
// job's GPUs. GPU- and MIG- tokens of visible (CUDA_VISIBLE_DEVICES) are exact
// and preferred; indices (SLURM_JOB_GPUS) count in the order of GRES. Without an
// inventory an index is taken as the exporter's id. What could not be resolved
// is said in the error, beside what could.
func Resolve(inv *Inventory, indices, visible string) (gpus, uuids []string, err error) {
	tokens := splitTokens(visible)
	if len(tokens) == 0 || !isUUID(tokens[0]) {
		return resolveIndices(inv, indices)
	}
	if inv == nil {
		mig := slices.ContainsFunc(tokens, func(t string) bool { return strings.HasPrefix(t, "MIG-") })
		if gpus, uuids, err := resolveIndices(nil, indices); len(gpus) > 0 && !mig {
			return gpus, uuids, err
		}
		return nil, tokens, fmt.Errorf("no inventory: %s cannot be told apart from others", strings.Join(tokens, ","))
	}
	for _, t := range tokens {
		e := inv.byUUID(t)
		if e == nil { // the index would name a GPU that is not the job's
			err = errors.Join(err, fmt.Errorf("the inventory has no %s", t))
			continue
		}
		if e.ExporterID == "" {
			err = errors.Join(err, fmt.Errorf("%s is lost: the exporter has no id for it", t))
			continue
		}
		gpus, uuids = append(gpus, e.ExporterID), append(uuids, e.UUID)
	}
	return gpus, uuids, err
}

func isUUID(token string) bool {
	return strings.HasPrefix(token, "GPU-") || strings.HasPrefix(token, "MIG-")
}

func splitTokens(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

func (inv *Inventory) byUUID(uuid string) *Entry {
	for i := range inv.Entries {
		if inv.Entries[i].UUID == uuid {
			return &inv.Entries[i]
		}
	}
	return nil
}

func resolveIndices(inv *Inventory, list string) (gpus, uuids []string, err error) {
	indices, err := parseIndices(list)
	if err != nil {
		return nil, nil, err
	}
	for _, i := range indices {
		switch {
		case inv == nil:
			gpus = append(gpus, strconv.Itoa(i))
		case i >= len(inv.Entries):
			err = errors.Join(err, fmt.Errorf("GRES index %d: the inventory has %d", i, len(inv.Entries)))
		case inv.Entries[i].ExporterID == "":
			err = errors.Join(err, fmt.Errorf("GRES index %d, %s, is lost: the exporter has no id for it", i, inv.Entries[i].UUID))
		default:
			gpus, uuids = append(gpus, inv.Entries[i].ExporterID), append(uuids, inv.Entries[i].UUID)
		}
	}
	return gpus, uuids, err
}

// parseIndices reads "0,2,4-7".
func parseIndices(list string) ([]int, error) {
	var out []int
	for _, t := range splitTokens(list) {
		from, to, ranged := strings.Cut(t, "-")
		if !ranged {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || b < a || len(out)+int(b-a) >= maxGPUs {
			return nil, fmt.Errorf("GPU indices %q: %q: want numbers such as 0,2 or 0-3", list, t)
		}
		for i := a; i <= b; i++ {
			out = append(out, int(i))
		}
	}
	return out, nil
}
