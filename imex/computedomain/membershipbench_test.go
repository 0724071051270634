package computedomain

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// largeStates are what may be wrong with a cluster, by the reason of most nodes.
var largeStates = []struct {
	name  string
	spoil func(c *large)
	most  string
}{
	{"ready", func(*large) {}, imex.ReasonReady},
	{"one of each clique late", (*large).late, imex.ReasonReady},
	{"no domain", func(c *large) { c.domains.serve(cache.NewStore(cache.MetaNamespaceKeyFunc), c.domains.synced) }, imex.ReasonDomainProblem},
}

// TestMembershipLarge holds that the benchmark measures what it says.
func TestMembershipLarge(t *testing.T) {
	for _, state := range largeStates {
		t.Run(state.name, func(t *testing.T) {
			c := largeCluster(t, 10000)
			state.spoil(c)
			count := 0
			for _, v := range c.judge(t) {
				if v.Reason == state.most {
					count++
				}
			}
			if count < 5000 {
				t.Errorf("%d of 10000 nodes are %s", count, state.most)
			}
		})
	}
}

// BenchmarkMembership goes the whole way that the publisher goes after a change: what is watched of 10,000 nodes in 600 cliques, what is known of the nodes, and the
// verdicts. How the change is read is not in it.
func BenchmarkMembership(b *testing.B) {
	for _, state := range largeStates {
		c := largeCluster(b, 10000)
		state.spoil(c)
		b.Run(state.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.judge(b)
			}
		})
	}
}

// listedCluster returns a Cluster that has read lists without a single object.
func listedCluster(tb testing.TB, join string) *Cluster {
	tb.Helper()
	config, err := imex.Config{Join: join, Namespace: "slurm"}.Complete()
	if err != nil {
		tb.Fatal(err)
	}
	c := &Cluster{config: config, driver: &driver{classes: &watch[string]{}},
		domains: &watch[domainFacts]{}, cliques: &watch[imex.Clique]{}, pods: &watch[podFacts]{}}
	for _, w := range []interface {
		serve(store cache.Store, synced func() bool)
	}{c.driver.classes, c.domains, c.cliques, c.pods} {
		w.serve(cache.NewStore(cache.MetaNamespaceKeyFunc), func() bool { return true })
	}
	for _, class := range []string{channelClass, daemonClass} {
		c.driver.classes.put(types.NamespacedName{Name: class}, class)
	}
	return c
}

// put keeps facts as an informer would.
func (w *watch[T]) put(key types.NamespacedName, facts T) {
	r := &record[T]{NamespacedName: key, facts: facts, keep: true}
	if err := w.store.Add(r); err != nil {
		panic(err)
	}
}

// large is a Cluster in which each node has an entry and a holder's pod.
type large struct {
	*Cluster
	snap inputs.Snapshot
}

// largeCluster has as many nodes, in 600 cliques.
func largeCluster(tb testing.TB, nodes int) *large {
	c := &large{Cluster: listedCluster(tb, imex.JoinHolder), snap: inputs.Snapshot{Reports: map[string]*topology.Node{}}}
	facts := domainFacts{uid: "7c2f0c5e-1111-4a6b-9d3e-0123456789ab", spec: spec{template: c.config.ClaimTemplate, allocationMode: c.config.AllocationMode}, members: map[string]imex.Member{}}
	cliques := map[types.NamespacedName]imex.Clique{}
	major := 235
	for n := range nodes {
		domain := topology.NVLinkDomain{Clique: topology.Clique{ID: uint32(n % 600)}} //nolint:gosec // below 600
		domain.Clique.ClusterUUID[0] = byte(n % 250)
		id := domain.Clique.String()
		m := imex.Member{Node: fmt.Sprintf("n%05d", n), Address: fmt.Sprintf("10.0.%d.%d", n/256, n%256), Clique: id, Index: n / 600, Ready: true}
		facts.members[m.Node] = m
		key := types.NamespacedName{Namespace: "driver", Name: facts.uid + "." + id}
		one := cliques[key]
		one.Domain, one.ID, one.Daemons = facts.uid, id, append(one.Daemons, m)
		cliques[key] = one
		pod := podRef{"quoin-imex-" + m.Node, types.UID(m.Node)}
		c.pods.put(types.NamespacedName{Namespace: c.config.Namespace, Name: pod.name}, podFacts{uid: pod.uid, owner: imex.OwnerHolder, node: m.Node, claimed: true, claims: []string{pod.name + "-channel"}})
		c.snap.Nodes = append(c.snap.Nodes, inputs.Node{Name: m.Node, Labels: map[string]string{topology.CliqueLabel: id, nodelabels.Count: "4", imex.DomainLabel: facts.uid}})
		c.snap.Reports[m.Node] = &topology.Node{Name: m.Node, GPUs: make([]topology.GPU, 4), Domain: domain, IMEX: &topology.IMEX{ChannelMajor: &major, DaemonState: "READY"}}
	}
	for key, clique := range cliques {
		c.cliques.put(key, clique)
	}
	c.domains.put(keyOf(c.config), facts)
	return c
}

// judge does what the publisher does.
func (c *large) judge(tb testing.TB) map[string]imex.Verdict {
	tb.Helper()
	seen, err := c.Snapshot()
	if err != nil {
		tb.Fatal(err)
	}
	seen.Nodes = nodestatus.Members(&c.snap, nodestatus.Fabrics(&c.snap, new(fabric.Site)))
	got := imex.Judge(seen)
	if len(got) != len(c.snap.Nodes) {
		tb.Fatalf("%d verdicts", len(got))
	}
	return got
}

// late has one node in each clique that is not ready.
func (c *large) late() {
	cliques, _ := c.cliques.all()
	for _, r := range cliques {
		clique := r.facts
		clique.Daemons = slices.Clone(clique.Daemons)
		clique.Daemons[0].Ready = false
		c.cliques.put(r.NamespacedName, clique)
	}
}
