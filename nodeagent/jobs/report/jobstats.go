package report

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// Jobstats of Princeton University keeps the use of a job in its AdminComment:
// these words, or the summary as JSON, compressed and in base64, after the mark.
const (
	// JobstatsMark begins each comment.
	JobstatsMark  = "JS1:"
	jobstatsShort = JobstatsMark + "Short"
	jobstatsNone  = JobstatsMark + "None"
)

// JobstatsSummary is that JSON. Jobstats prints what it finds without asking Slurm
// or Prometheus again.
type JobstatsSummary struct {
	Nodes map[string]JobstatsNode `json:"nodes"`
	// TotalTime is the run's in seconds.
	TotalTime int64 `json:"total_time"`
	GPUs      int   `json:"gpus"`
}

// JobstatsNode is a node's part. GPUs are named as the exporter names them.
// Jobstats divides by CPUs and reads both memories without a check. A total of 0 means
// to it that memory is not known; no time of CPUs means that their use is not known.
type JobstatsNode struct {
	CPUs           int                `json:"cpus"`
	TotalMemory    int64              `json:"total_memory"`
	UsedMemory     int64              `json:"used_memory"`
	GPUTotalMemory map[string]int64   `json:"gpu_total_memory,omitempty"` // bytes
	GPUUsedMemory  map[string]int64   `json:"gpu_used_memory,omitempty"`  // bytes, the most
	GPUUtilization map[string]float64 `json:"gpu_utilization,omitempty"`  // percent, the mean
}

// Jobstats returns the AdminComment that Jobstats reads, for the run of one job.
func Jobstats(id string, runs []Run, now time.Time) (string, error) {
	// The last task of an array has the array's id for its own.
	own := slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.job.JobID != id })
	if len(own) > 0 {
		runs = own
	}
	if len(runs) != 1 {
		return "", fmt.Errorf("job %s: %d jobs here, such as %s of cluster %q: an AdminComment is of one; give --cluster, or a task's own id", id, len(runs), runs[0].name(), runs[0].job.Cluster)
	}
	return jobstatsComment(&runs[0], now)
}

// shortRun is how long a run may be that ends before its first sample.
const shortRun = time.Minute

func jobstatsComment(r *Run, now time.Time) (string, error) {
	out := JobstatsSummary{Nodes: map[string]JobstatsNode{}, TotalTime: int64(r.elapsed(now).Seconds())}
	for i := range r.nodes {
		devices := r.nodes[i].devices()
		out.GPUs += len(devices)
		if node, sampled := jobstatsNode(devices); sampled {
			out.Nodes[cmp.Or(r.nodes[i].record.Node, "localhost")] = node
		}
	}
	switch {
	case len(out.Nodes) == 0 && r.elapsed(now) < shortRun:
		return jobstatsShort, nil
	case len(out.Nodes) == 0:
		return jobstatsNone, nil
	}
	data, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("make the AdminComment of job %s: %w", r.name(), err)
	}
	var packed bytes.Buffer // takes any write
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, _ = z.Write(data)
	_ = z.Close()
	return JobstatsMark + base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// jobstatsNode returns what Jobstats keeps of a node's devices, and whether one of them
// was sampled.
func jobstatsNode(devices []rundir.DeviceUse) (node JobstatsNode, sampled bool) {
	node = JobstatsNode{CPUs: 1, GPUTotalMemory: map[string]int64{}, GPUUsedMemory: map[string]int64{}, GPUUtilization: map[string]float64{}}
	for _, d := range devices {
		name := cmp.Or(d.ExporterID, d.UUID)
		if d.Samples == 0 || name == "" {
			continue
		}
		sampled = true
		if d.Utilization != nil {
			node.GPUUtilization[name] = math.Round(d.Utilization.Mean*1000) / 10
		}
		if d.Memory != nil && d.MemoryTotal > 0 && d.MemoryTotal < math.MaxInt64 {
			node.GPUTotalMemory[name] = int64(d.MemoryTotal)
			node.GPUUsedMemory[name] = int64(min(d.Memory.Max, float64(d.MemoryTotal)))
		}
	}
	return node, sampled
}
