package publisher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// TestRealRelease publishes for a real slurmctld of an old release, which scontrol asks. Without
// slurmVersion the file is the one that this slurmctld has loaded. A newer slurmVersion is held, and the
// last good file stays.
func TestRealRelease(t *testing.T) {
	t.Parallel()
	snap := siteOf(rackOf{"core", 1, 4}, rackOf{"core", 2, 4})
	var conf strings.Builder
	conf.WriteString("TopologyPlugin=topology/tree\n")
	for i, n := range snap.Nodes {
		fmt.Fprintf(&conf, "NodeName=%s NodeAddr=127.0.0.1 Port=%d State=UNKNOWN\n", n.Name, 17701+i)
	}
	conf.WriteString("PartitionName=p Nodes=ALL Default=YES State=UP\n")
	follows := Publication{Topology: "tree", Annotate: new(false), SettleTime: Duration{Duration: 100 * time.Millisecond}}
	old := slurmrig.Slurm2411
	first := complete(t, Publication{SlurmVersion: old.Slurm, Topology: "tree"})[0]
	made := makeOf(t, first, first.Rules.Gather(snap), Previous{})
	rig := slurmrig.StartTest(t, old, slurmrig.Config{SlurmConf: conf.String(), Files: map[string]string{"topology.conf": made.Files["topology.conf"]}})
	program, err := rig.Scontrol()
	if err != nil {
		t.Fatal(err)
	}
	store := newMemory(snap)
	store.changes = make(chan struct{}, 1)
	publish := func(t *testing.T, p Publication) {
		pub := newPublisher(store, complete(t, p))
		pub.options.Slurm = map[string]*client.Client{"default": client.New("default", &client.Scontrol{Program: program}, pub.log)}
		inBackground(t, pub.Ask, pub.Run)
	}
	stored := func() *plandoc.Document {
		store.mu.Lock()
		defer store.mu.Unlock()
		doc, err := plandoc.Unpack(store.plans["default"])
		if err != nil {
			return &plandoc.Document{}
		}
		return doc
	}
	say := func() string { d := stored(); return fmt.Sprintf("revision %d, held %+v", d.Current.Number, d.Held) }
	t.Run("no slurmVersion", func(t *testing.T) {
		publish(t, follows)
		await.Until(t, "files are published", func() bool { return stored().Current.Number == 1 }, say)
		set := store.get("slurm/quoin-slurm")
		if used := stored().Current.Plan.Policy["slurmVersion"]; used != old.Slurm || set.Files["topology.conf"] != made.Files["topology.conf"] || set.Files["topology.yaml"] != "" {
			t.Errorf("for %q: %v", used, set.Files)
		}
	})
	t.Run("a newer slurmVersion", func(t *testing.T) {
		newer := follows
		newer.SlurmVersion = slurmrig.Slurm2605.Slurm
		publish(t, newer)
		await.Until(t, "files are held", func() bool { d := stored(); return len(d.Held) == 1 && d.Held[0].Reason == ReasonReleaseDiffers }, say)
		if set := store.get("slurm/quoin-slurm"); set.Files["topology.conf"] != made.Files["topology.conf"] || set.Files["topology.yaml"] != "" {
			t.Errorf("the last good file is gone: %v", set.Files)
		}
	})
}
