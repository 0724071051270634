package occupancy

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

// pods are the states of nodes in namespace slurm.
type pods map[string]string

func (p pods) SlurmStates(namespaces []string) map[string]string {
	if cmp.Equal(namespaces, []string{"slurm"}) {
		return p
	}
	return nil
}

// racksOf is a site with so many nodes in each rack. The nodes of the second rack are gpu-101,
// gpu-102 and so on. All are free.
func racksOf(nodes ...int) (topologies []topology.Topology, placed []topology.Placement, gpus map[string]int, states pods) {
	b := topology.Topology{Name: "nvl", Kind: "block", Sizes: []int{18}}
	gpus, states = map[string]int{}, pods{}
	for rack, count := range nodes {
		b.Blocks = append(b.Blocks, topology.Block{Name: fmt.Sprint("rack", rack+1), Nodes: hosts.In(fmt.Sprintf("gpu-[%d-%d]", rack*100+1, rack*100+count))})
		for i := 1; i <= count; i++ {
			node := fmt.Sprint("host-", rack*100+i)
			placed = append(placed, topology.Placement{Node: node, SlurmName: fmt.Sprint("gpu-", rack*100+i)})
			gpus[node], states[node] = 4, "idle"
		}
	}
	return []topology.Topology{b}, placed, gpus, states
}

// TestSegmentSeries counts what is free in two racks of 18. The second one has busy and ill nodes.
func TestSegmentSeries(t *testing.T) {
	topologies, placed, gpus, states := racksOf(18, 18)
	for i := 101; i <= 110; i++ {
		states[fmt.Sprint("host-", i)] = "allocated"
	}
	states["host-111"] = "idle+drain"
	delete(states, "host-112") // its pod is gone
	topologies = append(topologies, topology.Topology{Name: "tree", Kind: "tree"})
	reg := prometheus.NewRegistry()
	c := NewSeries(reg)
	check := func(want string) {
		t.Helper()
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	}
	c.Set("default", []string{"slurm"}, topologies, placed, gpus)
	check("") // nobody says how the nodes are
	c.Watch(New(nil), states, nil)
	c.Set("elsewhere", []string{"other"}, topologies, placed, gpus)
	check(`# HELP quoin_block_nodes Nodes of a block by what a job can do with them: free, busy or unavailable.
# TYPE quoin_block_nodes gauge
quoin_block_nodes{block="rack1",publication="default",state="busy",topology="nvl"} 0
quoin_block_nodes{block="rack1",publication="default",state="free",topology="nvl"} 18
quoin_block_nodes{block="rack1",publication="default",state="unavailable",topology="nvl"} 0
quoin_block_nodes{block="rack2",publication="default",state="busy",topology="nvl"} 10
quoin_block_nodes{block="rack2",publication="default",state="free",topology="nvl"} 6
quoin_block_nodes{block="rack2",publication="default",state="unavailable",topology="nvl"} 2
# HELP quoin_free_segments Segments of this size that fit together into the free nodes.
# TYPE quoin_free_segments gauge
quoin_free_segments{publication="default",size="1",topology="nvl"} 24
quoin_free_segments{publication="default",size="16",topology="nvl"} 1
quoin_free_segments{publication="default",size="18",topology="nvl"} 1
quoin_free_segments{publication="default",size="2",topology="nvl"} 12
quoin_free_segments{publication="default",size="4",topology="nvl"} 5
quoin_free_segments{publication="default",size="8",topology="nvl"} 2
# HELP quoin_max_segments Segments of this size if every node were available.
# TYPE quoin_max_segments gauge
quoin_max_segments{publication="default",size="1",topology="nvl"} 36
quoin_max_segments{publication="default",size="16",topology="nvl"} 2
quoin_max_segments{publication="default",size="18",topology="nvl"} 2
quoin_max_segments{publication="default",size="2",topology="nvl"} 18
quoin_max_segments{publication="default",size="4",topology="nvl"} 8
quoin_max_segments{publication="default",size="8",topology="nvl"} 4
# HELP quoin_node_unavailable 1 for a node that is drained, down or not in Slurm.
# TYPE quoin_node_unavailable gauge
quoin_node_unavailable{node="host-111",publication="default"} 1
quoin_node_unavailable{node="host-112",publication="default"} 1
# HELP quoin_stranded_gpus GPUs of free nodes that segments of this size leave over.
# TYPE quoin_stranded_gpus gauge
quoin_stranded_gpus{publication="default",size="1",topology="nvl"} 0
quoin_stranded_gpus{publication="default",size="16",topology="nvl"} 32
quoin_stranded_gpus{publication="default",size="18",topology="nvl"} 24
quoin_stranded_gpus{publication="default",size="2",topology="nvl"} 0
quoin_stranded_gpus{publication="default",size="4",topology="nvl"} 16
quoin_stranded_gpus{publication="default",size="8",topology="nvl"} 32
`)
	c.Clear()
	check("")
}

// states are those of a Slurm's nodes by Slurm name.
type states map[string]string

