package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// placedNode is a node by its labels: its NVLink domain, and the switches above it.
type placedNode struct {
	name, domain string
	tiers        []string
}

// kubeNodes are nodes as kubectl prints them. Those called c have no GPUs.
func kubeNodes(t *testing.T, nodes []placedNode) string {
	t.Helper()
	var items []map[string]any
	for _, n := range nodes {
		labels := map[string]string{}
		if !strings.HasPrefix(n.name, "c") {
			labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.product"] = "4", "NVIDIA-GB200"
		}
		if n.domain != "" {
			labels["accelerator.topograph.run/domain"] = n.domain
		}
		for i, tier := range n.tiers {
			labels[fmt.Sprintf("fabric.topograph.run/tier-%d", i)] = tier
		}
		items = append(items, map[string]any{"metadata": map[string]any{"name": n.name, "labels": labels}})
	}
	data, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// placedSite is a unit of one rack and one of two below a core switch, two machines on a
// fabric of their own whose NVLink ends inside, and two nodes without GPUs. Racks have
// two nodes.
func placedSite() []placedNode {
	return []placedNode{
		{"a1", "rack-1", []string{"leaf-1", "unit-1", "core"}}, {"a2", "rack-1", []string{"leaf-1", "unit-1", "core"}},
		{"a3", "rack-2", []string{"leaf-2", "unit-2", "core"}}, {"a4", "rack-2", []string{"leaf-2", "unit-2", "core"}},
		{"a5", "rack-3", []string{"leaf-3", "unit-2", "core"}}, {"a6", "rack-3", []string{"leaf-3", "unit-2", "core"}},
		{"h1", "", []string{"roce-1"}}, {"h2", "", []string{"roce-1"}},
		{"c1", "", nil}, {"c2", "", nil},
	}
}

// placedRig is a real Slurm on the files that quoin render writes of that site.
type placedRig struct {
	*slurmrig.Cluster
	t *testing.T
}

func startPlaced(t *testing.T, release slurmrig.Release, slurmConf string, flags ...string) *placedRig {
	t.Helper()
	out := t.TempDir()
	args := append([]string{"render", "--nodes", "-", "--slurm-version", release.Slurm, "--set", "publicationDefaults.gres.autoDetect=off", "--dir", out}, flags...)
	if code, _, stderr := quoin(t, kubeNodes(t, placedSite()), args...); code != 0 {
		t.Fatalf("quoin %s: exit %d: %s", strings.Join(args, " "), code, stderr)
	}
	files := map[string]string{}
	for _, name := range []string{"topology.yaml", "topology.conf"} {
		if text, err := os.ReadFile(filepath.Join(out, name)); err == nil {
			files[name] = string(text)
		}
	}
	conf := "NodeName=a[1-6],h[1-2],c[1-2] NodeAddr=127.0.0.1 Port=[20001-20010] CPUs=2 RealMemory=100 State=UNKNOWN\n" + slurmConf
	c := slurmrig.StartTest(t, release, slurmrig.Config{SlurmConf: conf, Files: files, Slurmd: "all"})
	idle, err := "", error(nil)
	await.Until(t, "all nodes are idle", func() bool {
		idle, err = c.Run(t.Context(), "sinfo", "-h", "-p", "any", "-t", "idle", "-o", "%D")
		return strings.TrimSpace(idle) == "10"
	}, func() string { return fmt.Sprintf("%q, %v\n%s", idle, err, c.Log("slurmctld")) })
	return &placedRig{c, t}
}

// runs has a job run and returns its nodes, or what srun says where it may not. srun does not say that the job waits
// for nodes of the job before.
func (r *placedRig) runs(args ...string) string {
	r.t.Helper()
	out, err := r.Run(r.t.Context(), slices.Concat([]string{"srun", "--quiet", "--immediate=20"}, args, []string{"sh", "-c", "echo $SLURM_JOB_NODELIST"})...)
	if err != nil {
		return err.Error()
	}
	list, _, _ := strings.Cut(out, "\n")
	return list
}

func (r *placedRig) want(nodes string, args ...string) {
	r.t.Helper()
	if got := r.runs(args...); got != nodes {
		r.t.Errorf("srun %s: %s, want %s", strings.Join(args, " "), got, nodes)
	}
}

func (r *placedRig) refused(args ...string) {
	r.t.Helper()
	if got := r.runs(args...); !strings.Contains(got, "configuration is not available") {
		r.t.Errorf("srun %s: %s, want it refused", strings.Join(args, " "), got)
	}
}

// TestRealPlaces has real Slurm place jobs by the policies for parent domains,
// nodes that are left out, separate fabrics, leaf blocks and the default topology.
func TestRealPlaces(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	const partitions = "PartitionName=any Nodes=ALL Default=YES\nPartitionName=nvl Nodes=ALL Topology=nvl\nPartitionName=fabric Nodes=ALL Topology=fabric\nPartitionName=cpu Nodes=c[1-2] Topology=flat\n"
	for name, c := range map[string]struct {
		release slurmrig.Release
		conf    string
		flags   []string
		try     func(r *placedRig)
	}{
		"parent domains": {slurmrig.Slurm2605, partitions, []string{"--set", "publicationDefaults.parentBlocks=2", "--set", "publicationDefaults.flatTopology=true"}, func(r *placedRig) {
			shown, err := r.Run(r.t.Context(), "scontrol", "show", "topology", "nvl")
			if err != nil || !strings.Contains(shown, "Nodes=a[3-6] BlockSize=4") || strings.Contains(shown, "Nodes=a[1-4]") {
				r.t.Errorf("%v: want the racks of unit-2 together:\n%s", err, shown)
			}
			r.want("a[3-6]", "-p", "nvl", "-N4", "--segment=4")
			r.want("a[1-2]", "-p", "nvl", "-N2", "--segment=2", "-w", "a1")
			r.refused("-p", "nvl", "-N2", "-w", "h1,h2")
			r.want("c[1-2]", "-p", "cpu", "-N2")
		}},
		"as the racks come": {slurmrig.Slurm2605, partitions, []string{"--set", "publicationDefaults.blockSizes=4", "--set", "publicationDefaults.flatTopology=true"}, func(r *placedRig) {
			r.want("a[1-4]", "-p", "nvl", "-N4", "--segment=4") // over two units
		}},
		"left out": {slurmrig.Slurm2605, partitions + "PartitionName=hgx Nodes=h[1-2] Topology=nvl\n", []string{"--set", "publicationDefaults.flatTopology=true"}, func(r *placedRig) {
			r.want("h[1-2]", "-p", "hgx", "-N2") // a partition of nodes that no block has
			r.refused("-p", "nvl", "-N2", "-w", "h1,h2")
			r.want("h1", "-p", "nvl", "-N1", "-w", "h1")
		}},
		"separate fabrics": {slurmrig.Slurm2605, partitions, []string{"--set", "publicationDefaults.defaultTopology=fabric", "--set", "publicationDefaults.fabrics=separate", "--set", "publicationDefaults.flatTopology=true"}, func(r *placedRig) {
			r.want("a[3-6]", "-N4", "-w", "a3,a4,a5,a6")
			r.want("h[1-2]", "-N2", "-w", "h1,h2")
			r.refused("-N2", "-w", "a1,h1")
		}},
		"leaf blocks": {slurmrig.Slurm2605, "PartitionName=any Nodes=ALL Default=YES\n", []string{"--set", "publicationDefaults.blocksBy=leaf", "--set", "publicationDefaults.parentBlocks=2"}, func(r *placedRig) {
			r.want("h[1-2]", "-N2", "--segment=2", "-w", "h1")
			r.want("a[3-6]", "-N4", "--segment=4")
		}},
		"tree of 24.11": {slurmrig.Slurm2411, "TopologyPlugin=topology/tree\nPartitionName=any Nodes=ALL Default=YES\n", []string{"--set", "publicationDefaults.topology=tree"}, func(r *placedRig) {
			r.want("a1,h1", "-N2", "-w", "a1,h1") // one root switch is above all
			r.refused("-N2", "-w", "a1,c1")
		}},
	} {
		t.Run(name, func(t *testing.T) { c.try(startPlaced(t, c.release, c.conf, c.flags...)) })
	}
}
