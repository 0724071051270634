package slurmctld

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// Job is what Slurm says of a job that holds nodes.
type Job struct {
	// ID is the job's own id. Array is such as 4711_3 for a task of an array, or "".
	ID, Array                           string
	Name, User, Account, QOS, Partition string
	// Cluster is slurm.conf's ClusterName.
	Cluster string
	// Nodes is a host list in Slurm's order. GPUs has such as gpu:gb200:4(IDX:0-3) for each of the
	// nodes, if details were asked for.
	Nodes string
	GPUs  []string
	// HoldsGPUs says that the answer names GPUs that the job has or has asked for. A job of whole nodes
	// may have GPUs without asking for them. An answer without details names them only if slurm.conf
	// has AccountingStorageTRES=gres/gpu.
	HoldsGPUs bool
	Start     time.Time
	// Segment is --segment, or 0. Spread is --spread-segments, which Slurm has had since 25.11.
	Segment int
	Spread  bool
}

// maxList is the most bytes of a job's host list.
const maxList = 1 << 20

var errLongList = errors.New("the host list is too long")

// jsonJob is the part of Slurm's job that is read. It is the same in the data parsers v0.0.43
// to v0.0.46, but for the words of flags.
type jsonJob struct {
	ID        int64    `json:"job_id"`
	ArrayID   number   `json:"array_job_id"`
	Task      number   `json:"array_task_id"`
	Name      string   `json:"name"`
	User      string   `json:"user_name"`
	Account   string   `json:"account"`
	QOS       string   `json:"qos"`
	Partition string   `json:"partition"`
	Cluster   string   `json:"cluster"`
	State     []string `json:"job_state"`
	Nodes     string   `json:"nodes"`
	GPUs      []string `json:"gres_detail"`
	Allocated string   `json:"tres_alloc_str"`
	PerJob    string   `json:"tres_per_job"`
	PerNode   string   `json:"tres_per_node"`
	PerSocket string   `json:"tres_per_socket"`
	PerTask   string   `json:"tres_per_task"`
	Start     number   `json:"start_time"`
	Segment   int      `json:"segment_size"`
	Flags     []string `json:"flags"`
}

// ReadJobs reads the jobs that hold nodes from slurmrestd's answer, or from the output of
// `scontrol --json show jobs`. It reads one job at a time.
func ReadJobs(in io.Reader) ([]Job, error) {
	jobs := []Job{}
	err := readList(in, "job", func(j *jsonJob) (kept int, err error) {
		if len(j.Nodes) > maxList {
			return 0, fmt.Errorf("job %d: %w", j.ID, errLongList)
		}
		if j.Nodes != "" && (slices.Contains(j.State, "RUNNING") || slices.Contains(j.State, "COMPLETING")) {
			job := j.job()
			jobs, kept = append(jobs, job), jobBytes+len(job.Name+job.User+job.Account+job.QOS+job.Partition+job.Cluster+job.Nodes)
			for _, gpus := range job.GPUs {
				kept += textBytes + len(gpus)
			}
		}
		return kept, nil
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

// jobBytes is about what a job takes beside its texts, and textBytes what a text of a list does.
const jobBytes, textBytes = 512, 16

func (j *jsonJob) job() Job {
	cut := func(text string) string { return topology.Cut(text, topology.MaxText) }
	out := Job{ID: strconv.FormatInt(j.ID, 10), Name: cut(j.Name), User: cut(j.User), Account: cut(j.Account), QOS: cut(j.QOS), Partition: cut(j.Partition),
		Cluster: cut(j.Cluster), HoldsGPUs: j.holdsGPUs(), Nodes: strings.Clone(j.Nodes), Start: j.Start.time(), Segment: max(j.Segment, 0), Spread: slices.Contains(j.Flags, "SPREAD_SEGMENTS")}
	if j.ArrayID.Number > 0 && j.Task.Set {
		out.Array = fmt.Sprintf("%d_%d", j.ArrayID.Number, j.Task.Number)
	}
	for _, gpus := range j.GPUs[:min(len(j.GPUs), MaxThings)] {
		out.GPUs = append(out.GPUs, cut(gpus))
	}
	return out
}

func (j *jsonJob) holdsGPUs() bool {
	texts := append([]string{j.Allocated, j.PerJob, j.PerNode, j.PerSocket, j.PerTask}, j.GPUs...)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "gpu") })
}

// IsOf says whether an id names the job: its own id, that of its array, or array and task.
func (j *Job) IsOf(id string) bool {
	array, _, _ := strings.Cut(j.Array, "_")
	return id != "" && (id == j.ID || id == j.Array || id == array)
}

// ReadPartitions reads the topology that each partition names, or "".
func ReadPartitions(in io.Reader) (map[string]string, error) {
	partitions := map[string]string{}
	type jsonPartition struct {
		Name     string `json:"name"`
		Topology string `json:"topology"`
	}
	err := readList(in, "partition", func(p *jsonPartition) (int, error) {
		name, of := topology.Cut(p.Name, topology.MaxText), topology.Cut(p.Topology, topology.MaxText)
		partitions[name] = of
		return nodeBytes + len(name+of), nil
	})
	if err != nil {
		return nil, err
	}
	return partitions, nil
}
