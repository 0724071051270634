package publisher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// mortal is a store whose publisher is killed at one write: nothing that it does after
// that reaches the store.
type mortal struct {
	*memory
	pub    Publication
	at     int  // the number of the write, from 1; 0: never
	before bool // the write itself does not reach the store
	writes int
	kill   context.CancelFunc
}

var errKilled = errors.New("killed")

// write makes one write, unless the publisher is dead.
func (m *mortal) write(do func() error) error {
	m.mu.Lock()
	m.writes++
	n := m.writes
	m.mu.Unlock()
	if m.at > 0 && (n > m.at || n == m.at && m.before) {
		m.kill()
		return errKilled
	}
	err := do()
	if n == m.at {
		m.kill()
		return errKilled
	}
	return err
}

func (m *mortal) Save(ctx context.Context, p plandoc.Location, out *plandoc.Published) (version string, err error) {
	err = m.write(func() (err error) {
		version, err = m.memory.Save(ctx, p, out)
		return err
	})
	return version, err
}

func (m *mortal) SavePlan(ctx context.Context, d *plandoc.Document) (version string, err error) {
	err = m.write(func() (err error) {
		version, err = m.memory.SavePlan(ctx, d)
		return err
	})
	return version, err
}

func (m *mortal) Mark(ctx context.Context, n *inputs.Node, change inputs.Marks) error {
	return m.write(func() error { return m.memory.Mark(ctx, n, change) })
}

// lives runs a publisher for two hours of fake time, or until it is killed, and returns how
// many writes it made.
func (m *mortal) lives(t *testing.T) int {
	t.Helper()
	pubs := complete(t, m.pub)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		m.kill, m.changes = cancel, make(chan struct{}, 1)
		if err := newPublisher(m, pubs).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return m.writes
}

// ends is what must be the same in the end.
type ends struct {
	Files, Notes map[string]string
	Marks        map[string]map[string]string // labels, by node
	Plan         plandoc.Plan
	Held         string
	Revision     int
}

func (m *mortal) ends(t *testing.T) ends {
	t.Helper()
	set, d := m.get("slurm/quoin-slurm"), m.plan(t)
	revision := set.Annotations[plandoc.AnnotationRevision] == fmt.Sprint(d.Current.Number) || d.Current.Plan.ByAnnotation
	if digest := d.Current.OfFiles(); plandoc.Digest(set.Own()) != digest || set.Annotations[plandoc.AnnotationDigest] != digest || !revision {
		t.Errorf("the files are not those of the plan, revision %d: %v", d.Current.Number, set.Annotations)
	}
	return ends{set.Own(), maps.Clone(m.notes), maps.Clone(m.marks.values), d.Current.Plan, set.Annotations[plandoc.AnnotationHeldReason], d.Current.Number}
}

// killedRacks returns two racks of 18 places with three nodes each. They are few, because each
// node has an annotation.
func killedRacks(t *testing.T, faults ...simulated.Fault) *inputs.Snapshot {
	t.Helper()
	snap := racks(t, faults...)
	var nodes []inputs.Node
	for i := range snap.Nodes {
		if n := snap.Nodes[i]; i < 3 || i >= 18 && i < 21 {
			nodes = append(nodes, n)
		}
	}
	snap.Nodes = nodes
	return snap
}

// TestKilledAtEachWrite kills the publisher before and after each write. The next one ends
// where one ends that was not killed.
func TestKilledAtEachWrite(t *testing.T) {
	for _, membership := range []string{"file", "annotation"} {
		t.Run(membership, func(t *testing.T) {
			killedAtEachWrite(t, Publication{Membership: membership, Labels: true})
		})
	}
}

func killedAtEachWrite(t *testing.T, pub Publication) {
	t.Helper()
	moved := simulated.Fault{Node: "gb200-001", MoveTo: "gb200-019", Reboot: true}
	empty := func(*testing.T) *memory { return newMemory(killedRacks(t)) }
	settled := func(t *testing.T) *memory {
		m := &mortal{memory: empty(t), pub: pub}
		m.lives(t)
		return m.memory
	}
	rollBack := func(m *memory) {
		m.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationRollback] = "1"
	}
	for _, tt := range []struct {
		name   string
		begin  func(*testing.T) *memory
		change func(*memory)
		writes int // at least, with membership: file and with annotation
		quiet  int
	}{
		{"first publication", empty, func(*memory) {}, 8, 8},
		{"a move", settled, func(m *memory) { m.snap = killedRacks(t, moved) }, 3, 2},
		{"a node leaves", settled, func(m *memory) { m.snap.Nodes = m.snap.Nodes[1:] }, 2, 1},
		{"an edit", settled, func(m *memory) { m.get("slurm/quoin-slurm").Files["topology.yaml"] = "mine" }, 1, 1},
		{"from file", func(t *testing.T) *memory {
			m := &mortal{memory: empty(t), pub: Publication{Membership: "file"}}
			m.lives(t)
			return m.memory
		}, func(*memory) {}, 0, 2},
		{"a rollback", func(t *testing.T) *memory {
			m := settled(t)
			m.snap = killedRacks(t, moved)
			(&mortal{memory: m, pub: pub}).lives(t)
			return m
		}, rollBack, 3, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begin := func() *mortal {
				m := tt.begin(t)
				tt.change(m)
				return &mortal{memory: m, pub: pub}
			}
			unkilled := begin()
			writes := unkilled.lives(t)
			want := unkilled.ends(t)
			least := tt.writes
			if pub.Membership == "annotation" {
				least = tt.quiet
			}
			if writes < least {
				t.Fatalf("%d writes, want %d or more to kill at", writes, least)
			}
			for at := 1; at <= writes; at++ {
				for _, before := range []bool{true, false} {
					m := begin()
					m.at, m.before = at, before
					m.lives(t)
					next := &mortal{memory: m.memory, pub: pub}
					next.lives(t)
					if diff := cmp.Diff(want, next.ends(t)); diff != "" {
						t.Errorf("killed at write %d of %d, before it %v (-want +got):\n%s", at, writes, before, diff)
					}
				}
			}
		})
	}
}

