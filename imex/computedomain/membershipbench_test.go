package computedomain

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// BenchmarkMembership goes the whole way that the publisher goes after one change:
// what is watched of 10,000 nodes in 600 cliques, what is known of the nodes, and the
// verdicts. How the change is read is not in it.
func BenchmarkMembership(b *testing.B) {
	for _, state := range []struct {
		name  string
		spoil func(c *large)
	}{
		{"ready", func(*large) {}},
		{"one of each clique late", (*large).late},
		{"no domain", func(c *large) { c.domain.put(c.key(), domainFacts{}, false) }},
		{"all in conflict", (*large).conflict},
	} {
		for _, change := range []struct {
			name string
			turn func(c *large, on bool)
		}{
			{"entry", (*large).turnEntry},
			{"claim", (*large).turnClaim},
			{"claim comes or goes", (*large).turnClaims},
			{"label", (*large).turnLabel},
			{"status of the domain", (*large).turnStatus},
			{"all", (*large).turnAll},
		} {
			b.Run(state.name+"/"+change.name, func(b *testing.B) {
				c := largeCluster(b, 10000)
				state.spoil(c)
				var k imex.Keeper
				c.judge(b, &k)
				b.ReportAllocs()
				on := false
				for b.Loop() {
					on = !on
					change.turn(c, on)
					c.judge(b, &k)
				}
			})
		}
	}
}

// BenchmarkKeptMemory measures what is kept from one judgement to the next,
// beside what is watched.
func BenchmarkKeptMemory(b *testing.B) {
	c := largeCluster(b, 10000)
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		c.keptCliques, c.keptClaims, c.claims.since, c.claims.keys = kept[[]imex.Clique]{}, nil, nil, nil
		before := heap()
		var k imex.Keeper
		c.judge(b, &k)
		b.ReportMetric((heap()-before)/1e6, "MB")
		runtime.KeepAlive(&k)
	}
}

// large is a Cluster in which each node has an entry and a holder's claim.
type large struct {
	*Cluster
	snap publisher.Snapshot
	odd  int // the node that changes
	// status is what turnStatus writes.
	status map[bool]map[string]imex.Member
}

// largeCluster has as many nodes, in 600 cliques.
func largeCluster(tb testing.TB, nodes int) *large {
	c := &large{Cluster: listedCluster(tb, imex.JoinHolder), snap: publisher.Snapshot{Reports: map[string]*topology.Node{}}, odd: nodes / 2, status: map[bool]map[string]imex.Member{}}
	facts := domainFacts{uid: "7c2f0c5e-1111-4a6b-9d3e-0123456789ab", spec: c.wanted(), members: map[string]imex.Member{}}
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
		c.joining.put(types.NamespacedName{Namespace: c.config.Namespace, Name: pod.name}, podFacts{uid: pod.uid, owner: imex.OwnerHolder, node: m.Node, claims: []string{pod.name + "-channel"}}, true)
		c.claims.put(types.NamespacedName{Namespace: c.config.Namespace, Name: pod.name + "-channel"}, claimFacts{domain: facts.uid, allocated: true, node: m.Node, madeFor: pod, reserved: []podRef{pod}}, true)
		c.snap.Nodes = append(c.snap.Nodes, publisher.Node{Name: m.Node, Labels: map[string]string{nodelabels.Clique: id, nodelabels.Count: "4", labelDomain: facts.uid}})
		c.snap.Reports[m.Node] = &topology.Node{Name: m.Node, GPUs: make([]topology.GPU, 4), Domain: domain, IMEX: &topology.IMEX{ChannelMajor: &major, DaemonState: "READY"}}
	}
	for key, clique := range cliques {
		c.clique.put(key, clique, true)
	}
	c.domain.put(c.key(), facts, true)
	return c
}

// judge does what the publisher does.
func (c *large) judge(tb testing.TB, k *imex.Keeper) {
	tb.Helper()
	seen, err := c.Snapshot()
	if err != nil {
		tb.Fatal(err)
	}
	seen.Nodes = publisher.Members(&c.snap, seen.Workers)
	if got := k.Judge(seen); len(got) != len(c.snap.Nodes) {
		tb.Fatalf("%d verdicts", len(got))
	}
}

// late has one node in each clique that is not ready.
func (c *large) late() {
	for key := range maps.Clone(c.clique.facts) {
		c.entry(key, 0, false)
	}
}

// entry says of one entry whether it is ready.
func (c *large) entry(key types.NamespacedName, i int, ready bool) {
	clique := c.clique.facts[key]
	clique.Daemons = slices.Clone(clique.Daemons)
	clique.Daemons[i].Ready = ready
	c.clique.put(key, clique, true)
}

// conflict has a second claim on each node, which waits.
func (c *large) conflict() {
	for i := range c.snap.Nodes {
		name := fmt.Sprintf("worker-%d", i)
		c.joining.put(types.NamespacedName{Namespace: "slurm", Name: name}, podFacts{uid: types.UID(name), owner: imex.OwnerSlurmd, node: c.snap.Nodes[i].Name, claims: []string{name}}, true)
		c.claims.put(types.NamespacedName{Namespace: "slurm", Name: name}, claimFacts{domain: "d", madeFor: podRef{name, types.UID(name)}}, true)
	}
}

func (c *large) turnEntry(on bool) {
	id := c.snap.Nodes[c.odd].Labels[nodelabels.Clique]
	key := types.NamespacedName{Namespace: "driver", Name: "7c2f0c5e-1111-4a6b-9d3e-0123456789ab." + id}
	c.entry(key, len(c.clique.facts[key].Daemons)-1, !on)
}

func (c *large) turnClaim(on bool) {
	key := types.NamespacedName{Namespace: c.config.Namespace, Name: fmt.Sprintf("quoin-imex-%s-channel", c.snap.Nodes[c.odd].Name)}
	facts := c.claims.facts[key]
	facts.reserved = []podRef{facts.madeFor}
	if on {
		facts.reserved = nil
	}
	c.claims.put(key, facts, true)
}

func (c *large) turnClaims(on bool) {
	c.claims.put(types.NamespacedName{Namespace: "slurm", Name: "other"}, claimFacts{domain: "d", allocated: true, node: c.snap.Nodes[c.odd].Name}, on)
}

func (c *large) turnLabel(on bool) {
	n := &c.snap.Nodes[c.odd]
	n.Labels = maps.Clone(n.Labels)
	if n.Labels[labelDomain] = "7c2f0c5e-1111-4a6b-9d3e-0123456789ab"; on {
		n.Labels[labelDomain] = ""
	}
}

// turnStatus has the domain's status as the driver writes it for each change, all of
// it anew.
func (c *large) turnStatus(on bool) {
	facts, is := c.domain.facts[c.key()]
	if !is {
		return
	}
	if c.status[on] == nil {
		c.status[on] = make(map[string]imex.Member, len(facts.members))
		for name, m := range facts.members {
			m.Node, m.Address, m.Clique = strings.Clone(m.Node), strings.Clone(m.Address), strings.Clone(m.Clique)
			m.Ready = !on || name != c.snap.Nodes[c.odd].Name
			c.status[on][m.Node] = m
		}
	}
	facts.members = c.status[on]
	c.domain.facts[c.key()] = facts
	c.domain.version++
}

func (c *large) turnAll(on bool) {
	facts := c.domain.facts[c.key()]
	facts.deleting = on
	c.domain.put(c.key(), facts, facts.uid != "" || on)
}
