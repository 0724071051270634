package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/sites"
)

// largeSite is 10,008 nodes in 556 racks.
const largeSite = `
name: large
groups:
  - racks: 556
    nodes: 18
    node: gb200-{node:05}
    nvlink: rack
    gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144, nvlinks: 18}
`

// BenchmarkRenderOnce is the whole one-shot command as a process: 10,008 nodes of
// kubectl's JSON in, files out.
func BenchmarkRenderOnce(b *testing.B) {
	quoin := programs.QuoinTest(b)
	path := filepath.Join(b.TempDir(), "nodes.json")
	data, err := sites.KubectlJSON(sites.Parse(b, largeSite))
	if err := errors.Join(err, os.WriteFile(path, data, 0o600)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), quoin, "render", "--nodes", path, "--dir", b.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	cmd := exec.CommandContext(b.Context(), quoin, "render", "--nodes", path, "--dir", b.TempDir())
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	kib := process.Peak(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(data))/1e6, "MB-in")
	b.ReportMetric(float64(kib)*1024/1e6, "MB-resident")
}
