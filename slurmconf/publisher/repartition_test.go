package publisher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// partitionedSite are racks of 18 GB200 trays whose NVLink partitions change while the trays run.
type partitionedSite struct {
	store *memory
	snap  *inputs.Snapshot
	slurm *testSlurm
	first time.Duration // for which the publisher runs before the steps
	// confirm is how long a change must last, the default if zero.
	confirm time.Duration
}

// newPartitionedSite has some racks of 18 nodes each.
func newPartitionedSite(t *testing.T, count int) *partitionedSite {
	snap := racks(t)
	snap.Nodes = snap.Nodes[:18*count]
	return &partitionedSite{store: newMemory(snap), snap: snap, slurm: &testSlurm{}, first: 10 * time.Minute}
}

// run publishes the site, and then lets steps happen.
func (s *partitionedSite) run(t *testing.T, p Publication, steps func()) {
	t.Helper()
	p.Slurm = publication.Slurm{Scontrol: "scontrol"}
	prepare := func(pub *Publisher) {
		s.slurm.asks(pub)
		pub.jobs = occupancy.New(pub.options.Slurm)
	}
	inBubbleWith(t, s.store, confirmAfter(cmp.Or(s.confirm, publication.DefaultTimes().Confirm), complete(t, p)), prepare, func(*Publisher) {
		s.store.pass(s.first)
		steps()
	})
}

// now puts nodes into a partition, as agents report it that have read it twice. first and last count
// from 1.
func (s *partitionedSite) now(first, last int, partition uint32) {
	s.edit(first, last, func(r *topology.Node, f *topology.Fabric) {
		f.CliqueID = partition
	})
}

// edit has the fabrics of nodes change. Their agents have read that twice.
func (s *partitionedSite) edit(first, last int, change func(r *topology.Node, f *topology.Fabric)) {
	s.editNames(nodeNames(first, last), change)
}

func (s *partitionedSite) editNames(names []string, change func(r *topology.Node, f *topology.Fabric)) {
	next := &inputs.Snapshot{Nodes: s.snap.Nodes, Reports: maps.Clone(s.snap.Reports)}
	for _, name := range names {
		r := *s.snap.Reports[name]
		r.GPUs = slices.Clone(r.GPUs)
		for g := range r.GPUs {
			change(&r, &r.GPUs[g].Fabric)
		}
		if now := r.Joined(); !now.Clique.IsZero() {
			r.Domain, r.DomainChanged = now, r.DomainChanged || r.Domain != now
		}
		next.Reports[r.Name] = &r
	}
	s.snap = next
	s.store.change(next)
}

