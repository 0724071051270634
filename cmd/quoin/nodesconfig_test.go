package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

func TestNodesConfig(t *testing.T) {
	const cluster = "8a61c302-0000-4000-8000-000000000001"
	d := &plandoc.Document{Current: plandoc.Revision{Plan: plandoc.Plan{Plan: topology.Plan{
		Topologies: []topology.Topology{{Name: "nvl", Kind: "block", Blocks: []topology.Block{
			{Name: "nvl-8a61c302-1", Nodes: hosts.In("slurm-[1-3]")}, {Name: "nvl-8a61c302-2", Nodes: hosts.In("slurm-[4-5]")}, {Name: "spare-01"}}}},
		Nodes: []topology.Placement{{SlurmName: "slurm-1", Node: "gb200-b"}, {SlurmName: "slurm-2", Node: "gb200-a"}, {SlurmName: "slurm-3", Node: "slurm-3"}},
	}}}}
	addresses := map[string]string{"gb200-a": "10.0.0.20", "gb200-b": "10.0.0.3", "slurm-3": "10.0.0.100", "slurm-4": "10.0.0.4", "slurm-5": "10.0.0.4"}
	lookup := func(_ context.Context, nodes []string) (map[string]netip.Addr, error) {
		out := map[string]netip.Addr{}
		for _, n := range nodes {
			if addresses[n] == "" {
				return nil, errors.New("asked for " + n)
			}
			out[n] = netip.MustParseAddr(addresses[n])
		}
		return out, nil
	}
	for _, tt := range []struct{ name, clique, want, err string }{
		{"by the clique", cluster + ".1", "10.0.0.3\n10.0.0.20\n10.0.0.100\n", ""},
		{"by the block", "nvl-8a61c302-1", "10.0.0.3\n10.0.0.20\n10.0.0.100\n", ""},
		{"two nodes with one address", cluster + ".2", "", "nodes slurm-4 and slurm-5 have one address, 10.0.0.4: want one for each node"},
		{"another clique", cluster + ".7", "", "--clique " + cluster + ".7: no block of the published plan: want a clique as quoin discover prints it on a node, or one of the blocks nvl-8a61c302-1, nvl-8a61c302-2"},
		{"a free place", "spare-01", "", "no block of the published plan"},
		{"no clique", "x", "", "--clique x: no block"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			err := printNodesConfig(t.Context(), &out, d, tt.clique, "", lookup)
			if diff := cmp.Diff(tt.want, out.String()); diff != "" || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want %s (-want +got):\n%s", err, tt.err, diff)
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "nvidia-imex")
	for range 2 {
		var out strings.Builder
		if err := printNodesConfig(t.Context(), &out, d, cluster+".1", dir, lookup); err != nil || out.String() != "wrote "+dir+"/nodes_names.cfg\nwrote "+dir+"/nodes_config.cfg\n" {
			t.Errorf("%v, said %s", err, out.String())
		}
	}
	for name, want := range map[string]string{"nodes_config.cfg": "10.0.0.3\n10.0.0.20\n10.0.0.100\n",
		"nodes_names.cfg": "# The nodes of nodes_config.cfg and their names in Slurm, written by quoin imex nodes-config.\n10.0.0.3 slurm-1\n10.0.0.20 slurm-2\n10.0.0.100 slurm-3\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("left in the directory: %v, %v", files, err)
	}
	if err := printNodesConfig(t.Context(), io.Discard, d, cluster+".1", filepath.Join(dir, "nodes_config.cfg"), lookup); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a file is in the way: %v", err)
	}
	for i := range 20 {
		d.Current.Plan.Topologies[0].Blocks = append(d.Current.Plan.Topologies[0].Blocks, topology.Block{Name: fmt.Sprintf("nvl-8a61c302-%d", 10+i), Nodes: []string{"x"}})
	}
	if err := printNodesConfig(t.Context(), &strings.Builder{}, d, "x", "", lookup); err == nil || !strings.HasSuffix(err.Error(), " and 14 more") {
		t.Errorf("many blocks: %v", err)
	}
	if err := printNodesConfig(t.Context(), &strings.Builder{}, &plandoc.Document{}, cluster+".1", "", lookup); err == nil || !strings.Contains(err.Error(), "the published plan has no block of a clique") {
		t.Errorf("nothing is published: %v", err)
	}
}
