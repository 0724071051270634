package rundir

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/document"
	"github.com/quoin-hpc/quoin/topology"
)

// Record is what a Prolog leaves of a job, and its Epilog removes.
//
// It has many fields, and all at one level, because it is a file: tools of sites read
// it, and a hook and an agent of two releases exchange it during an upgrade.
type Record struct {
	document.Head
	JobID string `json:"jobID"`
	Run
	// BootID is the node's boot that the job runs in.
	BootID    string `json:"bootID,omitempty"`
	User      string `json:"user,omitempty"`
	UID       string `json:"uid,omitempty"`
	Partition string `json:"partition,omitempty"`
	Account   string `json:"account,omitempty"`
	QOS       string `json:"qos,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
	// Node is slurmd's name. NodeList and NumNodes are of the job.
	Node     string `json:"node,omitempty"`
	NodeList string `json:"nodeList,omitempty" max:"16384"`
	NumNodes string `json:"numNodes,omitempty"`
	// EndTime is the planned end in seconds since 1970.
	EndTime string `json:"endTime,omitempty"`
	// GPUs are the exporter's ids of the job's GPUs. UUIDs has the known ones.
	GPUs  []string `json:"gpus" max:"1024"`
	UUIDs []string `json:"uuids,omitempty" max:"1024"`
	// Leaving are the exporter's ids of an earlier run whose Epilog was lost. They are
	// released with this run.
	Leaving []string `json:"leaving,omitempty" max:"1024"`
	// Indices and Visible are what Slurm said: places in slurmd's list, and the UUIDs of
	// CUDA_VISIBLE_DEVICES. Devices are the device files of these places; they are absent
	// beside UUIDs, and if the list is not known. Unresolved says that GPUs is a guess, or
	// lacks some: the inventory of this boot was missing or incomplete, or the list is not
	// known.
	Indices    string   `json:"indices,omitempty" max:"16384"`
	Visible    string   `json:"visible,omitempty" max:"16384"`
	Devices    []string `json:"devices,omitempty" max:"1024"`
	Unresolved bool     `json:"unresolved,omitempty"`
	// Warnings are what was wrong with the job's GPUs or the node when the job began,
	// MaxWarnings of them at most.
	Warnings []string `json:"warnings,omitempty" max:"16" each:"1024"`
	// Written is the time of the file.
	Written time.Time `json:"-"`
}

const (
	recordKind = "JobRecord"
	// MaxDevices is how many devices an inventory has and a job holds, and MaxWarnings how many
	// warnings the record of a job has. The tags of the fields say the same.
	MaxDevices  = 1024
	MaxWarnings = 16
)

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

// JobOfKey returns the job id in a key of a record.
func JobOfKey(key string) string {
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

// Records is the folder of the records.
func (d Dir) Records() string { return filepath.Join(string(d), jobsFolder) }

func (d Dir) records() document.Store[Record] {
	return document.Store[Record]{Dir: d.Records(), Kind: recordKind, Mode: document.Private}
}

// WriteRecord writes a record under a key of FindRecord.
func (d Dir) WriteRecord(key string, r Record) error {
	r.leaveOut()
	return d.records().Put(key, r)
}

// RewriteRecord writes a record as WriteRecord does, and keeps the time of the one
// that was there.
func (d Dir) RewriteRecord(key string, r Record) error {
	if err := d.WriteRecord(key, r); err != nil {
		return err
	}
	if err := os.Chtimes(filepath.Join(d.Records(), key+".json"), time.Time{}, r.Written); err != nil {
		return fmt.Errorf("rewrite job record: %w", err)
	}
	return nil
}

// ReadRecord reads the record of a key in any version; nil without an error when there is
// none. An older record says less.
func (d Dir) ReadRecord(key string) (*Record, error) {
	r, written, err := d.records().Find(key)
	if r != nil {
		r.Written = written
	}
	return r, err
}

// RemoveRecord removes a record, which may be missing.
func (d Dir) RemoveRecord(key string) error { return d.records().Remove(key) }

// ReadRecords reads all records by key. The errors are by key too; an error of the
// folder has the empty key. A missing folder has no records.
func (d Dir) ReadRecords() (map[string]Record, map[string]error) {
	records, failed := make(map[string]Record), make(map[string]error)
	keys, err := d.records().Keys()
	if err != nil {
		failed[""] = err
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

// leaveOut empties what is too long, and leaves out what is no UUID.
func (r *Record) leaveOut() {
	r.UUIDs = slices.DeleteFunc(slices.Clone(r.UUIDs), isNoUUID)
	topology.LeaveOut(r)
}

func isNoUUID(s string) bool { return !topology.IsDeviceUUID(s) }

// Check refuses a record that would have root write where no device is.
func (r *Record) Check(key string) error {
	if err := checkKey(key, r.JobID); err != nil {
		return err
	}
	for _, ids := range [][]string{r.GPUs, r.Leaving} {
		if i := slices.IndexFunc(ids, func(id string) bool { return !dcgm.IsExporterID(id) }); i >= 0 {
			return fmt.Errorf("exporter id %.80q of job %s: want a number, or two with a dot between", ids[i], r.JobID)
		}
	}
	if i := slices.IndexFunc(r.UUIDs, isNoUUID); i >= 0 {
		return fmt.Errorf("UUID %.80q of job %s: want GPU-… or MIG-…", r.UUIDs[i], r.JobID)
	}
	return nil
}

// checkKey refuses a key of another job.
func checkKey(key, job string) error {
	if JobOfKey(key) != job {
		return fmt.Errorf("key %.80q of job %.80q: want a key of the job", key, job)
	}
	return dcgm.CheckJobID(job)
}
