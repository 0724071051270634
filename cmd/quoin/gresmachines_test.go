package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
)

// gresMachines are one machine of every kind, those with minors in another order
// than NVML's among them.
func gresMachines(t *testing.T) []*topology.Node {
	t.Helper()
	var out []*topology.Node
	for site, names := range map[string][]string{
		"gb200-nvl72x4": {"gb200-001"}, "gb300-nvl72": {"gb300-r1t01"}, "hgx-h100": {"h100-01"}, "mixed": {"cpu-1"}, "a100-mig": {"a100-1", "a100-swapped", "a100-mig"},
	} {
		c := sites.Open(t, site)
		for _, name := range names {
			m, err := c.Machine(name)
			if err != nil || m.Report == nil {
				t.Fatalf("machine %s: %v", name, err)
			}
			n := copyReport(t, m.Report)
			if len(n.GPUs) == 0 {
				n.Sockets = []topology.Socket{{CPUs: "0-15", Cores: 16}}
			}
			if len(n.Tiers) == 0 {
				n.Tiers = []string{"leaf-x", "spine-x"}
			}
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *topology.Node) int { return cmp.Compare(a.Name, b.Name) })
	at := func(name string) *topology.Node {
		i := slices.IndexFunc(out, func(n *topology.Node) bool { return n.Name == name })
		return copyReport(t, out[i])
	}
	return append(out, partlyMIG(at("a100-mig")), bridged(at("a100-1")), assorted(at("a100-swapped")), merged(at("a100-swapped")))
}

func copyReport(t *testing.T, n *topology.Node) *topology.Node {
	t.Helper()
	data, err := topology.EncodeReport(n)
	if err != nil {
		t.Fatal(err)
	}
	again, err := topology.ParseReport(n.Name, data)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// partlyMIG turns the minors round, and leaves MIG on in three GPUs, of two
// profiles.
func partlyMIG(n *topology.Node) *topology.Node {
	n.Name = "partly-mig"
	for i := range n.GPUs {
		g := &n.GPUs[i]
		*g.Minor = len(n.GPUs) - 1 - i
		switch i {
		case 1, 4:
			g.MIG = g.MIG[:3]
		case 6:
			g.MIG = g.MIG[:2]
			for k := range g.MIG {
				g.MIG[k].Profile = "3g.40gb"
			}
		default:
			g.MIG = nil
		}
	}
	return n
}

// bridged joins pairs of GPUs by NVLink, at sockets with hyperthreads, and turns
// the minors round in every pair.
func bridged(n *topology.Node) *topology.Node {
	n.Name = "bridged"
	n.Sockets = []topology.Socket{{CPUs: "0-15,32-47", Cores: 16}, {CPUs: "16-31,48-63", Cores: 16}}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		*g.Minor, g.Product = i^1, "NVIDIA H100 NVL"
		g.CPUAffinity = n.Sockets[i/4].CPUs
		g.Links = &topology.Links{GPUs: []topology.LinksToGPU{{PCIBusID: n.GPUs[i^1].PCIBusID, Count: 12}}}
	}
	return n
}

// merged has two products that are called alike when they are called short, and
// a third between their minors.
func merged(n *topology.Node) *topology.Node {
	n.Name = "merged"
	for i := range n.GPUs {
		n.GPUs[i].Product = []string{"NVIDIA H100 80GB HBM3", "NVIDIA L40S", "NVIDIA H100 NVL"}[*n.GPUs[i].Minor%3]
	}
	return n
}

// assorted has GPUs of eight kinds, so that a job can ask for a given one.
func assorted(n *topology.Node) *topology.Node {
	n.Name = "assorted"
	for i := range n.GPUs {
		n.GPUs[i].Product = fmt.Sprintf("NVIDIA K%d", 10+i)
	}
	return n
}

// reportFiles writes a report of every node.
func reportFiles(t *testing.T, nodes []*topology.Node) []string {
	t.Helper()
	var reports []string
	dir := t.TempDir()
	for _, n := range nodes {
		data, err := topology.EncodeReport(n)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, n.Name+".json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		reports = append(reports, path)
	}
	return reports
}

func threadsOf(n *topology.Node) int { return 1 + strings.Count(n.Sockets[0].CPUs, ",") }
