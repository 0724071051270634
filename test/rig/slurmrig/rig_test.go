package slurmrig_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

func TestRealChecker(t *testing.T) {
	t.Parallel()
	const conf = "NodeName=n[1-4] NodeAddr=127.0.0.1 Port=[20001-20004]\nPartitionName=main Nodes=ALL\nTopologyPlugin=topology/block\n"
	for _, r := range slurmrig.Releases() {
		t.Run(r.Slurm, func(t *testing.T) {
			t.Parallel()
			c := slurmrig.NewCheckerTest(t, r)
			for topology, want := range map[string]bool{
				"BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2\n": false,
				"BlockName=b1 Nodes=n[1-2]\nBlockName=b1 Nodes=n[3-4]\nBlockSizes=2\n": true,
			} {
				began := time.Now()
				fatal, lines, err := c.Check(t.Context(), map[string]string{"slurm.conf": conf, "topology.conf": topology})
				if err != nil || fatal != want {
					t.Errorf("fatal %t, want %t, error %v: %s", fatal, want, err, strings.Join(lines, "\n"))
				}
				t.Log(time.Since(began))
			}
			out, err := c.Run(t.Context(), "scontrol", "show", "hostnames", "n[1-3]")
			if err != nil || out != "n1\nn2\nn3\n" {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
}

// TestRealCancelled ends a command and what it has started.
func TestRealCancelled(t *testing.T) {
	t.Parallel()
	c := slurmrig.NewCheckerTest(t, slurmrig.Slurm2605)
	runs := func() bool {
		_, err := c.Run(t.Context(), "sh", "-c", "kill -0 $(cat child)")
		return err == nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx, "sh", "-c", "sleep 1000 & echo $! >child; wait")
		ended <- err
	}()
	await.Until(t, "the command runs", runs)
	cancel()
	if err := <-ended; err == nil {
		t.Error("no error")
	}
	await.Until(t, "its child has ended", func() bool { return !runs() })
}
