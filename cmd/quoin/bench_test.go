package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// largeSite is 10,008 nodes in 556 racks.
func largeSite(b testing.TB) *simulated.Cluster {
	b.Helper()
	return sites.Parse(b, `
name: large
groups:
  - racks: 556
    nodes: 18
    node: gb200-{node:05}
    nvlink: rack
    gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144, nvlinks: 18}
`)
}

// kubectlJSON is what kubectl prints of the site's nodes.
func kubectlJSON(b testing.TB, c *simulated.Cluster) []byte {
	b.Helper()
	data, err := sites.KubectlJSON(c)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// BenchmarkRenderOnce is the whole one-shot command as a process: 10,008 nodes of
// kubectl's JSON in, files out.
func BenchmarkRenderOnce(b *testing.B) {
	quoin := programs.QuoinTest(b)
	data := kubectlJSON(b, largeSite(b))
	path := filepath.Join(b.TempDir(), "nodes.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
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

// BenchmarkReadNodes is the reading of kubectl's JSON alone, as quoin render reads it.
func BenchmarkReadNodes(b *testing.B) {
	data := kubectlJSON(b, largeSite(b))
	auto := nodelabels.Keys{Domains: []string{nodelabels.Auto}, Tiers: []string{nodelabels.Auto}}
	rules := inputs.NewRules(inputs.Config{SlurmNames: "short", Labels: auto}, func(key, message string) { b.Fatal(key, message) })
	reader := inputs.ListReader{Keep: inputs.KeysOf(&rules)}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reader.Read("nodes", bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}
