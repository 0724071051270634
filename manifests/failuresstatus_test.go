package manifests_test

import (
	"testing"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/test/rig/imexrig"
)

// TestRealNoCliques is on a driver with its feature ComputeDomainCliques off, as it
// was before there was one: daemons have their entries in the domain's status, which
// is then all there is to judge by. An agent does not see it, and shuts no gate.
func TestRealNoCliques(t *testing.T) {
	t.Parallel()
	m := newMembershipOf(t, imexrig.Options{Nodes: imexrig.Racks(1, 4), NoCliques: true})
	m.startPublisher()
	for _, s := range imexrig.Racks(1, 4) {
		m.until(s.Name, "False Ready")
	}
	m.check(0, "same: all 4 nodes that need it are members of the IMEX domain")
	machine := m.startMachine("r00n00", "gb200", inClique(0))
	m.fleet.Node("r00n00").SetReady(false)
	m.fleet.Node("r00n01").SetReady(false)
	m.fleet.Node("r00n02").LoseEntry(true)
	m.until("r00n00", "True NotReady")
	m.until("r00n01", "True NotReady")
	m.until("r00n02", "True NotRegistered")
	m.until("r00n03", "False Ready")
	m.check(1, "r00n00: NotReady: ", "r00n01: NotReady: ", "r00n02: NotRegistered: ", "differs: 3 of 4 nodes")
	machine.gateIs(t, imex.ReasonUnknown)
}
