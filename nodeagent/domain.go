package nodeagent

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// confirmation follows which NVLink domain the readings of NVML in one boot agree
// on. A reading counts when all GPUs have joined one domain, or have none to join,
// and it is known of which boot it is; two in a row that say the same confirm it.
// A clique stands for the boot. That there is none stands until one is confirmed,
// for a driver may say so before its fabric is there.
type confirmation struct {
	boot string
	// domain is what was confirmed in that boot, last what the last reading said;
	// both are zero for nothing.
	domain, last topology.NVLinkDomain
}

// read takes a reading.
func (c *confirmation) read(n *topology.Node) {
	if n.BootID == "" {
		c.breakRun()
		return
	}
	if n.BootID != c.boot {
		*c = confirmation{boot: n.BootID}
	}
	if slices.ContainsFunc(n.Problems, func(p topology.Problem) bool { return p.Reason == topology.ReasonUnsettled }) {
		c.breakRun() // it is the reading before once more
		return
	}
	last := c.last
	c.last = n.Joined()
	if c.last == last {
		c.again()
	}
}

// again takes a reading that says what the last one said, and reports whether
// that confirmed it.
func (c *confirmation) again() bool {
	if c.last.IsZero() || c.last == c.domain || !c.domain.Clique.IsZero() {
		return false
	}
	c.domain = c.last
	return true
}

// breakRun takes a reading that failed, or that nobody could hear.
func (c *confirmation) breakRun() { c.last = topology.NVLinkDomain{} }

// recall takes what an agent before this one stored. Of the same boot it came
// first.
func (c *confirmation) recall(stored *topology.Node) {
	if stored.BootID == "" || stored.BootID != c.boot {
		return
	}
	if !stored.Domain.Clique.IsZero() || c.domain.IsZero() {
		c.domain = stored.Domain
	}
}

// domainChanged is the problem of a node whose GPUs have joined another clique than
// was confirmed in this boot, or have none now.
func domainChanged(n *topology.Node) (p topology.Problem, changed bool) {
	now := n.Joined()
	if now.IsZero() || n.Domain.Clique.IsZero() || now == n.Domain {
		return p, false
	}
	reports := "clique " + now.Clique.String()
	if now.None {
		reports = "no NVLink between nodes"
	}
	return topology.Problem{Reason: reasonDomainChanged, Message: "NVML reports " + reports + " now, and clique " + n.Domain.Clique.String() +
		" was confirmed in this boot: the node stays where it is published; if it is in another NVLink domain now, reboot it"}, true
}
