package publisher

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// TestRealGresForAll gives the gres.conf of nodes that annotations place, which names no nodes, to a slurmd
// with GPUs and to one on a machine without any: both register as slurm.conf has them.
func TestRealGresForAll(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	pub := complete(t, Publication{Membership: "annotation"})[0]
	made, err := Make(pub, pub.Rules.Gather(racks(t)), Previous{})
	if err != nil || !strings.HasSuffix(made.Files["gres.conf"], "\n"+detect) {
		t.Fatalf("%v, gres.conf of nodes that annotations place:\n%s", err, made.Files["gres.conf"])
	}
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			// The nodes of a pair are one with GPUs and one without: of slurm.conf, and dynamic.
			c := slurmrig.StartTest(t, release, slurmrig.Config{GPUs: 4, Model: "NVIDIA GB200", Slurmd: "gb200-001", Files: map[string]string{"gres.conf": made.Files["gres.conf"]},
				SlurmConf: `SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
MaxNodeCount=4
NodeName=gb200-001 NodeAddr=127.0.0.1 Port=17001 Gres=gpu:gb200:4
NodeName=cpu-1 NodeAddr=127.0.0.1 Port=17002
PartitionName=main Nodes=ALL Default=YES State=UP
`})
			driverless := []string{"tmpfs:/proc/driver"}
			cpu := slurmrig.Node{Cluster: c, Name: "cpu-1", Mounts: driverless}
			if err := cpu.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if out, err := cpu.Run(t.Context(), "ls", "/proc/driver"); err != nil || strings.TrimSpace(out) != "" {
				t.Errorf("the machine without GPUs has a driver: %s %v", out, err)
			}
			for _, dynamic := range []struct {
				node slurmrig.Node
				conf string
			}{
				{slurmrig.Node{Cluster: c, Name: "gb200-002"}, "NodeAddr=127.0.0.1 Port=17003 Gres=gpu:gb200:4"},
				{slurmrig.Node{Cluster: c, Name: "cpu-2", Mounts: driverless}, "NodeAddr=127.0.0.1 Port=17004"},
			} {
				if err := dynamic.node.Start(t.Context(), "-Z", "--conf", dynamic.conf); err != nil {
					t.Fatal(err)
				}
			}
			var out string
			await.Until(t, "all nodes are idle", func() bool {
				out, _ = c.Run(t.Context(), "sinfo", "-h", "-N", "-o", "%N %T %G")
				return strings.Count(out, " idle gpu:gb200:4(S:0)") == 2 && strings.Count(out, " idle (null)") == 2
			}, func() string { return out + c.Log("cpu-1") + c.Log("cpu-2") + c.Log("gb200-002") })
		})
	}
}

// TestRealGresByName gives the gres.conf of three NodeSets to slurmds that register dynamically, two of each
// NodeSet: the file was made when each had one. slurmd of the nodes without GPUs starts, the nodes whose
// devices are listed register those, and the others find theirs.
func TestRealGresByName(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	pub := complete(t, Publication{SlurmNames: "slinky", Namespace: "slurm"})[0]
	made, err := Make(pub, pub.Rules.Gather(nodeSets(map[string]int{"a": 1, "cpu": 1, "h": 1}, true)), Previous{})
	if err != nil || !strings.Contains(made.Files["gres.conf"], "\n"+detect+"NodeName=a[0-63] ") {
		t.Fatalf("%v, gres.conf of three NodeSets:\n%s", err, made.Files["gres.conf"])
	}
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			c := slurmrig.StartTest(t, release, slurmrig.Config{GPUs: 4, Model: "NVIDIA H100", Files: map[string]string{"gres.conf": made.Files["gres.conf"]},
				SlurmConf: "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nGresTypes=gpu\nMaxNodeCount=8\nPartitionName=main Nodes=ALL Default=YES State=UP\n"})
			for i, set := range []string{"a", "a", "h", "h", "cpu", "cpu"} {
				n := slurmrig.Node{Cluster: c, Name: fmt.Sprint(set, i%2)}
				conf := fmt.Sprintf("NodeAddr=127.0.0.1 Port=%d", 17200+i)
				switch set {
				case "a":
					conf += " Gres=gpu:a100:2"
				case "h":
					conf += " Gres=gpu:h100:4"
				default:
					n.Mounts = []string{"tmpfs:/proc/driver"}
				}
				if err := n.Start(t.Context(), "-Z", "--conf", conf); err != nil {
					t.Fatal(err)
				}
			}
			var out string
			await.Until(t, "all nodes are idle", func() bool {
				out, _ = c.Run(t.Context(), "sinfo", "-h", "-N", "-o", "%N %T %G")
				return strings.Count(out, " idle gpu:a100:2\n") == 2 && strings.Count(out, " idle gpu:h100:4(S:0)\n") == 2 && strings.Count(out, " idle (null)") == 2
			}, func() string { return out + c.Log("a1") + c.Log("h1") + c.Log("cpu1") })
		})
	}
}
