package nodeagent

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// topologyFolder has the hook's copies of Slurm's topology files.
const topologyFolder = "topology"

// blockCache knows the blocks of the clusters whose jobs run here, as the hook's
// copies of Slurm's topology files have them.
type blockCache struct {
	stamps   map[string]fileStamp // by file
	clusters map[string][]slurmconf.Block
	problems map[string]error // by cluster
}

// refresh reads the topologies of the clusters if a file has changed, and says so.
// An empty name among them stands for all that there are.
func (c *blockCache) refresh(runDir string, clusters map[string]bool) (changed bool) {
	stamps, all := make(map[string]fileStamp), clusters[""]
	entries, _ := os.ReadDir(filepath.Join(runDir, topologyFolder)) // missing while no hook has made one
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".yaml"), ".conf")
		if info, err := e.Info(); err == nil && (all || clusters[name]) && name != e.Name() {
			stamps[e.Name()] = stampOf(info)
			clusters[name] = true
		}
	}
	if maps.Equal(stamps, c.stamps) {
		return false
	}
	c.stamps, c.clusters, c.problems = stamps, make(map[string][]slurmconf.Block), make(map[string]error)
	for cluster := range clusters {
		blocks, err := readBlocks(runDir, cluster)
		if err != nil {
			c.problems[cluster] = err
		} else if len(blocks) > 0 {
			c.clusters[cluster] = blocks
		}
	}
	return true
}

// problem is why a topology could not be read.
func (c *blockCache) problem() error {
	var all error
	for _, cluster := range slices.Sorted(maps.Keys(c.problems)) {
		all = errors.Join(all, c.problems[cluster])
	}
	return all
}

// readBlocks returns the blocks of a cluster's topology, those of the default one
// first where there are several; none where Slurm has no blocks.
func readBlocks(runDir, cluster string) ([]slurmconf.Block, error) {
	name, data, err := dcgm.ReadTopology(runDir, cluster)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all []slurmconf.Topology
	if strings.HasSuffix(name, ".conf") {
		t, err := slurmconf.ParseConf(name, data)
		if err != nil {
			return nil, err
		}
		all = []slurmconf.Topology{t}
	} else if all, err = slurmconf.ParseYAML(name, data); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b slurmconf.Topology) int {
		return cmp.Compare(index(b.Default), index(a.Default))
	})
	var blocks []slurmconf.Block
	for _, t := range all {
		if t.Block != nil {
			blocks = append(blocks, t.Block.Blocks...)
		}
	}
	for i := range blocks { // client_golang panics on a label that is no UTF-8
		blocks[i].Name = strings.ToValidUTF8(blocks[i].Name, "\uFFFD")
	}
	return blocks, nil
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// of returns the block of the record's node, and those of all the job's nodes,
// sorted.
func (c *blockCache) of(r *dcgm.Record) (block string, blocks []string) {
	blocks = []string{}
	all := c.clusters[r.Cluster]
	if len(all) == 0 {
		return "", blocks
	}
	wanted := map[string]bool{r.Node: true}
	if nodes, err := hostlist.Expand(r.NodeList); err == nil {
		for _, n := range nodes {
			wanted[n] = true
		}
	}
	found := findBlocks(all, wanted)
	seen := make(map[string]bool)
	for node, b := range found {
		if node != "" && !seen[b] {
			seen[b] = true
			blocks = append(blocks, b)
		}
	}
	slices.Sort(blocks)
	return found[r.Node], blocks
}

// findBlocks returns the first block of each of the nodes.
func findBlocks(all []slurmconf.Block, nodes map[string]bool) map[string]string {
	found := make(map[string]string, len(nodes))
	for _, b := range all {
		if len(found) == len(nodes) {
			break
		}
		names, err := hostlist.Expand(b.Nodes)
		if err != nil {
			continue // a list that Slurm does not take either
		}
		for _, n := range names {
			if _, twice := found[n]; nodes[n] && !twice {
				found[n] = b.Name
			}
		}
	}
	return found
}

// slurmName is what Slurm calls this node, as the hooks last said it.
type slurmName struct {
	Node    string `json:"node,omitempty"`
	Cluster string `json:"cluster,omitempty"`
}

// learn takes the name from the latest record.
func (s *slurmName) learn(jobs map[string]*job) {
	var last *dcgm.Record
	for _, b := range jobs {
		if b.record.Node != "" && (last == nil || b.record.Written.After(last.Written)) {
			last = &b.record
		}
	}
	if last != nil {
		*s = slurmName{last.Node, last.Cluster}
	}
}

// nodeBlock returns the block of this node: by its name in Slurm where a job has
// told it, else by the report's up to the first dot.
func (c *blockCache) nodeBlock(s slurmName, n *topology.Node) string {
	name := s.Node
	if name == "" && n != nil {
		name, _, _ = strings.Cut(n.Name, ".")
	}
	blocks := c.clusters[s.Cluster]
	if s.Cluster == "" && len(c.clusters) == 1 {
		for _, only := range c.clusters {
			blocks = only
		}
	}
	return findBlocks(blocks, map[string]bool{name: true})[name]
}
