package nodeagent

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// confirmation finds the NVLink domain that the readings of NVML in one boot agree
// on. Two equal readings in a row confirm a domain. A reading counts if its boot is
// known, and if all GPUs have joined one domain or have none to join. A confirmed
// clique holds for the boot. A confirmed "no domain" gives way to a clique, because a
// driver may say so before its fabric is up.
type confirmation struct {
	boot string
	// domain was confirmed in this boot, and the last reading found last. Zero is nothing.
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
	if slices.ContainsFunc(n.Problems, func(p topology.Finding) bool { return p.Reason == topology.ReasonUnsettled }) {
		c.breakRun() // it shows the facts of an earlier reading
		return
	}
	last := c.last
	c.last = n.Joined()
	if c.last == last {
		c.again()
	}
}

// again takes a reading that is equal to the last one.
func (c *confirmation) again() {
	if !c.last.IsZero() && c.domain.Clique.IsZero() {
		c.domain = c.last
	}
}

// breakRun takes a reading that failed or was lost.
func (c *confirmation) breakRun() { c.last = topology.NVLinkDomain{} }

// recall takes what an earlier agent confirmed in the same boot.
func (c *confirmation) recall(stored *topology.Node) {
	if stored.BootID == "" || stored.BootID != c.boot {
		return
	}
	if !stored.Domain.Clique.IsZero() || c.domain.IsZero() {
		c.domain = stored.Domain
	}
}

// domainChanged is the problem of a node whose GPUs are in another clique than the
// one confirmed in this boot, or in none.
func domainChanged(n *topology.Node) (p topology.Finding, changed bool) {
	now := n.Joined()
	if now.IsZero() || n.Domain.Clique.IsZero() || now == n.Domain {
		return p, false
	}
	reports := "clique " + now.Clique.String()
	if now.None {
		reports = "no NVLink between nodes"
	}
	return topology.Finding{Reason: reasonDomainChanged, Message: "NVML reports " + reports + " now, and clique " + n.Domain.Clique.String() +
		" was confirmed in this boot: the node stays where it is published; if it is in another NVLink domain now, reboot it"}, true
}
