package doctor

import (
	"fmt"
	"io"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/topology"
)

// PrintStatus says in a few lines how the cluster is. It returns all findings.
func (c *Cluster) PrintStatus(w io.Writer, s *Site) []topology.Finding {
	nodes, gpus := len(c.Objects["nodes"]), 0
	for i := range c.Objects["nodes"] {
		if c.Objects["nodes"][i].GetLabels()[labelGPU] == "true" {
			gpus++
		}
	}
	ready := func(resource, component, have string, want ...string) string {
		o := c.own(resource, component)
		if c.Missing[resource] != nil {
			return "not known"
		} else if o == nil {
			return "not installed"
		}
		return fmt.Sprintf("%d of %d ready, %s", number(o, "status", have), number(o, want...), imageOf(o))
	}
	labelled, report := fmt.Sprintf("%d, %d labelled as nodes with GPUs", nodes, gpus), fmt.Sprintf("%d report", len(c.Objects["nodereports"]))
	if c.Missing["nodes"] != nil {
		labelled = "not known"
	}
	if c.Missing["nodereports"] != nil {
		report = "not known how many report"
	}
	fmt.Fprintf(w, "%-12s %s, %s\n", "nodes", labelled, report)
	fmt.Fprintf(w, "%-12s %s\n", "agents", ready("daemonsets", "agent", "numberReady", "status", "desiredNumberScheduled"))
	fmt.Fprintf(w, "%-12s %s\n", "publishers", ready("deployments", "publisher", "readyReplicas", "spec", "replicas"))
	if lease := c.named("leases", c.publisherNamespace(), "quoin-publisher"); lease != nil {
		fmt.Fprintf(w, "%-12s %s, renewed %s\n", "leader", text(lease, "spec", "holderIdentity"), text(lease, "spec", "renewTime"))
	}
	for _, p := range s.Publications {
		var f findings
		checks{c}.publication(&f, p, s)
		for _, found := range f {
			fmt.Fprintf(w, "%-12s %s\n", "files", found.Message)
		}
	}
	why := ""
	if s.Why != "" {
		why = ": " + s.Why
	}
	if s.ConfigErr != nil {
		fmt.Fprintf(w, "%-12s not known: %v\n%-12s not known\n", "files", s.ConfigErr, "imex")
	} else {
		fmt.Fprintf(w, "%-12s %s%s\n", "imex", s.Join, why)
	}
	if s.Domain.Reason != "" {
		fmt.Fprintf(w, "%-12s %s\n", "", s.Domain)
	}
	all := c.Findings(s)
	fmt.Fprintf(w, "%-12s %s; quoin doctor names them\n", "doctor", show.Counts(all))
	return all
}

func (c *Cluster) publisherNamespace() string {
	if d := c.own("deployments", "publisher"); d != nil {
		return d.GetNamespace()
	}
	return ""
}