// blocks are the clique and the number of nodes of each published block that has any.
func (s *partitionedSite) blocks(t *testing.T) string {
	t.Helper()
	var out []string
	blocks := s.store.plan(t).Current.Plan.Blocks()
	for i := range blocks {
		if b := &blocks[i]; len(b.Nodes) > 0 {
			out = append(out, fmt.Sprintf("%d:%d", b.Clique.ID, len(b.Nodes)))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// held are the reasons of what is held.
func (s *partitionedSite) held(t *testing.T) []plandoc.Held {
	t.Helper()
	return s.store.plan(t).Held
}

// TestDividedRackIsFollowed has partitions change that need nobody's approval.
func TestDividedRackIsFollowed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		jobs   []string
		change func(s *partitionedSite)
		want   string // clique:nodes of each block
		keeps  string // a node that keeps its block
	}{
		{"in two halves", []string{"gb200-[019-036]"}, func(s *partitionedSite) { s.now(1, 9, 51); s.now(10, 18, 52) }, "2:18 3:18 4:18 51:9 52:9", nodeName(1)},
		{"half of it", nil, func(s *partitionedSite) { s.now(10, 18, 52) }, "1:9 2:18 3:18 4:18 52:9", nodeName(1)},
		{"two of it", nil, func(s *partitionedSite) { s.now(17, 18, 52) }, "1:16 2:18 3:18 4:18 52:2", nodeName(1)},
		{"all but two", nil, func(s *partitionedSite) { s.now(3, 18, 52) }, "1:2 2:18 3:18 4:18 52:16", nodeName(3)},
		{"one of it, which is in no block", nil, func(s *partitionedSite) { s.now(18, 18, 52) }, "1:17 2:18 3:18 4:18", nodeName(1)},
		{"another number", []string{"gb200-[001-018]"}, func(s *partitionedSite) { s.now(1, 18, 52) }, "2:18 3:18 4:18 52:18", nodeName(1)},
		{"all racks get other numbers", []string{"gb200-[001-072]"}, func(s *partitionedSite) {
			for r := range 4 {
				s.now(18*r+1, 18*r+18, uint32(51+r))
			}
		}, "51:18 52:18 53:18 54:18", nodeName(1)},
		{"tray by tray", nil, func(s *partitionedSite) {
			for i := 10; i <= 18; i++ {
				s.now(i, i, 52)
				s.store.pass(3 * time.Second)
			}
		}, "1:9 2:18 3:18 4:18 52:9", nodeName(1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newPartitionedSite(t, 4)
			s.slurm.jobs = tt.jobs
			s.run(t, Publication{}, func() {
				block := s.store.plan(t).Current.Plan.Places()[tt.keeps].Block
				revision := s.store.plan(t).Current.Number
				tt.change(s)
				s.store.pass(5 * time.Second)
				if got := s.store.plan(t).Current.Number; got != revision {
					t.Errorf("revision %d before the change is confirmed", got)
				}
				s.store.pass(5 * time.Minute)
				if got := s.blocks(t); got != tt.want || len(s.held(t)) > 0 {
					t.Errorf("blocks %s, want %s, held %+v", got, tt.want, s.held(t))
				}
				if got := s.store.plan(t).Current.Plan.Places()[tt.keeps].Block; got != block {
					t.Errorf("%s is in block %s, and was in %s", tt.keeps, got, block)
				}
				wantKnown(t, s.store)
				s.store.edit(func() {})
				s.store.rests(t, time.Hour)
				if slices.Contains(s.store.events, placement.Repartitioned) {
					t.Errorf("events %v", s.store.events)
				}
			})
		})
	}
}

// TestDividedRackIsHeld has partitions change that people look at first. All else is published.
func TestDividedRackIsHeld(t *testing.T) {
	half := func(s *partitionedSite) { s.now(10, 18, 52) }
	for _, tt := range []struct {
		name   string
		racks  int
		slurm  func(*testSlurm)
		pub    Publication
		change func(s *partitionedSite)
		why    string
		want   string // after the approval
	}{
		{"a job across the change", 4, func(s *testSlurm) { s.jobs = []string{"gb200-[009-010]"} }, Publication{}, half, "jobs run on these blocks", "1:9 2:18 3:18 4:18 52:9"},
		{"a job in one part", 4, func(s *testSlurm) { s.jobs = []string{"gb200-[001-002]"} }, Publication{}, half, "jobs run on these blocks", "1:9 2:18 3:18 4:18 52:9"},
		{"Slurm does not answer", 4, func(s *testSlurm) { s.silent = true }, Publication{}, half, "Slurm has not said lately", "1:9 2:18 3:18 4:18 52:9"},
		{"Slurm hides jobs", 4, func(s *testSlurm) { s.jobs, s.hides = []string{"gb200-[009-010]"}, true }, Publication{}, half, "jobs run on these blocks", "1:9 2:18 3:18 4:18 52:9"},
		{"a tray says nothing", 4, nil, Publication{}, func(s *partitionedSite) {
			half(s)
			s.edit(1, 1, func(_ *topology.Node, f *topology.Fabric) { *f = topology.Fabric{State: topology.FabricInProgress} })
		}, "nobody knows the present NVLink domain of gb200-001 in these blocks", "1:8 2:18 3:18 4:18 52:10"},
		{"two racks at once", 4, nil, Publication{}, func(s *partitionedSite) { half(s); s.now(28, 36, 53) }, "18 of 72 nodes would change", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newPartitionedSite(t, tt.racks)
			s.run(t, tt.pub, func() {
				before := s.blocks(t)
				if tt.slurm != nil {
					s.slurm.set(func() { tt.slurm(s.slurm) })
					s.store.pass(10 * time.Minute)
				}
				tt.change(s)
				s.store.pass(10 * time.Minute)
				held := s.held(t)
				if got := s.blocks(t); got != before || len(held) == 0 {
					t.Fatalf("blocks %s, were %s, held %+v", got, before, held)
				}
				digest := ""
				for _, h := range held {
					if h.Reason == placement.BaseSizeChange { // which the change would make right
						continue
					}
					if digest = h.Digest; h.Reason != placement.Repartitioned || !h.Alone || !strings.Contains(h.Message, tt.why) {
						t.Errorf("held %+v, want %q", h, tt.why)
					}
				}
				if !slices.ContainsFunc(s.store.plan(t).Current.Plan.Problems, func(f topology.Finding) bool { return f.Reason == placement.Repartitioned }) && s.store.plan(t).Current.Number > 1 {
					t.Error("the plan does not name it")
				}
				s.store.pass(time.Hour) // conditions change after fabricWait
				s.store.rests(t, 2*time.Hour)
				if tt.want == "" {
					return
				}
				s.store.approveDigest(digest)
				s.store.pass(10 * time.Minute)
				if got := s.blocks(t); got != tt.want || slices.ContainsFunc(s.held(t), func(h plandoc.Held) bool { return h.Reason == placement.Repartitioned }) {
					t.Errorf("approved: blocks %s, want %s, held %+v", got, tt.want, s.held(t))
				}
			})
		})
	}
}

