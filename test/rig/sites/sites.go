// Package sites opens simulated sites for tests.
package sites

import (
	"testing"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// Open opens a shipped site.
func Open(t testing.TB, name string) *simulated.Cluster {
	t.Helper()
	c, err := simulated.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Parse makes a site of the text of its file.
func Parse(t testing.TB, text string) *simulated.Cluster {
	t.Helper()
	c, err := simulated.Parse("site.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Facts is what is known of the machines of a site now, whose nodes have the machines' names in
// Slurm.
func Facts(c *simulated.Cluster) (facts []topology.Facts) {
	for _, m := range c.Machines() {
		if m.Exists {
			labels := nodelabels.Read(m.Labels, nodelabels.Keys{Tiers: nodelabels.DefaultTiers})
			facts = append(facts, topology.Facts{Name: m.Name, SlurmName: m.Name, Report: m.Report, Labels: labels})
		}
	}
	return facts
}
