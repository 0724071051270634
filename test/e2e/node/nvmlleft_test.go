//go:build cgo

package node_test

import (
	"strings"
	"testing"
)

// TestNVMLProgramLeftByJob: a job ends and a program of it stays on a GPU. The memory is in a
// series while no job holds the GPU, the next Prolog says so, and the next job is not charged.
func TestNVMLProgramLeftByJob(t *testing.T) {
	t.Parallel()
	const gpu = "GPU-01000100-0000-0000-0000-000000000003"
	j := newNVMLJob(t)
	j.begin()
	j.m.Change("gpu 3", "processes 4999999", "used 75161927680")
	j.hook("epilog")
	j.until("the series of the memory", func() bool {
		return j.metric(`quoin_gpu_unowned_memory_bytes{GPU_I_ID="",UUID="`+gpu+`",gpu="3"}`) == 75161927680
	})
	j.id = "4712"
	if said := j.hook("prolog"); said != "quoin-hook: job 4712: warning: 70 GiB were in use before this job on GPU "+gpu+", by programs that no job holds; the job starts all the same\n" {
		t.Errorf("the next Prolog says %q", said)
	}
	j.until("the sentence of quoin job", func() bool {
		return strings.Contains(j.said(), "70 GiB were in use before this job on GPU 3 of n07, by programs that are not the job's.\n")
	})
}
