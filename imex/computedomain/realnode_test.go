package computedomain

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology"
)

// restTime is how long a cluster is left alone. Watches end after five minutes
// and more.
const restTime = 30 * time.Second

const (
	someDomain = "6e08d5f5-f881-4f33-9d6c-34ddb434bd21"
	someClique = "8a61c302-0000-4000-8000-000000000001.7"
)

// nodeTest is one node's observer.
type nodeTest struct {
	*clusterRig
	n        *Node
	requests *counter
}

// TestRealNode lets one node join a clique that there is, and one that there is
// not yet.
func TestRealNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, kuberig.StartOwnTest(t))
	r.define(t)
	for _, name := range []string{"n0", "n1"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{topology.CliqueLabel: "of.GFD"}}}
		if _, err := r.Client().CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	config, err := imex.Config{HostChannels: true}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	rc, requests := counted(r.Config())
	n, err := NewNode(rc, config, "n0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Snapshot(); err == nil || len(requests.requests()) != 0 {
		t.Errorf("before Run Snapshot says %v, after requests %q", err, requests.requests())
	}
	start(t, n.Run)
	o := &nodeTest{clusterRig: r, n: n, requests: requests}
	t.Run("labels", o.labels)
	t.Run("clique", o.clique)
	t.Run("API server restarts", o.restarted)
	t.Run("another clique", o.moved)
	t.Run("at rest", o.rest)
}

func (o *nodeTest) labels(t *testing.T) {
	want := &imex.Observation{Join: imex.JoinHolder, Why: "NVIDIA's DRA driver starts IMEX daemons, and no worker pod of Slurm claims a channel", HostChannels: true, Domain: imex.Domain{Namespace: imex.DefaultNamespace, Name: imex.DefaultName}, ClaimsUnread: true,
		Nodes: map[string]imex.Node{"n0": {Name: "n0", CliqueLabel: "of.GFD"}}}
	seenIs(t, o.n, "labels", func(s *imex.Observation) bool { return cmp.Equal(want, s) })
	o.label(t, "n0", imex.DomainLabel, `"`+someDomain+`"`)
	seen := seenIs(t, o.n, "a domain", func(s *imex.Observation) bool { return s.Nodes["n0"].DomainLabel == someDomain })
	if len(seen.Cliques) != 0 {
		t.Errorf("cliques: %+v", seen.Cliques)
	}
	if asked := o.requests.requests(); !slices.ContainsFunc(asked, func(r string) bool {
		return strings.Contains(r, "/computedomaincliques?") && strings.Contains(r, someDomain+".of.GFD")
	}) {
		t.Errorf("without NVML's word the label's clique is to be watched: %q", asked)
	}
}

// entry makes or replaces the clique object with one entry of the node.
func (o *nodeTest) entry(t *testing.T, clique, status string) {
	t.Helper()
	api := o.nvidia.ComputeDomainCliques("default")
	name := someDomain + "." + clique
	daemons := []*nvapi.ComputeDomainDaemonInfo{{NodeName: "n0", IPAddress: "10.0.0.1", CliqueID: clique, Index: 2, Status: status}}
	there, err := api.Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = api.Create(t.Context(), &nvapi.ComputeDomainClique{ObjectMeta: metav1.ObjectMeta{Name: name}, Daemons: daemons}, metav1.CreateOptions{})
	} else if err == nil {
		there.Daemons = daemons
		_, err = api.Update(t.Context(), there, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func cliqueIs(id string, ready bool) func(*imex.Observation) bool {
	want := []imex.Clique{{Domain: someDomain, ID: id, Daemons: []imex.Member{{Node: "n0", Address: "10.0.0.1", Clique: id, Index: 2, Ready: ready}}}}
	return func(s *imex.Observation) bool { return cmp.Equal(want, s.Cliques) }
}

func (o *nodeTest) clique(t *testing.T) {
	o.n.SetClique(someClique)
	o.entry(t, someClique, "NotReady")
	seenIs(t, o.n, "its entry", cliqueIs(someClique, false))
	o.entry(t, someClique, "Ready")
	seenIs(t, o.n, "ready", cliqueIs(someClique, true))
}

func (o *nodeTest) restarted(t *testing.T) {
	o.StopServer()
	until(t, tick(t), "trouble", func() (bool, string) { return o.n.health.String() != "", o.n.health.String() })
	if seen, err := o.n.Snapshot(); err != nil || !cliqueIs(someClique, true)(seen) {
		t.Errorf("while the API server is away: %+v, %v", seen, err)
	}
	o.n.oldAfter = 0
	if seen, err := o.n.Snapshot(); err == nil || !strings.Contains(err.Error(), "not read since ") {
		t.Errorf("while the API server is away for long: %+v, %v", seen, err)
	}
	o.n.oldAfter = oldAfter
	if err := o.StartServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.entry(t, someClique, "NotReady")
	seenIs(t, o.n, "what happened since", cliqueIs(someClique, false))
	until(t, tick(t), "no trouble", func() (bool, string) { return o.n.health.String() == "", o.n.health.String() })
}

func (o *nodeTest) moved(t *testing.T) {
	const other = "8a61c302-0000-4000-8000-000000000001.8"
	o.n.SetClique(other)
	seenIs(t, o.n, "that there are cliques, and its own is not", cliqueIs(someClique, false))
	o.n.SetClique(someClique)
	seenIs(t, o.n, "its own", cliqueIs(someClique, false))
	o.entry(t, other, "Ready")
	o.n.SetClique(other)
	if _, err := o.n.Snapshot(); err == nil {
		t.Error("the clique of before is taken for the one that is meant now")
	}
	seenIs(t, o.n, "the other clique", cliqueIs(other, true))
	o.label(t, "n0", imex.DomainLabel, "null")
	seenIs(t, o.n, "no domain, so no clique", func(s *imex.Observation) bool { return s.Nodes["n0"].DomainLabel == "" && len(s.Cliques) == 0 })
	o.label(t, "n0", imex.DomainLabel, `"`+someDomain+`"`)
	seenIs(t, o.n, "the clique again", cliqueIs(other, true))
}

// rest holds that an agent and a publisher ask nothing while nothing happens,
// but what concerns others does.
func (o *nodeTest) rest(t *testing.T) {
	rc, requests := counted(o.Config())
	c := observer(t, rc, imex.Config{Namespace: "default", Join: imex.JoinHolder})
	start(t, c.Run)
	domainIs(t, c, "made", usable)
	until(t, c.Changes(), "seen", func() (bool, string) {
		_, err := c.Snapshot()
		return err == nil, fmt.Sprint(err)
	})
	var agent, publisher []string
	// client-go pauses for up to a minute before it makes a watch again that the API server has ended at its start.
	for pauses := 0; pauses == 0 || pauses < 4 && len(agent)+len(publisher) > 0; pauses++ {
		node, cluster := len(o.requests.requests()), len(requests.requests())
		o.label(t, "n1", imex.DomainLabel, "null")
		o.label(t, "n1", imex.DomainLabel, `"`+someDomain+`"`)
		time.Sleep(restTime)
		agent, publisher = o.requests.requests()[node:], requests.requests()[cluster:]
	}
	if len(agent) > 0 {
		t.Errorf("the agent's requests at rest: %q", agent)
	}
	if len(publisher) > 0 {
		t.Errorf("the publisher's requests at rest: %q", publisher)
	}
	for _, request := range requests.requests() {
		if !strings.Contains(request, "watch=true") && !strings.HasPrefix(request, "POST ") {
			t.Errorf("a request that is no watch: %s", request)
		}
	}
}
