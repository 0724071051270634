package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/quoin-hpc/quoin/topology"
)

// printMIG prints the MIG instances, if there are any.
func printMIG(w io.Writer, n *topology.Node) {
	if !slices.ContainsFunc(n.GPUs, func(g topology.GPU) bool { return len(g.MIG) > 0 }) {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	indices := gresIndices(n)
	fmt.Fprintln(t, "GRES\tDEVICE\tMIG\tINSTANCE\tCAPABILITIES\tUUID")
	for _, g := range n.GRESOrder() {
		for _, m := range g.MIG {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d/%d\t%s\t%s\n", indices[m.UUID], deviceOf(&g), cmp.Or(m.Profile, "-"), m.GPUInstanceID, m.ComputeInstanceID, cmp.Or(strings.Join(m.Capabilities, " "), "-"), m.UUID)
		}
	}
	_ = t.Flush() // into memory or a terminal
}

// printLinks prints how each GPU reaches others: its NVLinks, and the PCIe ancestor that
// it shares with each peer.
func printLinks(w io.Writer, n *topology.Node) {
	if !slices.ContainsFunc(n.GPUs, func(g topology.GPU) bool { return len(g.NVLinks)+len(g.Peers) > 0 }) {
		return
	}
	names := map[string]string{}
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.Minor != nil {
			names[g.PCIBusID] = strings.TrimPrefix(deviceOf(g), "/dev/")
		}
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DEVICE\tNVLINKS TO\tPCIE ANCESTOR WITH")
	for _, g := range n.GRESOrder() {
		var links, peers tally
		for _, l := range g.NVLinks {
			links.add(cmp.Or(names[l.RemotePCIBusID], l.RemotePCIBusID, l.Remote), "")
		}
		for _, p := range g.Peers {
			peers.add(p.Ancestor, cmp.Or(names[p.PCIBusID], p.PCIBusID))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", deviceOf(&g), links.counts(), peers.lists())
	}
	_ = t.Flush() // into memory or a terminal
}

// tally gathers members under names, and keeps the order in which names come.
type tally struct {
	names   []string
	members map[string][]string
}

func (t *tally) add(name, member string) {
	if t.members == nil {
		t.members = map[string][]string{}
	}
	if t.members[name] == nil {
		t.names = append(t.names, name)
	}
	t.members[name] = append(t.members[name], member)
}

// counts returns a text such as "18 switch".
func (t *tally) counts() string {
	var parts []string
	for _, name := range t.names {
		parts = append(parts, fmt.Sprintf("%d %s", len(t.members[name]), name))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// lists returns a text such as "hostbridge: nvidia1 nvidia2, system: nvidia3".
func (t *tally) lists() string {
	var parts []string
	for _, name := range t.names {
		parts = append(parts, name+": "+strings.Join(t.members[name], " "))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// printHealth prints what is wrong with a GPU's fabric, and its Xids.
func printHealth(w io.Writer, n *topology.Node) {
	for _, g := range n.GRESOrder() {
		var bad []string
		is := func(v *bool) bool { return v != nil && *v }
		f := &g.Fabric.HealthFields
		for _, field := range []struct {
			is   bool
			name string
		}{
			{is(f.DegradedBandwidth), "degraded bandwidth"},
			{is(f.RouteRecovery), "route recovery in progress"},
			{is(f.RouteUnhealthy), "unhealthy route"},
			{is(f.AccessTimeoutRecovery), "access timeout recovery in progress"},
			{f.PartitionAssigned != nil && !*f.PartitionAssigned, "no partition assigned"},
			{f.IncorrectConfiguration != "" && f.IncorrectConfiguration != "none", "incorrect configuration: " + f.IncorrectConfiguration},
			{len(g.Xids) > 0, "Xids " + strings.Trim(fmt.Sprint(g.Xids), "[]")},
		} {
			if field.is {
				bad = append(bad, field.name)
			}
		}
		if len(bad) > 0 {
			fmt.Fprintf(w, "%s: %s\n", g.UUID, strings.Join(bad, ", "))
		}
	}
}
