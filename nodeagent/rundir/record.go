package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/topology"
)

// Record is what a Prolog leaves of a job, and its Epilog removes.
//
// It has many fields, and all at one level, because it is a file: tools of sites read
// it, and a hook and an agent of two releases exchange it during an upgrade.
type Record struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	JobID      string `json:"jobID"`
	Run
	// BootID is the node's boot that the job runs in.
	BootID    string `json:"bootID,omitempty"`
	User      string `json:"user,omitempty"`
	UID       string `json:"uid,omitempty"`
	Partition string `json:"partition,omitempty"`
	Account   string `json:"account,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
	// Node is slurmd's name. NodeList and NumNodes are of the job.
	Node     string `json:"node,omitempty"`
	NodeList string `json:"nodeList,omitempty"`
	NumNodes string `json:"numNodes,omitempty"`
	// EndTime is the planned end in seconds since 1970.
	EndTime string `json:"endTime,omitempty"`
	// Contain says that slurmd keeps an external step for each job.
	Contain bool `json:"contain,omitempty"`
	// ArrayJobID, ArrayTaskID and JobName are known if the hook may ask slurmctld.
	ArrayJobID  string `json:"arrayJobID,omitempty"`
	ArrayTaskID string `json:"arrayTaskID,omitempty"`
	JobName     string `json:"jobName,omitempty"`
	// GPUs are the exporter's ids of the job's GPUs. UUIDs are those that are known.
	GPUs  []string `json:"gpus"`
	UUIDs []string `json:"uuids,omitempty"`
	// Leaving are the exporter's ids of an earlier run whose Epilog was lost. They are
	// released with this run.
	Leaving []string `json:"leaving,omitempty"`
	// Indices and Visible are what Slurm said: GRES indices, and the UUIDs of
	// CUDA_VISIBLE_DEVICES. Unresolved says that GPUs is a guess: the inventory of this
	// boot was missing or incomplete.
	Indices    string `json:"indices,omitempty"`
	Visible    string `json:"visible,omitempty"`
	Unresolved bool   `json:"unresolved,omitempty"`
	// MappingDir is where the ids were written.
	MappingDir string `json:"mappingDir"`
	// Written is the time of the file.
	Written time.Time `json:"-"`
}

const recordKind = "JobRecord"

// JobIdentity tells jobs of one id apart, which may be of several clusters, or of
// several slurmds of one host. An empty field is unknown and equal to any other.
type JobIdentity struct{ JobID, Cluster, Node string }

// Identity returns whose the record is.
func (r *Record) Identity() JobIdentity { return JobIdentity{r.JobID, r.Cluster, r.Node} }

// Same says whether two identities can be of one job.
func (j JobIdentity) Same(other JobIdentity) bool {
	same := func(a, b string) bool { return a == b || a == "" || b == "" }
	return j.JobID == other.JobID && same(j.Cluster, other.Cluster) && same(j.Node, other.Node)
}

// longKey is the record's key beside another job of the same id.
func (j JobIdentity) longKey() string {
	return j.JobID + "@" + keyPart(j.Cluster) + "@" + keyPart(j.Node)
}

// isPlainPart says whether a name can be part of a file's name as it is.
func isPlainPart(s string) bool { return dcgm.ConsistsOf(s, 0, 32, "_.-") }

// keyPart makes a name part of a file's name: at most 32 characters, and different
// for each name.
func keyPart(name string) string {
	if isPlainPart(name) {
		return name
	}
	readable := strings.Map(func(r rune) rune {
		if r < 0x80 && isPlainPart(string(r)) {
			return r
		}
		return '_'
	}, name)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name)) // never fails
	return fmt.Sprintf("%.15s+%016x", readable, sum.Sum64())
}

// jobOfKey returns the job id in a key.
func jobOfKey(key string) string {
	job, _, _ := strings.Cut(key, "@")
	return job
}

// FindRecord reads a job's record and returns its key. Without a record it returns
// nil, no error, and the key that a new record would have. A record that cannot be
// read counts as the job's own.
func (d Dir) FindRecord(id JobIdentity) (key string, r *Record, err error) {
	if err := dcgm.CheckJobID(id.JobID); err != nil {
		return "", nil, err
	}
	long := id.longKey()
	if r, err := d.ReadRecord(long); r != nil || err != nil {
		return long, r, err
	}
	r, err = d.ReadRecord(id.JobID)
	if r == nil || r.Identity().Same(id) {
		return id.JobID, r, err
	}
	return long, nil, nil
}

// WriteRecord writes a record by rename, under a key of FindRecord.
func (d Dir) WriteRecord(key string, r Record) error { return r.write(string(d), jobsFolder, key) }

// RewriteRecord writes a record as WriteRecord does, and keeps the time of the one
// that was there.
func (d Dir) RewriteRecord(key string, r Record) error {
	if err := d.WriteRecord(key, r); err != nil {
		return err
	}
	if err := os.Chtimes(filepath.Join(string(d), jobsFolder, key+".json"), time.Time{}, r.Written); err != nil {
		return fmt.Errorf("rewrite job record: %w", err)
	}
	return nil
}

// ReadRecord reads the record of a key; nil without an error when there is none.
func (d Dir) ReadRecord(key string) (*Record, error) { return readRecord(string(d), jobsFolder, key) }

// RemoveRecord removes a record, which may be missing.
func (d Dir) RemoveRecord(key string) error { return removeRecord(string(d), jobsFolder, key) }

// ReadRecords reads all records by key. The errors are by key too; an error of the
// folder has the empty key. A missing folder has no records.
func (d Dir) ReadRecords() (map[string]Record, map[string]error) {
	records, failed := make(map[string]Record), make(map[string]error)
	keys, err := recordKeys(string(d), jobsFolder)
	if err != nil {
		failed[""] = fmt.Errorf("read job records: %w", err)
	}
	for _, key := range keys {
		if r, err := d.ReadRecord(key); err != nil {
			failed[key] = err
		} else if r != nil {
			records[key] = *r
		}
	}
	return records, failed
}

func recordKeys(runDir, folder string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(runDir, folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var keys []string
	for _, e := range entries {
		if key, is := strings.CutSuffix(e.Name(), ".json"); is && !strings.HasPrefix(key, ".") {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Tidy removes files that killed writers left in a run directory.
func (d Dir) Tidy() {
	for _, folder := range []string{jobsFolder, releaseFolder, summaryFolder} {
		atomicfile.Tidy(filepath.Join(string(d), folder))
	}
}

func (r Record) write(runDir, folder, key string) error {
	if err := dcgm.CheckJobID(r.JobID); err != nil {
		return err
	}
	if jobOfKey(key) != r.JobID || strings.ContainsAny(key, "/\x00") {
		return fmt.Errorf("job record %q: want a key of job %s", key, r.JobID)
	}
	r.APIVersion, r.Kind = topology.APIVersion, recordKind
	return writeJSON(runDir, filepath.Join(folder, key+".json"), r)
}

func readRecord(runDir, folder, key string) (*Record, error) {
	if err := dcgm.CheckJobID(jobOfKey(key)); err != nil {
		return nil, err
	}
	path := filepath.Join(runDir, folder, key+".json")
	data, written, err := atomicfile.ReadTime(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read job record: %w", err)
	}
	r, err := parseRecord(data, jobOfKey(key))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.Written = written
	return r, nil
}

// parseRecord reads a record of any version. An older record says less. Unknown keys
// of a newer record are left out.
func parseRecord(data []byte, job string) (*Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	if r.APIVersion != topology.APIVersion || r.Kind != recordKind || r.JobID != job {
		return nil, fmt.Errorf("apiVersion %q, kind %q, job %q: want %q, %q, %q", r.APIVersion, r.Kind, r.JobID, topology.APIVersion, recordKind, job)
	}
	return &r, nil
}

func removeRecord(runDir, folder, key string) error {
	if err := os.Remove(filepath.Join(runDir, folder, key+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove job record: %w", err)
	}
	return nil
}
