package computedomain

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/test/rig/imexrig"
	"github.com/quoin-hpc/quoin/topology"
)

// holder is a DaemonSet as quoin-imex is.
const holder = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: quoin-imex, namespace: default}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: quoin, app.kubernetes.io/component: imex}}
  updateStrategy: {type: OnDelete}
  template:
    metadata: {labels: {app.kubernetes.io/name: quoin, app.kubernetes.io/component: imex}}
    spec:
      nodeSelector: {nvidia.com/gpu.present: "true"}
      containers: [{name: hold, image: hold, resources: {claims: [{name: channel}]}}]
      resourceClaims: [{name: channel, resourceClaimTemplateName: quoin-imex-channel}]
`

// TestRealFleet has the holder join four racks, and judges what the observers of the cluster
// and of one node see: of nodes, and of worker pods that claim beside the holder.
func TestRealFleet(t *testing.T) { onDrivers(t, fleetJoins) }

func fleetJoins(t *testing.T, driver string) {
	const racks, nodes, odd = 4, 6, "r02n05"
	specs := imexrig.Racks(racks, nodes)
	cluster, fleet := imexrig.StartTest(t, imexrig.Options{Driver: driver, DriverNamespace: "driver", Nodes: specs, ReadyAfter: 100 * time.Millisecond})
	r := &clusterRig{Cluster: cluster}
	o := &fleetTest{clusterTest: &clusterTest{clusterRig: r, c: observer(t, r.Config(), imex.Config{Namespace: "default"})}, specs: specs}
	start(t, o.c.Run)
	o.domain = domainIs(t, o.c, "made", usable)
	n, err := NewNode(r.Config(), o.c.config, odd, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	start(t, n.Run)
	n.SetClique(imexrig.RackClique(2))
	must(t, r.Objects().ApplyText(t.Context(), holder))
	o.reasonsAre(t, "all joined", map[string]int{imex.ReasonReady: racks * nodes})
	agent := &nodeTest{clusterRig: r, n: n}
	own := func(s *imex.Observation) imex.Member {
		for _, c := range s.Cliques {
			for _, m := range c.Daemons {
				if m.Node == odd {
					return m
				}
			}
		}
		return imex.Member{}
	}
	seenIs(t, agent.n, "ready", func(s *imex.Observation) bool { return own(s).Ready && len(s.Cliques[0].Daemons) == nodes })

	fleet.Node(odd).SetReady(false)
	seenIs(t, agent.n, "not ready", func(s *imex.Observation) bool { return own(s).Node == odd && !own(s).Ready })
	o.reasonsAre(t, "one is not ready", map[string]int{imex.ReasonReady: racks*nodes - 1, imex.ReasonNotReady: 1})
	fleet.Node(odd).SetReady(true)
	o.reasonsAre(t, "all are again", map[string]int{imex.ReasonReady: racks * nodes})

	r.addPod(t, "slurmd-odd", "quoin-imex-channel", odd, slurmdLabels)
	until(t, tick(t), "a second claim on a node", func() (bool, string) {
		seen := r.listed(t, o.c.config)
		seen.Nodes = o.nodes(t)
		v := imex.Judge(seen)[odd]
		return v.Ready() && v.Remedy != "", fmt.Sprintf("%+v", v)
	})
	if err := r.RemovePod(t.Context(), "default", "slurmd-odd"); err != nil {
		t.Fatal(err)
	}
	o.workersClaim(t)
	must(t, r.Objects().Delete(t.Context(), "daemonsets", "default", "quoin-imex"))
	seenIs(t, o.c, "worker pods claim, as auto finds out", func(s *imex.Observation) bool {
		return s.Join == imex.JoinSlurmd && strings.Contains(s.Why, "worker pods of Slurm claim")
	})
}

type fleetTest struct {
	*clusterTest
	specs []imexrig.Spec
}

// reasonsAre waits until so many nodes have verdicts of these reasons.
func (o *fleetTest) reasonsAre(t *testing.T, what string, want map[string]int) {
	t.Helper()
	until(t, tick(t), what, func() (bool, string) {
		seen, err := o.c.Snapshot()
		if err != nil {
			return false, err.Error()
		}
		seen.Nodes = o.nodes(t)
		got, examples := map[string]int{}, map[string]string{}
		for _, v := range imex.Judge(seen) {
			got[v.Reason]++
			examples[v.Reason] = v.Node + ": " + v.Message
		}
		return maps.Equal(got, want), fmt.Sprint(got, slices.Sorted(maps.Values(examples)))
	})
}

// nodes are as the publisher would know them by reports and labels.
func (o *fleetTest) nodes(t *testing.T) map[string]imex.Node {
	t.Helper()
	list, err := o.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]imex.Node{}
	for _, s := range o.specs {
		out[s.Name] = imex.Node{Name: s.Name, GPUs: true, Fabric: imex.FabricClique, Clique: s.Clique}
	}
	for _, node := range list.Items {
		n := out[node.Name]
		n.CliqueLabel, n.DomainLabel = node.Labels[topology.CliqueLabel], node.Labels[imex.DomainLabel]
		out[node.Name] = n
	}
	return out
}
