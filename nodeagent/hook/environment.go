package hook

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

const (
	// confWait bounds the reading of slurm.conf, which may be on a shared file
	// system.
	confWait = 100 * time.Millisecond
	// maxNodeList bounds what a record keeps of a job's nodes, in bytes.
	maxNodeList = 16 << 10
)

// environment is what Slurm says of a job to its Prolog and Epilog.
type environment func(key string) string

func (env environment) identity() rundir.JobIdentity {
	return rundir.JobIdentity{JobID: env("SLURM_JOB_ID"), Cluster: env("SLURM_CLUSTER_NAME"), Node: env("SLURMD_NODENAME")}
}

// run names the run by SLUID and start time: Slurm may be upgraded between a Prolog
// and its Epilog.
func (env environment) run() rundir.Run {
	return rundir.Run{SLUID: env("SLURM_JOB_SLUID"), StartTime: env("SLURM_JOB_START_TIME")}
}

// hasGPUs says whether Slurm has given the job GPUs of this node.
func (env environment) hasGPUs() bool {
	return env("SLURM_JOB_GPUS") != "" || holdsUUID(env("CUDA_VISIBLE_DEVICES"))
}

// newRecord makes the record of the job.
func (h *job) newRecord() *rundir.Record {
	contain := make(chan bool, 1)
	conf := h.env("SLURM_CONF")
	go func() { contain <- contained(conf) }()
	r := &rundir.Record{JobID: h.env("SLURM_JOB_ID"), Run: h.env.run(), BootID: h.boot,
		User: h.env("SLURM_JOB_USER"), UID: h.env("SLURM_JOB_UID"), Partition: h.env("SLURM_JOB_PARTITION"), Account: h.env("SLURM_JOB_ACCOUNT"),
		Cluster: h.env("SLURM_CLUSTER_NAME"), Node: h.env("SLURMD_NODENAME"), NodeList: h.env("SLURM_JOB_NODELIST"), NumNodes: h.env("SLURM_JOB_NUM_NODES"),
		EndTime: h.env("SLURM_JOB_END_TIME"), Indices: h.env("SLURM_JOB_GPUS"), Visible: uuidsOf(h.env("CUDA_VISIBLE_DEVICES")), MappingDir: h.mapping}
	if len(r.NodeList) > maxNodeList {
		r.NodeList = ""
	}
	h.resolve(r)
	select {
	case r.Contain = <-contain:
	case <-time.After(confWait):
	}
	return r
}

// resolve finds out which GPUs the job holds.
func (h *job) resolve(r *rundir.Record) {
	inv, current, err := h.runDir.FindInventory(h.mappingOf(nil), h.boot)
	if err != nil {
		instead := "GRES indices are taken as the exporter's ids"
		if inv != nil {
			instead = "the last known inventory is used"
		}
		if errors.Is(err, fs.ErrNotExist) {
			h.fail(rundir.CallInventory, "no inventory in %s: %s", h.runDir, instead)
		} else {
			h.fail(rundir.CallInventory, "%v; %s", err, instead)
		}
	}
	r.GPUs, r.UUIDs, err = rundir.Resolve(inv, r.Indices, h.env("CUDA_VISIBLE_DEVICES"))
	r.Unresolved = !current || err != nil
	if err != nil {
		h.fail(rundir.CallEnvironment, "%v", err)
	}
	if r.GPUs == nil {
		r.GPUs = []string{}
	}
}

func holdsUUID(visible string) bool { return uuidsOf(visible) != "" }

// uuidsOf returns the UUIDs of CUDA_VISIBLE_DEVICES.
func uuidsOf(visible string) string {
	var uuids []string
	for token := range strings.SplitSeq(visible, ",") {
		if t := strings.TrimSpace(token); strings.HasPrefix(t, "GPU-") || strings.HasPrefix(t, "MIG-") {
			uuids = append(uuids, t)
		}
	}
	return strings.Join(uuids, ",")
}

// exitCode is the job's, as code:signal; empty if Slurm does not say it.
func (env environment) exitCode() string {
	if code, signal, ok := strings.Cut(env("SLURM_JOB_EXIT_CODE2"), ":"); ok && isByte(code) && isByte(signal) {
		return code + ":" + signal
	}
	status, err := strconv.ParseUint(env("SLURM_JOB_EXIT_CODE"), 10, 32) // as of waitpid
	if err != nil {
		return ""
	}
	return strconv.FormatUint(status>>8&0xff, 10) + ":" + strconv.FormatUint(status&0x7f, 10)
}

// endTime is when the job ended: an Epilog may run much later.
func (env environment) endTime() time.Time {
	now := time.Now()
	seconds, err := strconv.ParseInt(env("SLURM_JOB_END_TIME"), 10, 64)
	start := env.run().Started()
	if at := time.Unix(seconds, 0); err == nil && !start.IsZero() && !at.Before(start) && at.Before(now) {
		return at
	}
	return now
}

func isByte(s string) bool {
	_, err := strconv.ParseUint(s, 10, 8)
	return err == nil
}
