package publisher

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestRealDividedRack divides a rack while a job runs on it. The publisher asks a real slurmrestd, and holds the
// change until the job has ended. slurmctld loads the new blocks, and a job that began before runs on.
func TestRealDividedRack(t *testing.T) {
	t.Parallel()
	snap := siteOf(rackOf{"core", 1, 4}, rackOf{"core", 2, 4})
	var conf strings.Builder
	conf.WriteString("TopologyPlugin=topology/block\nSchedulerParameters=bf_interval=1,sched_interval=2\n")
	for i, n := range snap.Nodes {
		fmt.Fprintf(&conf, "NodeName=%s NodeAddr=127.0.0.1 Port=%d CPUs=2 State=UNKNOWN\n", n.Name, 17601+i)
	}
	conf.WriteString("PartitionName=p Nodes=ALL Default=YES State=UP\n")
	pubs := confirmAfter(50*time.Millisecond, complete(t, Publication{SlurmVersion: "26.05", Topology: "block", Annotate: new(false), MaxChange: new(0.3),
		SettleTime: Duration{Duration: 50 * time.Millisecond}}))
	first := makeOf(t, pubs[0], pubs[0].Rules.Gather(snap), Previous{})
	rig, url, token := slurmrig.StartRESTTest(t, "nobody", slurmrig.Config{SlurmConf: conf.String(), Slurmd: "r1-[0-3]",
		Files: map[string]string{"topology.yaml": first.Files["topology.yaml"]}})
	run := func(args ...string) string { t.Helper(); return strings.TrimSpace(rig.RunTest(t, args...)) }
	job := func(nodes string) string {
		t.Helper()
		id := run("sbatch", "--parsable", "-w", nodes, "--wrap", "sleep 1000")
		await.Until(t, "job "+id+" runs", func() bool { return strings.Contains(run("scontrol", "show", "job", id), "JobState=RUNNING") }, func() string { return run("scontrol", "show", "job", id) + run("sinfo", "-N", "-l") })
		return id
	}
	await.Until(t, "nodes are idle", func() bool { return run("sinfo", "-h", "-t", "idle", "-o", "%D") == "4" }, func() string { return run("sinfo", "-N", "-l") })
	across := job("r1-[1-2]")

	store := newMemory(snap)
	store.changes = make(chan struct{}, 1)
	pub := newPublisher(store, pubs)
	pub.options.Slurm = map[string]*client.Client{"default": client.New("default", client.NewREST(url, token), pub.log)}
	pub.jobs = occupancy.New(pub.options.Slurm)
	inBackground(t, pub.Ask, pub.Run)
	stored := func() *plandoc.Document {
		store.mu.Lock()
		packed := store.plans["default"]
		store.mu.Unlock()
		if packed == nil {
			return &plandoc.Document{}
		}
		d, err := plandoc.Unpack(packed)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	say := func() string { d := stored(); return fmt.Sprintf("held %+v, %+v", d.Held, d.Current.Plan.Blocks()) }
	await.Until(t, "the racks are published", func() bool { return stored().Current.Number == 1 }, say)
	s := &partitionedSite{store: store, snap: snap}
	s.editNames([]string{"r1-2", "r1-3"}, func(_ *topology.Node, f *topology.Fabric) { f.CliqueID = 2 })
	await.Until(t, "the job holds the change", func() bool {
		held := stored().Held
		return len(held) == 1 && held[0].Reason == placement.Repartitioned && strings.Contains(held[0].Message, "jobs run on these blocks")
	}, say)
	run("scancel", across)
	store.edit(func() {}) // else the next pass is in a minute
	await.Until(t, "the plan follows", func() bool { d := stored(); return d.Current.Number == 2 && len(d.Held) == 0 }, say)
	stays := job("r1-0")
	if err := os.WriteFile(filepath.Join(rig.Dir, "topology.yaml"), []byte(store.get("slurm/quoin-slurm").Files["topology.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	run("scontrol", "reconfigure")
	await.Until(t, "slurmctld has three blocks", func() bool {
		return strings.Count(run("scontrol", "show", "topology", "nvl"), "BlockName=") == 3
	}, func() string { return run("scontrol", "show", "topology", "nvl") })
	if text := run("scontrol", "show", "job", stays); !strings.Contains(text, "JobState=RUNNING") || !strings.Contains(text, "NodeList=r1-0\n") {
		t.Errorf("the other job:\n%s", text)
	}
	if text := run("scontrol", "show", "topology", "nvl"); !strings.Contains(text, "Nodes=r1-[0-1]") || !strings.Contains(text, "Nodes=r1-[2-3]") {
		t.Errorf("slurmctld has\n%s", text)
	}
}