func (s states) Ask(context.Context, client.Question) (*slurmctld.State, error) {
	said := &slurmctld.State{Nodes: map[string]slurmctld.Node{}}
	for name, state := range s {
		said.Nodes[name] = slurmctld.Node{State: state}
	}
	return said, nil
}

func (states) Reconfigure(context.Context) error { return nil }

// bySlurm returns a Keeper that has asked the Slurm of each publication.
func bySlurm(t *testing.T, slurms map[string]states) *Keeper {
	clients := map[string]*client.Client{}
	for name, s := range slurms {
		clients[name] = client.New(name, s, slog.New(slog.DiscardHandler))
	}
	k := New(clients)
	for name := range slurms {
		k.Fresher(t.Context(), name)
	}
	return k
}

// TestSharedNode has two Slurm names on one Node. Each has a state of its own, and nobody knows how many GPUs each has.
func TestSharedNode(t *testing.T) {
	topologies, placed, gpus, _ := racksOf(3)
	placed[1].Node = placed[0].Node
	reg := prometheus.NewRegistry()
	c := NewSeries(reg)
	c.Watch(bySlurm(t, map[string]states{"metal": {"gpu-1": "DOWN", "gpu-2": "IDLE", "gpu-3": "ALLOCATED"}}), nil, nil)
	c.Set("metal", nil, topologies, placed, gpus)
	err := testutil.GatherAndCompare(reg, strings.NewReader(`# HELP quoin_block_nodes Nodes of a block by what a job can do with them: free, busy or unavailable.
# TYPE quoin_block_nodes gauge
quoin_block_nodes{block="rack1",publication="metal",state="busy",topology="nvl"} 1
quoin_block_nodes{block="rack1",publication="metal",state="free",topology="nvl"} 1
quoin_block_nodes{block="rack1",publication="metal",state="unavailable",topology="nvl"} 1
# HELP quoin_node_unavailable 1 for a node that is drained, down or not in Slurm.
# TYPE quoin_node_unavailable gauge
quoin_node_unavailable{node="host-1",publication="metal"} 1
# HELP quoin_stranded_gpus GPUs of free nodes that segments of this size leave over.
# TYPE quoin_stranded_gpus gauge
quoin_stranded_gpus{publication="metal",size="1",topology="nvl"} 0
quoin_stranded_gpus{publication="metal",size="16",topology="nvl"} 0
quoin_stranded_gpus{publication="metal",size="18",topology="nvl"} 0
quoin_stranded_gpus{publication="metal",size="2",topology="nvl"} 0
quoin_stranded_gpus{publication="metal",size="4",topology="nvl"} 0
quoin_stranded_gpus{publication="metal",size="8",topology="nvl"} 0
`), "quoin_block_nodes", "quoin_node_unavailable", "quoin_stranded_gpus")
	if err != nil {
		t.Error(err)
	}
}

// TestStatesOfSlurm takes the states from Slurm where no pod says any, until the answer is stale.
func TestStatesOfSlurm(t *testing.T) { synctest.Test(t, testStatesOfSlurm) }

func testStatesOfSlurm(t *testing.T) {
	topologies, placed, gpus, _ := racksOf(2)
	slurm := bySlurm(t, map[string]states{"metal": {"gpu-1": "IDLE+CLOUD", "gpu-2": "MIXED", "cpu-1": "IDLE"}, "pods": {"gpu-1": "DOWN", "gpu-2": "DOWN"}})
	reg := prometheus.NewRegistry()
	c := NewSeries(reg)
	c.Watch(slurm, pods{"host-1": "idle", "host-2": "idle"}, nil)
	c.Set("metal", nil, topologies, placed, gpus)
	c.Set("pods", []string{"slurm"}, topologies, placed, gpus)
	c.Set("nobody", nil, topologies, placed, gpus)
	err := testutil.GatherAndCompare(reg, strings.NewReader(`# HELP quoin_block_nodes Nodes of a block by what a job can do with them: free, busy or unavailable.
# TYPE quoin_block_nodes gauge
quoin_block_nodes{block="rack1",publication="metal",state="busy",topology="nvl"} 1
quoin_block_nodes{block="rack1",publication="metal",state="free",topology="nvl"} 1
quoin_block_nodes{block="rack1",publication="metal",state="unavailable",topology="nvl"} 0
quoin_block_nodes{block="rack1",publication="pods",state="busy",topology="nvl"} 0
quoin_block_nodes{block="rack1",publication="pods",state="free",topology="nvl"} 2
quoin_block_nodes{block="rack1",publication="pods",state="unavailable",topology="nvl"} 0
`), "quoin_block_nodes", "quoin_node_unavailable")
	if err != nil {
		t.Error(err)
	}
	time.Sleep(Stale)
	c.Watch(slurm, nil, nil)
	if n, err := testutil.GatherAndCount(reg, "quoin_block_nodes"); err != nil || n != 0 {
		t.Errorf("%d series by a stale answer, %v", n, err)
	}
}
