package publisher

import (
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// oneRack: NVLink joins no more GPUs than one rack has.
var oneRack = map[string]int{"GB200": 72}

// claimFirstRack returns the snapshot after the agents of the first rack fell silent, and 14 nodes of the last
// rack booted and named the domain of the first.
func claimFirstRack(snap *inputs.Snapshot) *inputs.Snapshot {
	to := snap.Reports[nodeName(1)].GPUs[0].Fabric
	next := withGPUs(snap, func(_ string, g *topology.GPU) { g.Fabric = to }, nodeNames(59, 72)...)
	for i := 1; i <= 18; i++ {
		delete(next.Reports, nodeName(i))
	}
	for i := 59; i <= 72; i++ {
		next.Reports[nodeName(i)].BootID += "-2"
	}
	return next
}

// TestMoversThatOverfillABlockAreHeld has 14 of 72 nodes name the NVLink domain of a full rack after a
// reboot: fewer than maxChange. They stay, the rack keeps its own nodes, and all else is published.
func TestMoversThatOverfillABlockAreHeld(t *testing.T) {
	snap := racks(t)
	s := &partitionedSite{store: newMemory(snap), snap: snap, slurm: &testSlurm{}, first: 10 * time.Minute}
	s.run(t, Publication{MaxDomainGPUs: oneRack}, func() {
		next := claimFirstRack(s.snap)
		s.snap = next
		s.store.change(next)
		s.store.pass(10 * time.Minute)
		held := s.held(t)
		if got := s.blocks(t); got != "1:18 2:18 3:18 4:18" || len(held) != 1 || held[0].Reason != placement.BlockOverfull || !held[0].Alone || !strings.Contains(held[0].Message, "gb200-[059-072]") {
			t.Fatalf("blocks %s, held %+v", got, held)
		}
		s.edit(30, 36, func(r *topology.Node, f *topology.Fabric) { f.Health = topology.HealthUnhealthy })
		s.store.pass(time.Hour)
		s.store.rests(t, 2*time.Hour)
		s.store.approveDigest(held[0].Digest)
		s.store.pass(10 * time.Minute)
		if got := s.blocks(t); got != "1:32 2:18 3:18 4:4" || len(s.held(t)) > 0 {
			t.Errorf("approved: blocks %s, held %+v", got, s.held(t))
		}
	})
}
