package publisher

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// withSlurm runs a publisher that asks the Slurm, which may be nil. It returns the log.
func withSlurm(t *testing.T, store *memory, pubs []*publication.Cluster, slurm *testSlurm, steps func(*Publisher)) string {
	t.Helper()
	var log strings.Builder
	inBubbleWith(t, store, pubs, func(p *Publisher) {
		p.log = slog.New(slog.NewTextHandler(&log, nil))
		if slurm != nil {
			slurm.asks(p)
		}
	}, steps)
	return log.String()
}

// racksOf are the racks beside a Controller with the image.
func racksOf(t *testing.T, image string) *inputs.Snapshot {
	t.Helper()
	snap := racks(t)
	snap.Controllers = []inputs.Controller{{Namespace: "slurm", Name: "slurm", Image: image}, {Namespace: "other", Name: "slurm", Image: "slurmctld:25.05"}}
	return snap
}

// TestRelease publishes files for the release that is seen to run. The stored plan says which one was used.
func TestRelease(t *testing.T) {
	for _, tt := range []struct {
		name  string
		image string
		slurm *testSlurm
		file  string
		used  string
	}{
		{"nothing is seen", "slurmctld:latest", nil, "topology.yaml", ""},
		{"the image of the Controller", "slurmctld:25.11-ubuntu24.04", nil, "topology.yaml", "25.11"},
		{"an old image", "slurmctld:24.11", nil, "topology.conf", "24.11"},
		{"Slurm goes before the image", "slurmctld:25.11", &testSlurm{release: slurmconf.Release2411}, "topology.conf", "24.11"},
		{"Slurm does not answer", "slurmctld:25.11", &testSlurm{silent: true}, "topology.yaml", "25.11"},
		{"a slow Slurm is waited for", "", &testSlurm{release: slurmconf.Release2411, takes: 4 * time.Second}, "topology.conf", "24.11"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemory(racksOf(t, tt.image))
			log := withSlurm(t, store, complete(t, Publication{Topology: "tree", SettleTime: Duration{Duration: time.Second}}), tt.slurm, func(*Publisher) {
				store.pass(time.Hour)
				set, plan := store.get("slurm/quoin-slurm"), store.plan(t).Current
				if set.Files[tt.file] == "" || plan.Plan.Policy["slurmVersion"] != tt.used || plan.Number != 1 {
					t.Errorf("revision %d for %q, files %q", plan.Number, plan.Plan.Policy["slurmVersion"], FileNames(set.Files))
				}
			})
			const guess = "no release of Slurm is seen: the files are for 25.05 and newer"
			if n := strings.Count(log, guess); n > 1 || n == 1 != (tt.used == "") {
				t.Errorf("%d times %q in the log:\n%s", n, guess, log)
			}
		})
	}
}

// TestBlocksNeedNewerSlurm holds files with blocks for Slurm 24.11: the published files stay until Slurm is
// upgraded, or the switches alone are wanted. A tree is published as for other releases.
func TestBlocksNeedNewerSlurm(t *testing.T) {
	const old, why = "slurmctld:24.11", "LintFatal: block topologies need Slurm 25.05 or newer, and the files are for 24.11: "
	for _, tt := range []struct {
		name         string
		first, image string // releases of the Controller
		keys         Publication
		held         string
		published    string // the first unit in the topology file
	}{
		{"nothing is published", old, old, Publication{}, why + "upgrade Slurm; or set topology: tree", ""},
		{"slurmVersion", old, old, Publication{SlurmVersion: "24.11"}, why + "upgrade Slurm and take slurmVersion out", ""},
		{"slurmVersion of an older Slurm", "slurmctld:25.05", "slurmctld:25.05", Publication{SlurmVersion: "24.11"}, why + "take slurmVersion out of the configuration, because a newer Slurm runs; or", ""},
		{"leaf blocks", old, old, Publication{BlocksBy: "leaf"}, why, ""},
		{"blocks are published", "slurmctld:25.05", old, Publication{}, why, "block: nvl-"},
		{"Slurm is upgraded", old, "slurmctld:25.05", Publication{}, "", "block: nvl-"},
		{"a tree", old, old, Publication{Topology: "tree"}, "", "SwitchName=leaf-"},
		{"a tree, and slurmVersion", old, old, Publication{Topology: "tree", SlurmVersion: "24.11"}, "", "SwitchName=leaf-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.keys.SettleTime = Duration{Duration: time.Second}
			store := newMemory(racksOf(t, tt.first))
			withSlurm(t, store, complete(t, tt.keys), nil, func(*Publisher) {
				store.pass(time.Hour)
				text := func() string {
					if set := store.get("slurm/quoin-slurm"); set != nil {
						return set.Files["topology.yaml"] + set.Files["topology.conf"] + set.Files["gres.conf"]
					}
					return ""
				}
				before := text()
				store.change(racksOf(t, tt.image))
				store.pass(time.Hour)
				var held string
				for _, h := range store.plan(t).Held {
					held += h.Reason + ": " + h.Message + "\n"
				}
				if !strings.HasPrefix(held, tt.held) || strings.Count(held, "\n") > 1 || held != "" && tt.held == "" {
					t.Errorf("held %q, want one line that begins %q", held, tt.held)
				}
				if now := text(); !strings.Contains(now, tt.published) || tt.published == "" && now != "" || tt.held != "" && now != before {
					t.Errorf("published %s\nbefore %s", now, before)
				}
			})
		})
	}
}