// TestKilledWhileADecisionIsHeld kills the publisher at each write of a publication beside a held
// decision, and of the approval. The next one holds the same, and an approval is used.
func TestKilledWhileADecisionIsHeld(t *testing.T) {
	site := []rackOf{{"core", 1, 4}, {"core", 2, 2}}
	classes := Publication{SizeClasses: []int{4, 2}, Annotate: new(false)}
	published := func(t *testing.T) *memory {
		m := &mortal{memory: newMemory(siteOf(site...)), pub: Publication{BaseBlockSize: 4, Annotate: new(false)}}
		m.lives(t)
		m.snap = siteOf(append(site, rackOf{"core", 3, 4})...)
		return m.memory
	}
	approved := func(t *testing.T) *memory {
		m := &mortal{memory: published(t), pub: classes}
		m.lives(t)
		files := m.get("slurm/quoin-slurm")
		files.Annotations[plandoc.AnnotationApprove] = files.Annotations[plandoc.AnnotationHeld]
		return m.memory
	}
	for name, begin := range map[string]func(*testing.T) *memory{"held": published, "approved": approved} {
		t.Run(name, func(t *testing.T) {
			unkilled := &mortal{memory: begin(t), pub: classes}
			writes, want := unkilled.lives(t), unkilled.ends(t)
			if (want.Held == "") != (name == "approved") || writes < 2 {
				t.Fatalf("%d writes, held %q", writes, want.Held)
			}
			for at := 1; at <= writes; at++ {
				for _, before := range []bool{true, false} {
					m := &mortal{memory: begin(t), pub: classes, at: at, before: before}
					m.lives(t)
					next := &mortal{memory: m.memory, pub: classes}
					next.lives(t)
					if diff := cmp.Diff(want, next.ends(t)); diff != "" {
						t.Errorf("killed at write %d of %d, before it %v (-want +got):\n%s", at, writes, before, diff)
					}
					if text := next.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationApprove]; text != "" {
						t.Errorf("killed at write %d of %d: the approval stays: %q", at, writes, text)
					}
				}
			}
		})
	}
}

// TestKilledInADirectory finds the files of two revisions mixed, as a publisher leaves them
// that is killed between two of its files: plan, files in the order of their names,
// publication.json.
func TestKilledInADirectory(t *testing.T) {
	pub := complete(t, Publication{MaxChange: new(1.0)})[0]
	folder := func(store *dir.Store, name string) string { return filepath.Join(store.Folder(pub.Place()), name) }
	copied := func(from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	published := func(sites ...string) *dirRig {
		r := &dirRig{t: t, dir: t.TempDir(), pub: pub}
		r.store = dir.New(r.dir)
		for _, site := range sites {
			r.site(site)
			r.lives()
		}
		return r
	}
	next := published("gb200-nvl72x4", "mixed")
	order := []string{"gres.conf", "topology.yaml", "publication.json"}
	for killed := range len(order) + 1 {
		r := published("gb200-nvl72x4")
		r.site("mixed")
		copied(next.store.PlanFile("default"), r.store.PlanFile("default"))
		for _, name := range order[:killed] {
			copied(folder(next.store, name), folder(r.store, name))
		}
		for range 2 { // the next publisher writes what is missing, and another finds nothing to do
			r.lives()
		}
		want, err := next.store.Load(t.Context(), pub.Place())
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.store.Load(t.Context(), pub.Place())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Files, got.Files); diff != "" || got.Annotations["quoin.dev/digest"] != want.Annotations["quoin.dev/digest"] || got.Annotations["quoin.dev/revision"] != "2" {
			t.Errorf("killed after %d files, annotations %v (-want +got):\n%s", killed, got.Annotations, diff)
		}
	}
}