// TestDividedRackMerges has a rack divided, and then joined again. Nodes that moved follow again after an hour.
func TestDividedRackMerges(t *testing.T) {
	s := newPartitionedSite(t, 4)
	s.run(t, Publication{}, func() {
		for i, step := range []struct {
			change func()
			want   string
		}{
			{func() { s.now(10, 18, 52) }, "1:9 2:18 3:18 4:18 52:9"},
			{func() { s.now(10, 18, 1) }, "1:18 2:18 3:18 4:18"},
			{func() { s.now(1, 12, 51); s.now(13, 18, 52) }, "2:18 3:18 4:18 51:12 52:6"},
			{func() { s.now(1, 18, 7) }, "2:18 3:18 4:18 7:18"},
		} {
			before := s.blocks(t)
			step.change()
			s.store.pass(10 * time.Minute)
			if held := s.held(t); i > 0 {
				if s.blocks(t) != before || len(held) != 1 || !strings.Contains(held[0].Message, "moved in the last hour already") {
					t.Errorf("blocks %s, were %s, held %+v", s.blocks(t), before, held)
				}
				s.store.pass(time.Hour)
			}
			if got := s.blocks(t); got != step.want || len(s.held(t)) > 0 {
				t.Errorf("blocks %s, want %s, held %+v", got, step.want, s.held(t))
			}
			wantKnown(t, s.store)
		}
	})
}

// TestDividedRackOfSlowSlurm has a Slurm whose last answer is older than jobsAge. Slurm is asked before people are. Then a
// job keeps the nodes in place, and at last Slurm does not answer.
func TestDividedRackOfSlowSlurm(t *testing.T) {
	s := newPartitionedSite(t, 4)
	s.slurm.takes, s.first = 6*time.Second, 10*time.Minute+100*time.Second // the Keeper asks at 10 and at 13 minutes
	s.run(t, Publication{}, func() {
		s.now(10, 18, 52)
		s.store.pass(time.Minute)
		if got, want := s.blocks(t), "1:9 2:18 3:18 4:18 52:9"; got != want || slices.Contains(s.store.events, placement.Repartitioned) {
			t.Errorf("blocks %s, want %s, events %v", got, want, s.store.events)
		}
		s.slurm.set(func() { s.slurm.jobs = []string{"gb200-[019-020]"} })
		s.store.pass(4 * time.Minute)
		s.now(28, 36, 53)
		s.store.pass(4 * time.Minute)
		s.slurm.set(func() { s.slurm.silent = true })
		for _, want := range []string{"jobs run on these blocks", "Slurm has not said lately"} {
			if held := s.held(t); len(held) != 1 || !strings.Contains(held[0].Message, want) {
				t.Errorf("held %+v, want %q", held, want)
			}
			s.store.pass(6 * time.Minute)
		}
	})
}

// TestDividedRackFollowsLater has a job across the change end, and a Slurm answer again: then the nodes
// follow. A publisher that is new waits for the confirmation again.
func TestDividedRackFollowsLater(t *testing.T) {
	const before, after = "1:18 2:18 3:18 4:18", "1:9 2:18 3:18 4:18 52:9"
	for _, tt := range []struct {
		name       string
		begin, end func(*testSlurm)
	}{
		{"a job ends", func(s *testSlurm) { s.jobs = []string{"gb200-[001-018]"} }, func(s *testSlurm) { s.jobs = nil }},
		{"Slurm answers again", func(s *testSlurm) { s.silent = true }, func(s *testSlurm) { s.silent = false }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newPartitionedSite(t, 4)
			s.run(t, Publication{}, func() {
				s.slurm.set(func() { tt.begin(s.slurm) })
				s.store.pass(10 * time.Minute)
				s.now(10, 18, 52)
				s.store.pass(10 * time.Minute)
			})
			held := s.held(t)
			if got := s.blocks(t); got != before || len(held) != 1 {
				t.Fatalf("blocks %s, held %+v", got, held)
			}
			s.run(t, Publication{}, func() {
				if now := s.held(t); len(now) != 1 || now[0].Digest != held[0].Digest || !now[0].Since.Equal(held[0].Since) {
					t.Errorf("another publisher holds %+v, want %+v", now, held)
				}
				s.slurm.set(func() { tt.end(s.slurm) })
				s.store.pass(5 * time.Minute)
				if got := s.blocks(t); got != after || len(s.held(t)) > 0 {
					t.Errorf("blocks %s, want %s, held %+v", got, after, s.held(t))
				}
			})
		})
	}
	s := newPartitionedSite(t, 4)
	s.confirm = time.Minute
	s.run(t, Publication{}, func() {
		s.now(10, 18, 52)
		s.store.pass(50 * time.Second)
	})
	s.first = 50 * time.Second
	s.run(t, Publication{}, func() {
		if got := s.blocks(t); got != before {
			t.Errorf("a new publisher follows after 50 s: %s", got)
		}
		s.store.pass(time.Minute)
		if got := s.blocks(t); got != after {
			t.Errorf("it does not follow: %s", got)
		}
	})
}
