package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/report"
	"github.com/quoin-hpc/quoin/topology"
)

// listMembers lists all nodes with verdicts, and what is seen of each.
func listMembers(w io.Writer, seen *imex.Observation, verdicts map[string]imex.Verdict) error {
	entries, claims := entriesOf(seen), map[string][]string{}
	for i := range seen.Claims {
		c := &seen.Claims[i]
		claims[c.Node] = append(claims[c.Node], claimText(c))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tCLIQUE\tLABEL\tINDEX\tADDRESS\tSTATUS\tCLAIM\tDAEMON\tCHANNELS\tVERDICT")
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		n := seen.Nodes[name]
		index, address, status := "-", "-", "-"
		if e, is := entries[entryKey{name, n.CliqueID()}]; is {
			index, address, status = strconv.Itoa(e.Index), cmp.Or(report.Printable(e.Address), "-"), "NotReady"
			if e.Ready {
				status = "Ready"
			}
		}
		daemon, channels := localText(n.Local)
		slices.Sort(claims[name])
		verdict := verdicts[name].Reason
		if note := verdicts[name].Note; note != "" {
			verdict += ", but " + note
		}
		fmt.Fprintln(t, strings.Join([]string{name, cmp.Or(report.Printable(n.CliqueID()), "-"), labelText(seen, &n), index, address, status,
			cmp.Or(strings.Join(claims[name], ", "), "-"), daemon, channels, verdict}, "\t"))
	}
	return t.Flush()
}

// localText is what a node's report says of its daemon and of its channel files.
func localText(local *topology.IMEX) (daemon, channels string) {
	switch {
	case local == nil:
		return "-", "-"
	case local.ChannelMajor == nil:
		return "-", "no major"
	}
	return cmp.Or(report.Printable(local.DaemonState), "-"), strconv.Itoa(local.Channels)
}

// entryKey names the entry of a node in a clique.
type entryKey struct{ node, clique string }

// entriesOf returns the entries of the wanted domain: its cliques' entries, or its
// status if the driver has no cliques.
func entriesOf(seen *imex.Observation) map[entryKey]imex.Member {
	entries := map[entryKey]imex.Member{}
	for _, c := range seen.Cliques {
		for _, m := range c.Daemons {
			if c.Domain == seen.Domain.UID {
				entries[entryKey{m.Node, c.ID}] = m
			}
		}
	}
	if len(seen.Cliques) == 0 {
		for node, m := range seen.Members {
			entries[entryKey{node, m.Clique}] = m
		}
	}
	return entries
}

// labelText says whether the node's label names the wanted domain.
func labelText(seen *imex.Observation, n *imex.Node) string {
	switch n.DomainLabel {
	case "":
		return "-"
	case seen.Domain.UID:
		return "yes"
	}
	return "other"
}

// claimText is such as "holder quoin-system/quoin-imex-x2x4v".
func claimText(c *imex.Claim) string {
	owner := cmp.Or(c.Owner, "unknown")
	switch {
	case c.Waiting != "":
		return owner + " waits " + report.Printable(c.Waiting)
	case len(c.Pods) == 0:
		return "unused " + report.Printable(c.Namespace+"/"+c.Name)
	}
	return owner + " " + report.Printable(strings.Join(c.Pods, " "))
}
