package nodeagent

import "github.com/quoin-hpc/quoin/topology"

// confirmation follows which NVLink domain the readings of NVML in one boot agree
// on. A reading counts when all GPUs have joined one domain and it is known of
// which boot it is; two in a row that say the same confirm it, and it stands for
// the boot.
type confirmation struct {
	boot string
	// clique is what was confirmed in that boot, last what the last reading said;
	// both are zero for nothing.
	clique, last topology.Clique
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
	last := c.last
	c.last, _ = n.Joined()
	if c.last == last {
		c.again()
	}
}

// again takes a reading that says what the last one said, and reports whether
// that confirmed it.
func (c *confirmation) again() bool {
	if c.last.IsZero() || !c.clique.IsZero() {
		return false
	}
	c.clique = c.last
	return true
}

// breakRun takes a reading that failed, or that nobody could hear.
func (c *confirmation) breakRun() { c.last = topology.Clique{} }

// recall takes what an agent before this one stored. Of the same boot it came
// first.
func (c *confirmation) recall(stored *topology.Node) {
	if stored.BootID != "" && stored.BootID == c.boot && !stored.Domain.IsZero() {
		c.clique = stored.Domain
	}
}

// domainChanged is the problem of a node whose GPUs have joined another domain
// than was confirmed in this boot, none where they have not.
func domainChanged(n *topology.Node) (p topology.Problem, changed bool) {
	now, joined := n.Joined()
	if !joined || n.Domain.IsZero() || now == n.Domain {
		return p, false
	}
	return topology.Problem{Reason: reasonDomainChanged, Message: "NVML reports clique " + now.String() + " now, and clique " + n.Domain.String() +
		" was confirmed in this boot: the node stays where it is published; if it is in another NVLink domain now, reboot it"}, true
}
