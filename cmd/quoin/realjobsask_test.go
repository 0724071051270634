package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
)

// rigScontrol is where hooks and agents of a rig have scontrol.
const rigScontrol = "/opt/quoin/bin/scontrol"

// scontrol is Slurm's own, for a hook as it is and for an agent, which is not in
// the rig, by going there.
func (r *jobsRig) scontrol() string {
	return fmt.Sprintf(`#!/bin/bash
[ -e /rig/bin ] && exec /usr/bin/scontrol "$@"
exec /usr/bin/nsenter -t $(<%s) -m -u -i -n -p -- /usr/sbin/chroot %s /usr/bin/env SLURM_CONF=$SLURM_CONF SLURM_TIME_FORMAT=$SLURM_TIME_FORMAT /usr/bin/scontrol "$@"
`, r.path("pid"), r.release.Root())
}

// TestRealWithoutContain loses the Epilogs of jobs that leave no trace on their
// nodes, where Slurm keeps no external steps: agents that may ask Slurm release
// them within a minute, and those that live never.
func TestRealWithoutContain(t *testing.T) {
	t.Parallel()
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			r := startJobsRig(t, release, "Alloc")
			live := r.background("salloc", "-K", "-J", "lives", "-w", "n01", "--gres=gpu:1", "sleep", "300")
			ended := r.background("salloc", "-K", "-p", "lost", "-J", "ends", "-w", "n01", "--gres=gpu:2", "sleep", "300")
			r.until("two allocations without a step", func() bool { return len(r.named("lives")) == 1 && len(r.named("ends")) == 1 })
			lives, ends := r.named("lives")[0], r.named("ends")[0]
			batch := r.submit("-p", "lost", "-N", "2", "-w", "n02,n03", "--gres=gpu:1", "/etc/slurm/job.sh")
			r.until("all hold GPUs", func() bool { return r.held(lives) == 1 && r.held(ends) == 2 && r.held(batch) == 2 })
			began := time.Now()
			for time.Since(began) < 40*time.Second { // long enough for a question
				if r.held(lives) != 1 || r.held(ends) != 2 || r.held(batch) != 2 {
					t.Fatalf("after %s a job that lives has lost labels: %d, %d and %d are left of 1, 2 and 2", time.Since(began), r.held(lives), r.held(ends), r.held(batch))
				}
				time.Sleep(200 * time.Millisecond)
			}
			began = time.Now()
			cancelJobs(r, []string{ends, batch})
			ended()
			r.until("the ended are released", func() bool { return r.held(ends)+r.held(batch) == 0 })
			if took := time.Since(began); took > maxStale {
				t.Errorf("released after %s, want within %s", took, maxStale)
			} else {
				t.Logf("released %s after the end", took)
			}
			if r.held(lives) != 1 {
				t.Error("the one that lives has lost its label")
			}
			cancelJobs(r, []string{lives})
			live()
			unknown, err := dcgm.JobInfo{Command: r.path("bin/scontrol"), Timeout: dcgm.Duration(20 * time.Second)}.AskState(t.Context(), "99999", "/etc/slurm/slurm.conf")
			if err != nil || unknown != (dcgm.JobState{}) {
				t.Errorf("a job that Slurm does not know: %+v, %v", unknown, err)
			}
		})
	}
}
