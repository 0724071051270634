package publisher

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestAnnotationsWaitForSlurm has a rack join while nothing makes Slurm load files.
func TestAnnotationsWaitForSlurm(t *testing.T) {
	for name, reconfigure := range map[string]bool{"until somebody reconfigures": false, "or told to": true} {
		t.Run(name, func(t *testing.T) {
			store, slurm := newMemory(racks(t, lastRack(0)...)), &testSlurm{late: true}
			pubs := complete(t, Publication{SettleTime: publication.Default().SettleTime, Slurm: publication.Slurm{Scontrol: "scontrol", Reconfigure: reconfigure}})
			inBubbleWith(t, store, pubs, slurm.asks, func(*Publisher) {
				slurm.reads(time.Now().Add(2 * time.Minute)) // as slurmctld starts later
				store.pass(time.Hour)
				if store.notes[nodeName(1)] == "" {
					t.Fatal("Slurm has the files, and no node is annotated")
				}
				asked := func() time.Duration {
					return time.Since(plandoc.Asked(store.get("slurm/quoin-slurm").Annotations))
				}
				if age := asked(); age < 50*time.Minute || age > time.Hour {
					t.Errorf("asked %s ago, want soon after the first publication: later answers say the same", age)
				}
				store.change(racks(t))
				store.pass(2 * time.Minute)
				pending := func() string { return store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationPending] }
				if text := pending(); !strings.HasPrefix(text, "loaded: gb200-[055-072]: Slurm has not loaded the published file yet: it has time (loadTimeout) until 2000-01-01T01:02:") || asked() > 3*time.Minute {
					t.Errorf("two minutes after the change: %q, asked %s ago", text, asked())
				}
				store.pass(15 * time.Second)
				never := strings.HasPrefix(pending(), "loaded: gb200-[055-072]: The file was never loaded, which was published at ")
				if !never || !slices.Contains(store.events, loaded.ReasonNeverLoaded) {
					t.Errorf("after two minutes: %q, events %v", pending(), store.events)
				}
				if !reconfigure {
					store.pass(time.Hour)
					if store.notes[nodeName(55)] != "" {
						t.Error("annotated with a block that Slurm does not have")
					}
					slurm.reads(time.Now())
				}
				saves := store.saves
				store.pass(2 * time.Minute)
				if store.notes[nodeName(55)] == "" || pending() != "" || store.saves != saves+1 {
					t.Errorf("Slurm has loaded the files: annotation %q, pending %q, %d writes", store.notes[nodeName(55)], pending(), store.saves-saves)
				}
				count, _ := slurm.questions()
				store.pass(24 * time.Hour)
				if now, _ := slurm.questions(); now > count+24*6 || store.saves != saves+1 {
					t.Errorf("asked %d times in a day at rest, %d writes", now-count, store.saves-saves-1)
				}
			})
		})
	}
}

// TestHeldNamesAreNotPending holds other names for all nodes. Slurm has the published names, so none of
// its nodes is pending.
func TestHeldNamesAreNotPending(t *testing.T) {
	store, slurm := newMemory(racks(t)), &testSlurm{late: true}
	for _, names := range []string{"short", "s/gb200-(.+)/x-$1/"} {
		pubs := complete(t, Publication{SlurmNames: names, Slurm: publication.Slurm{Scontrol: "scontrol"}})
		inBubbleWith(t, store, pubs, slurm.asks, func(*Publisher) {
			store.pass(time.Minute)
			slurm.reads(time.Now())
			store.pass(2 * time.Hour)
			set, held := store.get("slurm/quoin-slurm"), store.plan(t).Held
			if pending := set.Annotations[plandoc.AnnotationPending]; pending != "" || (len(held) == 0) != (names == "short") {
				t.Errorf("%s: held %+v, pending %q", names, held, pending)
			}
		})
	}
}

