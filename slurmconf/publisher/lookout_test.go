package publisher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/live"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// lateSlurm read its files at some time. Its nodes are placed by the file.
type lateSlurm struct {
	nodes []inputs.Node
	read  time.Time
	asked int
}

func (s *lateSlurm) Ask(context.Context, live.Question) (*live.State, error) {
	s.asked++
	state := &live.State{Read: s.read, Nodes: map[string]live.Node{}}
	for i := range s.nodes {
		state.Nodes[s.nodes[i].Name] = live.Node{Registered: true}
	}
	return state, nil
}

func (s *lateSlurm) Reconfigure(context.Context) error {
	s.read = time.Now()
	return nil
}

// TestAnnotationsWaitForSlurm has a rack join while nothing makes Slurm load files.
func TestAnnotationsWaitForSlurm(t *testing.T) {
	for name, reconfigure := range map[string]bool{"until somebody reconfigures": false, "or told to": true} {
		t.Run(name, func(t *testing.T) {
			store, slurm := newMemory(racks(t, lastRack(0)...)), &lateSlurm{nodes: racks(t).Nodes}
			pubs := complete(t, Publication{Slurm: publication.Slurm{Scontrol: "scontrol", Reconfigure: reconfigure}})
			prepare := func(p *Publisher) {
				p.options.Slurm = func(*publication.Cluster) loaded.Slurm { return slurm }
			}
			inBubbleWith(t, store, pubs, prepare, func(*Publisher) {
				slurm.read = time.Now().Add(time.Minute) // as slurmctld starts later
				store.pass(time.Hour)
				if store.notes[nodeName(1)] == "" {
					t.Fatal("Slurm has the files, and no node is annotated")
				}
				store.change(racks(t))
				store.pass(2 * time.Minute)
				behind := func() string { return store.get("slurm/quoin-slurm").Annotations[published.AnnotationBehind] }
				if text := behind(); text != "loaded: gb200-[055-072]: Slurm has not loaded the published file yet" {
					t.Errorf("two minutes after the change: %q", text)
				}
				store.pass(15 * time.Second)
				never := strings.HasPrefix(behind(), "loaded: gb200-[055-072]: The file was never loaded, which was published at ")
				if !never || !slices.Contains(store.events, loaded.ReasonNeverLoaded) {
					t.Errorf("after two minutes: %q, events %v", behind(), store.events)
				}
				if !reconfigure {
					store.pass(time.Hour)
					if store.notes[nodeName(55)] != "" {
						t.Error("annotated with a block that Slurm does not have")
					}
					slurm.read = time.Now()
				}
				saves := store.saves
				store.pass(2 * time.Minute)
				if store.notes[nodeName(55)] == "" || behind() != "" || store.saves != saves+1 {
					t.Errorf("Slurm has loaded the files: annotation %q, behind %q, %d writes", store.notes[nodeName(55)], behind(), store.saves-saves)
				}
				asked := slurm.asked
				store.pass(24 * time.Hour)
				if slurm.asked > asked+24*6 || store.saves != saves+1 {
					t.Errorf("asked %d times in a day at rest, %d writes", slurm.asked-asked, store.saves-saves-1)
				}
			})
		})
	}
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

func nodeName(n int) string { return fmt.Sprintf("gb200-%03d", n) }

// lastRack has all nodes of the last rack absent but the first ones.
func lastRack(there int) (absent []simulated.Fault) {
	for i := there; i < 18; i++ {
		absent = append(absent, simulated.Fault{Node: nodeName(55 + i), Absent: true})
	}
	return absent
}
