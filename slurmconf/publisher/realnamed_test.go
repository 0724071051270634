package publisher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// TestRealTopologyInUse has a real slurmd register as Slinky's do, and its
// topology configured away: slurmctld takes the file that keeps it, and the one
// without it when the node names it no more, not before.
func TestRealTopologyInUse(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	snap := racks(t)
	files := func(topology string, was map[string]string, named ...string) *Rendered {
		t.Helper()
		pub := complete(t, Publication{Topology: topology})[0]
		var prev Previous
		if was != nil {
			prev = previousOf(t, pub, was)
		}
		g := gathered{Inputs: pub.Rules.Gather(snap), prev: prev, inUse: unitsInUse{}}
		for _, name := range named {
			g.inUse[name] = true
		}
		g.ofFabrics = pub.FabricSite(prev.Plan, nil).Judge(g.Facts, g.UnnamedFacts)
		made, err := makeKept(pub, &g)
		if err != nil || made.Refused != "" {
			t.Fatalf("%v %s", err, made.Message)
		}
		return made
	}
	both := files("auto", nil)
	was := map[string]string{"topology.yaml": both.Files["topology.yaml"]}
	between, blocks := files("block", was, "fabric:"), files("block", was)
	rig := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{
		SlurmConf: "MaxNodeCount=100\nNodeName=static NodeAddr=127.0.0.1 Port=22001 CPUs=2 RealMemory=100 State=UNKNOWN\nPartitionName=main Nodes=ALL\n",
		Files:     map[string]string{"topology.yaml": both.Files["topology.yaml"]},
	})
	register := func(name, port, spec, want string) { registers(t, rig, name, port, spec, want) }
	load := func(made *Rendered, taken bool) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(rig.Dir, "topology.yaml"), []byte(made.Files["topology.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := rig.Run(t.Context(), "scontrol", "reconfigure"); (err == nil) != taken {
			t.Fatalf("reconfigure: %v, want it taken: %t\n%s", err, taken, out)
		}
	}
	register("gb200-001", "23001", both.Specs["gb200-001"], "Topology="+both.Specs["gb200-001"])
	load(blocks, false)
	load(between, true)
	register("gb200-002", "23002", both.Specs["gb200-002"], "Topology="+both.Specs["gb200-002"])
	for _, node := range []string{"gb200-001", "gb200-002"} { // as Slinky does after the annotation
		rig.RunTest(t, "scontrol", "update", "nodename="+node, "topology="+blocks.Specs[node])
	}
	load(blocks, true)
	register("gb200-003", "23003", both.Specs["gb200-003"], "Failed to set topology")
	register("gb200-004", "23004", blocks.Specs["gb200-004"], "Topology="+blocks.Specs["gb200-004"])
}

// TestRealTakenBack takes the topology away as manifests/docs/slinky.md does: slurmctld does not go on without it while
// a node that it remembers has a place.
func TestRealTakenBack(t *testing.T) {
	t.Parallel()
	rig := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{
		SlurmConf: "MaxNodeCount=100\nPartitionName=main Nodes=ALL\n",
		Files:     map[string]string{"topology.yaml": "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - block: b1\n"},
	})
	registers(t, rig, "gb200-001", "23001", "nvl:b1", "Topology=nvl:b1")
	if err := os.WriteFile(filepath.Join(rig.Dir, "topology.yaml"), []byte("- topology: default\n  cluster_default: true\n  flat: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := rig.Run(t.Context(), "scontrol", "reconfigure"); err == nil {
		t.Errorf("slurmctld goes on without the block of a node that it remembers:\n%s", out)
	}
	rig.RunTest(t, "scontrol", "update", "nodename=ALL", "topology=")
	rig.RunTest(t, "scontrol", "reconfigure")
	if out := rig.RunTest(t, "scontrol", "show", "node", "gb200-001"); strings.Contains(out, "Topology=") {
		t.Errorf("the node still has a place:\n%s", out)
	}
}

// registers starts a slurmd that names its place, and waits for what slurmctld shows of it.
func registers(t *testing.T, rig *slurmrig.Cluster, name, port, spec, want string) {
	t.Helper()
	rig.RunTest(t, "slurmd", "-Z", "-N", name, "--conf", "NodeAddr=127.0.0.1 CPUs=2 RealMemory=100 Port="+port+" Topology="+spec)
	var shown string
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if shown, err = rig.Run(t.Context(), "scontrol", "show", "node", name); err == nil && strings.Contains(shown, want) {
			return
		}
	}
	t.Fatalf("%s registered with %s, want %q in %v\n%s", name, spec, want, err, shown)
}

// TestRealSkeleton has a real slurmd register at the block and the leaf switch of its
// annotation, where slurmctld has loaded a skeleton.
func TestRealSkeleton(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	pub := complete(t, Publication{Membership: "annotation"})[0]
	made := makeFiles(t, pub, pub.Rules.Gather(racks(t)), Previous{})
	rig := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{
		SlurmConf: "MaxNodeCount=100\nNodeName=static NodeAddr=127.0.0.1 Port=22001 CPUs=2 RealMemory=100 State=UNKNOWN\nPartitionName=main Nodes=ALL\n",
		Files:     map[string]string{"topology.yaml": made.Files["topology.yaml"]},
	})
	spec := made.Specs["gb200-072"]
	registers(t, rig, "gb200-072", "23001", spec, "Topology="+spec)
	_, leaf, _ := strings.Cut(spec, ",fabric:")
	out, err := rig.Run(t.Context(), "scontrol", "show", "topology", "fabric", "switch="+leaf)
	if err != nil || !strings.Contains(out, "SwitchName="+leaf) || !strings.Contains(out, "Nodes=gb200-072") {
		t.Errorf("show topology fabric switch=%s: %v\n%s", leaf, err, out)
	}
}
