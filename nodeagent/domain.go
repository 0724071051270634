package nodeagent

import (
	"cmp"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// confirmation finds the NVLink domain that the readings of NVML in one boot agree
// on. Two equal readings in a row confirm a domain. A reading counts if its boot is
// known, and if all GPUs have joined one domain or have none to join. Another clique
// that is confirmed takes the place of the first one, because the partitions of an
// NVLink fabric can change while the machine runs. A confirmed "no domain" gives way
// to a clique, because a driver may say so before its fabric is up. A clique does not
// give way to "no domain".
type confirmation struct {
	boot string
	// domain was confirmed last in this boot, and the last reading found last. Zero is nothing.
	domain, last topology.NVLinkDomain
	// changed: another clique was confirmed before it in this boot.
	changed bool
	// earlier is the clique that was confirmed in an earlier boot.
	earlier topology.Clique
}

// read takes a reading.
func (c *confirmation) read(n *topology.Node) {
	if n.BootID == "" {
		c.reset()
		return
	}
	if n.BootID != c.boot {
		*c = confirmation{boot: n.BootID, earlier: cmp.Or(c.domain.Clique, c.earlier)}
	}
	if slices.ContainsFunc(n.Problems, func(p topology.Finding) bool { return p.Reason == topology.ReasonUnsettled }) {
		c.reset() // it shows the facts of an earlier reading
		return
	}
	last := c.last
	c.last = n.Joined()
	if c.last == last {
		c.repeat()
	}
}

// repeat takes a reading that is equal to the last one.
func (c *confirmation) repeat() {
	if first := c.domain.Clique.IsZero(); !c.last.Clique.IsZero() || first && !c.last.IsZero() {
		c.changed = c.changed || !first && c.last != c.domain
		c.domain = c.last
	}
}

// reset takes a reading that failed or was lost.
func (c *confirmation) reset() { c.last = topology.NVLinkDomain{} }

// recall takes what an earlier agent confirmed in the same boot, and in earlier ones.
func (c *confirmation) recall(stored *topology.Node) {
	c.earlier = cmp.Or(c.earlier, stored.EarlierClique)
	if stored.BootID == "" || stored.BootID != c.boot {
		c.earlier = cmp.Or(stored.Domain.Clique, c.earlier)
		return
	}
	if known := !c.domain.Clique.IsZero(); !known && !stored.Domain.IsZero() {
		c.domain, c.changed = stored.Domain, stored.DomainChanged
	} else if known && !stored.Domain.Clique.IsZero() {
		c.changed = c.changed || stored.DomainChanged || stored.Domain != c.domain
	}
}

// report says in a report which domain is confirmed. A node that had a clique does not confirm that
// it has none because its GPUs say so: fabric.Site.Judge says whether they are believed.
func (c *confirmation) report(n *topology.Node) {
	n.Domain, n.DomainChanged, n.EarlierClique = c.domain, c.changed, topology.Clique{}
	if !n.Domain.Clique.IsZero() {
		return
	}
	if n.EarlierClique = c.earlier; !c.earlier.IsZero() {
		n.Domain = topology.NVLinkDomain{}
	}
}

// domainLost is the problem of a node whose GPUs name no clique, although one was confirmed in this
// boot.
func domainLost(n *topology.Node) (p topology.Finding, lost bool) {
	if !n.Joined().None || n.Domain.Clique.IsZero() {
		return p, false
	}
	return topology.Finding{Reason: reasonDomainChanged, Message: "NVML reports no NVLink between nodes now, and clique " + n.Domain.Clique.String() +
		" was confirmed in this boot: the node stays where it is published; if no NVLink joins it with others any more, reboot it"}, true
}
