package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/sites"
)

// largeRuns is how often the command runs. Its figure is the median.
const largeRuns = 5

// large measures the command that renders the files of a large site from kubectl's JSON, as a
// whole process.
func large(ctx context.Context, o options) ([]figure, error) {
	quoin, err := programs.Build(ctx, programs.Quoin)
	if err != nil {
		return nil, err
	}
	c, err := racksOf(o.manyRacks)
	if err != nil {
		return nil, err
	}
	data, err := sites.KubectlJSON(c)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(o.dir, "nodes.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return nil, err
	}
	var walls []time.Duration
	peak := 0
	for range largeRuns {
		cmd := exec.CommandContext(ctx, quoin, "render", "--nodes", path, "--dir", filepath.Join(o.dir, "files"))
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		kib := process.Peak(cmd.Process.Pid)
		if err := cmd.Wait(); err != nil {
			return nil, fmt.Errorf("quoin render of %d nodes: %w", o.manyRacks*rackNodes, err)
		}
		walls = append(walls, time.Since(began))
		peak = max(peak, kib)
	}
	what := fmt.Sprintf("quoin render of %d nodes (%d MB of kubectl's JSON), whole process: ", o.manyRacks*rackNodes, len(data)/1e6)
	return []figure{
		{what + "time", fmt.Sprintf("%.2f s", median(walls).Seconds())},
		{"  most memory resident", fmt.Sprintf("%d MiB", peak/1024)},
	}, nil
}

// median is the middle one.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
