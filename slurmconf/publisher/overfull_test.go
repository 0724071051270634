package publisher

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestMoversThatOverfillABlockAreHeld has 14 of 72 nodes name the NVLink domain of a full rack after a
// reboot: fewer than maxChange. They stay, the rack keeps its own nodes, and all else is published.
func TestMoversThatOverfillABlockAreHeld(t *testing.T) {
	snap := racks(t)
	for _, r := range snap.Reports { // of a product of which nothing is known
		for g := range r.GPUs {
			r.GPUs[g].Product = "NVIDIA X1"
		}
	}
	s := &partitionedSite{store: newMemory(snap), snap: snap, slurm: &jobsSlurm{}, first: 10 * time.Minute}
	s.run(t, Publication{}, func() {
		to := s.snap.Reports[nodeName(1)].GPUs[0].Fabric
		next := &inputs.Snapshot{Nodes: s.snap.Nodes, Reports: maps.Clone(s.snap.Reports)}
		for i := 59; i <= 72; i++ {
			r := *s.snap.Reports[nodeName(i)]
			r.GPUs = slices.Clone(r.GPUs)
			for g := range r.GPUs {
				r.GPUs[g].Fabric = to
			}
			r.Domain, r.BootID = r.Joined(), r.BootID+"-2"
			next.Reports[r.Name] = &r
		}
		s.snap = next
		s.store.change(next)
		s.store.pass(10 * time.Minute)
		held := s.held(t)
		if got := s.blocks(t); got != "1:18 2:18 3:18 4:18" || len(held) != 1 || held[0].Reason != placement.BlockOverfull || !held[0].Alone || !strings.Contains(held[0].Message, "gb200-[059-072]") {
			t.Fatalf("blocks %s, held %+v", got, held)
		}
		s.edit(30, 36, func(r *topology.Node, f *topology.Fabric) { f.Health = topology.HealthUnhealthy })
		saves := s.store.saves
		s.store.pass(2 * time.Hour)
		if s.store.saves != saves {
			t.Errorf("%d saves while nothing changes", s.store.saves-saves)
		}
		s.store.approveDigest(held[0].Digest)
		s.store.pass(10 * time.Minute)
		if got := s.blocks(t); got != "1:32 2:18 3:18 4:4" || len(s.held(t)) > 0 {
			t.Errorf("approved: blocks %s, held %+v", got, s.held(t))
		}
	})
}