// TestQuestionsOfADay counts what Slurm is asked in each part of a day. At rest one question a minute does for jobs and
// for how far nodes have come.
func TestQuestionsOfADay(t *testing.T) {
	s := newPartitionedSite(t, 4)
	prepare := func(p *Publisher) {
		s.slurm.asks(p)
		p.jobs = occupancy.New(p.options.Slurm)
	}
	slurm := func(change func(*testSlurm)) func() { return func() { s.slurm.set(func() { change(s.slurm) }) } }
	takes := func(d time.Duration) func() { return slurm(func(s *testSlurm) { s.takes, s.silent = d, false }) }
	none := func() {}
	inBubbleWith(t, s.store, complete(t, Publication{}), prepare, func(p *Publisher) {
		s.store.pass(time.Hour + 30*time.Second) // between two questions
		looks := func() { p.Occupancy().Soon("default") }
		for _, part := range []struct {
			name               string
			begins, often      func()
			every              time.Duration // of often
			least, most, nodes int           // questions in two hours, and the most about nodes
		}{
			{"at rest", none, none, time.Hour, 100, 120, 120},
			{"somebody looks each 65 s", none, looks, 65 * time.Second, 100, 120, 120},
			{"somebody looks each 7 min", none, looks, 7 * time.Minute, 100, 126, 126},
			{"somebody looks all the time", none, looks, 2 * time.Second, 500, 600, 600},
			{"jobs run on a rack that is divided", func() { slurm(func(s *testSlurm) { s.jobs = []string{"gb200-[009-010]"} })(); s.now(10, 18, 52) }, none, time.Hour, 100, 120, 120},
			{"the jobs end", slurm(func(s *testSlurm) { s.jobs = nil }), none, time.Hour, 100, 121, 121},
			{"Slurm does not load the files", func() { s.slurm.reads(time.Now()); s.store.pass(time.Minute); s.now(1, 6, 61) }, none, time.Hour, 200, 250, 121},
			{"Slurm does not answer", slurm(func(s *testSlurm) { s.silent, s.late = true, false }), none, time.Hour, 100, 132, 0},
			{"Slurm takes 4 s", takes(4 * time.Second), none, time.Hour, 50, 62, 61},
			{"and somebody looks", none, looks, 2 * time.Second, 300, 360, 360},
			{"Slurm takes 10 s", takes(10 * time.Second), none, time.Hour, 25, 30, 30},
			{"Slurm takes 15 s", takes(15 * time.Second), none, time.Hour, 20, 24, 24},
		} {
			part.begins()
			asked, nodes := s.slurm.questions()
			for end := time.Now().Add(2 * time.Hour); time.Now().Before(end); s.store.pass(part.every) {
				part.often()
			}
			all, allNodes := s.slurm.questions()
			if asked, nodes = all-asked, allNodes-nodes; asked < part.least || asked > part.most || nodes > part.nodes {
				t.Errorf("%s: %d questions, want %d to %d; %d about nodes, want %d at most", part.name, asked, part.least, part.most, nodes, part.nodes)
			}
			t.Logf("%s: %d questions, %d about nodes", part.name, asked, nodes)
		}
	})
}

// TestPassesDoNotWait has a Slurm that hangs. Files are published when the first question has failed, and
// Nodes are annotated when Slurm had its time to load the files.
func TestPassesDoNotWait(t *testing.T) {
	store, hangs := newMemory(racks(t)), &testSlurm{takes: 24 * time.Hour}
	inBubbleWith(t, store, complete(t, Publication{}), hangs.asks, func(*Publisher) {
		start := time.Now()
		for store.get("slurm/quoin-slurm") == nil {
			store.pass(time.Second)
		}
		after := time.Since(start)
		store.pass(20 * time.Second)
		if store.notes[nodeName(1)] != "" {
			t.Error("annotated before anything is known")
		}
		store.pass(3 * time.Minute)
		if store.notes[nodeName(1)] == "" || after > 30*time.Second {
			t.Errorf("published after %s, annotation %q", after, store.notes[nodeName(1)])
		}
		store.pass(20 * time.Minute)
		if text := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationPending]; text != plandoc.CannotAsk {
			t.Errorf("it says %q of a Slurm that does not answer", text)
		}
	})
}

// TestRefusedAnnotationsStop has Slinky's pods say that Slurm refuses a new block. Nobody can
// be asked.
func TestRefusedAnnotationsStop(t *testing.T) {
	refuse := func(snap *inputs.Snapshot, spec string) *inputs.Snapshot {
		for i := range snap.Nodes {
			if n := &snap.Nodes[i]; n.Name == nodeName(55) {
				n.Workers = []inputs.Worker{{Invalid: "Failed to set topology '" + spec + "'"}}
			}
		}
		return snap
	}
	store := newMemory(racks(t, append(lastRack(0), simulated.Fault{Node: nodeName(5), Absent: true})...))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		store.change(racks(t, append(lastRack(2), simulated.Fault{Node: nodeName(5), Absent: true})...))
		store.pass(10 * time.Minute)
		spec := store.notes[nodeName(55)]
		if !strings.HasPrefix(spec, "nvl:") || store.notes[nodeName(57)] != "" {
			t.Fatalf("annotations %q and %q", spec, store.notes[nodeName(57)])
		}
		store.change(refuse(racks(t), spec))
		store.pass(time.Hour)
		if store.notes[nodeName(57)] != "" || store.notes[nodeName(5)] == "" {
			t.Errorf("annotations %q of the refused block, %q of another", store.notes[nodeName(57)], store.notes[nodeName(5)])
		}
		if why := drifting(store)[nodeName(57)]; why != "AnnotationDiffers" {
			t.Errorf("the condition of a node that waits says %q", why)
		}
		store.change(racks(t))
		store.pass(time.Minute)
		if store.notes[nodeName(57)] == "" {
			t.Error("the pod is well again, and no node is annotated")
		}
	})
}

// lastRack has all nodes of the last rack absent but the first ones.
func lastRack(there int) (absent []simulated.Fault) {
	for i := there; i < 18; i++ {
		absent = append(absent, simulated.Fault{Node: nodeName(55 + i), Absent: true})
	}
	return absent
}