// TestRollbackNeedsNewerSlurm asks for an earlier revision with blocks while Slurm 24.11 runs: the files stay.
func TestRollbackNeedsNewerSlurm(t *testing.T) {
	store := newMemory(racksOf(t, "slurmctld:25.05"))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		moved := func(image string) {
			snap := racks(t, simulated.Fault{Node: "gb200-001", MoveTo: "gb200-019", Reboot: true})
			snap.Controllers = racksOf(t, image).Controllers
			store.change(snap)
			store.pass(time.Hour)
		}
		moved("slurmctld:25.05")
		before := topologyOf(store)
		moved("slurmctld:24.11")
		set := store.get("slurm/quoin-slurm")
		store.edit(func() { set.Annotations[plandoc.AnnotationRollback] = "1" })
		store.pass(time.Hour)
		const why = "revision 1: block topologies need Slurm 25.05 or newer"
		if d := store.plan(t); d.Current.Number != 2 || len(d.Held) != 1 || d.Held[0].Reason != reasonLintFatal || !strings.HasPrefix(d.Held[0].Message, why) {
			t.Errorf("revision %d, held %+v, want %q", d.Current.Number, d.Held, why)
		}
		if text := topologyOf(store); text != before {
			t.Errorf("published %s\nbefore %s", text, before)
		}
	})
}

// TestReleaseDiffers holds files that the release that runs would not load, and warns of others. The last
// good files stay.
func TestReleaseDiffers(t *testing.T) {
	store, slurm := newMemory(racksOf(t, "")), &testSlurm{release: slurmconf.Release2411}
	withSlurm(t, store, complete(t, Publication{SlurmVersion: "24.11", Topology: "tree"}), slurm, func(*Publisher) { store.pass(time.Hour) })
	good := store.get("slurm/quoin-slurm").Files["topology.conf"]
	typed := complete(t, Publication{SlurmVersion: "26.05", Topology: "tree", Annotate: new(false)})
	withSlurm(t, store, typed, slurm, func(*Publisher) {
		store.pass(time.Hour)
		set, held := store.get("slurm/quoin-slurm"), store.plan(t).Held
		if good == "" || set.Files["topology.conf"] != good || set.Files["topology.yaml"] != "" {
			t.Errorf("files %q", FileNames(set.Files))
		}
		const want = "slurmVersion is 26.05, and Slurm 24.11 runs, which would not load the files: Slurm 24.11 does not read topology.yaml; take slurmVersion out"
		if len(held) != 1 || held[0].Reason != ReasonReleaseDiffers || !strings.HasPrefix(held[0].Message, want) {
			t.Errorf("held %+v, want %q", held, want)
		}
	})
	saves := store.planSaves
	slurm.set(func() { slurm.silent = true })
	withSlurm(t, store, typed, slurm, func(p *Publisher) { // a Slurm that does not answer ends no hold
		store.pass(time.Hour)
		if set, held := store.get("slurm/quoin-slurm"), store.plan(t).Held; set.Files["topology.conf"] != good || len(held) != 1 || store.planSaves != saves {
			t.Errorf("%d further plans, held %+v, files %q", store.planSaves-saves, held, FileNames(set.Files))
		}
		slurm.set(func() { slurm.silent, slurm.release = false, slurmconf.Release2511 })
		store.pass(time.Hour)
		if set := store.get("slurm/quoin-slurm"); set.Files["topology.yaml"] == "" || len(store.plan(t).Held) > 0 {
			t.Errorf("held %+v, files %q", store.plan(t).Held, FileNames(set.Files))
		}
		if n := testutil.ToFloat64(p.metrics.problems.WithLabelValues("default", ReasonReleaseDiffers)); n != 1 {
			t.Errorf("%v findings", n)
		}
	})
	problems := store.plan(t).Current.Plan.Problems
	if len(problems) == 0 || problems[len(problems)-1].Message != "slurmVersion is 26.05, and Slurm 25.11 runs, which loads the files too" || problems[len(problems)-1].Severity != topology.Warning {
		t.Errorf("problems %+v", problems)
	}
}
