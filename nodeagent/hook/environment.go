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
	// confWait bounds how long slurm.conf, which may be on a shared file system,
	// is waited for.
	confWait = 100 * time.Millisecond
	// maxNodeList bounds what a record keeps of a job's nodes, in bytes.
	maxNodeList = 16 << 10
)

func (h *hook) identity() rundir.JobIdentity {
	return rundir.JobIdentity{JobID: h.env("SLURM_JOB_ID"), Cluster: h.env("SLURM_CLUSTER_NAME"), Node: h.env("SLURMD_NODENAME")}
}

// run is the run of the environment. Both are kept, for Slurm may be upgraded
// between a Prolog and its Epilog.
func (h *hook) run() rundir.Run {
	return rundir.Run{SLUID: h.env("SLURM_JOB_SLUID"), StartTime: h.env("SLURM_JOB_START_TIME")}
}

// newRecord is the record of the job of the environment.
func (h *hook) newRecord() *rundir.Record {
	contain := make(chan bool, 1)
	conf := h.env("SLURM_CONF")
	go func() { contain <- contained(conf) }()
	r := &rundir.Record{JobID: h.env("SLURM_JOB_ID"), Run: h.run(), BootID: rundir.BootID(),
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

// resolve tells which GPUs the job holds.
func (h *hook) resolve(r *rundir.Record) {
	inv, current, err := rundir.FindInventory(h.runDir, h.mappingOf(nil))
	if err != nil {
		stand := "GRES indices are taken as the exporter's ids"
		if inv != nil {
			stand = "the last one that is known stands for it"
		}
		if errors.Is(err, fs.ErrNotExist) {
			h.fail(rundir.CallInventory, "no inventory in %s: %s", h.runDir, stand)
		} else {
			h.fail(rundir.CallInventory, "%v; %s", err, stand)
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

// exitCode is the job's as code:signal; empty where Slurm did not say it.
func (h *hook) exitCode() string {
	if code, signal, ok := strings.Cut(h.env("SLURM_JOB_EXIT_CODE2"), ":"); ok && isByte(code) && isByte(signal) {
		return code + ":" + signal
	}
	status, err := strconv.ParseUint(h.env("SLURM_JOB_EXIT_CODE"), 10, 32) // as of waitpid
	if err != nil {
		return ""
	}
	return strconv.FormatUint(status>>8&0xff, 10) + ":" + strconv.FormatUint(status&0x7f, 10)
}

// endTime is when the job has ended, which an Epilog may be told late.
func (h *hook) endTime() time.Time {
	now := time.Now()
	seconds, err := strconv.ParseInt(h.env("SLURM_JOB_END_TIME"), 10, 64)
	start := h.run().Started()
	if at := time.Unix(seconds, 0); err == nil && !start.IsZero() && !at.Before(start) && at.Before(now) {
		return at
	}
	return now
}

func isByte(s string) bool {
	_, err := strconv.ParseUint(s, 10, 8)
	return err == nil
}
