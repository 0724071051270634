package computedomain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
)

// TestRealEntries watches what daemons would write, which the driver's controller
// takes away where there are no daemons.
func TestRealEntries(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.define(t)
	must(t, r.AddNamespaces(t.Context(), "driver"))
	o := &clusterTest{clusterRig: r, c: observer(t, r.Config(), imex.Config{Namespace: "default"})}
	start(t, o.c.Run)
	o.domain = domainIs(t, o.c, "made", usable)
	t.Run("cliques", o.cliques)
	t.Run("members", o.members)
	t.Run("definitions go and come", o.undefined)
}

func (o *clusterTest) cliques(t *testing.T) {
	api := o.nvidia.ComputeDomainCliques("driver")
	const id = "8a61c302-0000-4000-8000-000000000001.7"
	clique := &nvapi.ComputeDomainClique{ObjectMeta: metav1.ObjectMeta{Name: o.domain.UID + "." + id},
		Daemons: []*nvapi.ComputeDomainDaemonInfo{{NodeName: "n0", IPAddress: "10.0.0.1", CliqueID: id, Index: 0, Status: "NotReady"}}}
	clique, err := api.Create(t.Context(), clique, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := imex.Clique{Domain: o.domain.UID, ID: id, Daemons: []imex.Member{{Node: "n0", Address: "10.0.0.1", Clique: id}}}
	is := func(s *imex.Observation) bool { return cmp.Equal(s.Cliques, []imex.Clique{want}) }
	seenIs(t, o.c, "an entry", is)
	clique.Daemons[0].Status = "Ready"
	clique.Daemons = append(clique.Daemons, &nvapi.ComputeDomainDaemonInfo{NodeName: "n1", IPAddress: "10.0.0.2", CliqueID: id, Index: 1})
	if clique, err = api.Update(t.Context(), clique, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want.Daemons[0].Ready = true
	want.Daemons = append(want.Daemons, imex.Member{Node: "n1", Address: "10.0.0.2", Clique: id, Index: 1})
	seenIs(t, o.c, "a second one", is)
	wakesNobody(t, o.c.cliques, func() (metav1.Object, error) {
		clique.Annotations = map[string]string{"of": "no interest"}
		return api.Update(t.Context(), clique, metav1.UpdateOptions{})
	})
}

func (o *clusterTest) members(t *testing.T) {
	api := o.nvidia.ComputeDomains("default")
	domain, err := api.Get(t.Context(), "quoin", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	domain.Status = nvapi.ComputeDomainStatus{Status: "NotReady", Nodes: []*nvapi.ComputeDomainNode{
		{Name: "n0", IPAddress: "10.0.0.1", CliqueID: "a.1", Index: 3, Status: "Ready"}, {Name: "n1", IPAddress: "10.0.0.2", CliqueID: "a.1", Index: 4, Status: "NotReady"}}}
	if domain, err = api.UpdateStatus(t.Context(), domain, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := map[string]imex.Member{"n0": {Node: "n0", Address: "10.0.0.1", Clique: "a.1", Index: 3, Ready: true}, "n1": {Node: "n1", Address: "10.0.0.2", Clique: "a.1", Index: 4}}
	seenIs(t, o.c, "members", func(s *imex.Observation) bool { return cmp.Equal(want, s.Members) })
	wakesNobody(t, o.c.domains, func() (metav1.Object, error) {
		domain.Status.Status = "Ready"
		return api.UpdateStatus(t.Context(), domain, metav1.UpdateOptions{})
	})
}

// wakesNobody makes a change of no interest to the only object of a watch. It waits
// until the watch has seen the change, and holds that nobody is woken by it.
func wakesNobody[T any](t *testing.T, w *watch[T], change func() (metav1.Object, error)) {
	t.Helper()
	only := func() *record[T] {
		records, err := w.all()
		if err != nil || len(records) != 1 {
			t.Fatalf("the watch has %d objects, error %v", len(records), err)
		}
		return records[0]
	}
	old := only()
	object, err := change()
	if err != nil {
		t.Fatal(err)
	}
	limit := time.After(3 * time.Minute)
	changed := only()
	for ; changed.version != object.GetResourceVersion(); changed = only() {
		select {
		case <-limit:
			t.Fatal("the change is not seen")
		case <-time.After(10 * time.Millisecond):
		}
	}
	judge := watch[T]{changed: func() { t.Errorf("woken by the change from %+v to %+v", old.facts, changed.facts) }}
	judge.compare(old, changed)
}

func (o *clusterTest) undefined(t *testing.T) {
	must(t, o.Objects().Delete(t.Context(), "customresourcedefinitions", "", "computedomaincliques.resource.nvidia.com"))
	seenIs(t, o.c, "no cliques", func(s *imex.Observation) bool { return usable(s.Domain) && len(s.Cliques) == 0 })
	must(t, o.Objects().Delete(t.Context(), "deviceclasses", "", daemonClass))
	seenIs(t, o.c, "the driver starts no daemons, so that the hosts serve", func(s *imex.Observation) bool {
		return s.Join == imex.JoinHost && strings.Contains(s.Why, "nvidia-imex.service serves") && s.Domain.Problem.Reason == "" && s.Domain.UID == ""
	})
	must(t, o.Objects().Delete(t.Context(), "deviceclasses", "", channelClass))
	domainIs(t, o.c, "no driver", func(d imex.Domain) bool {
		return d.Problem.Reason == imex.ReasonNoDriver && strings.Contains(d.Problem.Message, "does not serve ComputeDomains here")
	})
	must(t, o.Objects().Delete(t.Context(), "customresourcedefinitions", "", "computedomains.resource.nvidia.com"))
	o.define(t)
	domainIs(t, o.c, "made anew", func(d imex.Domain) bool { return usable(d) && d.UID != o.domain.UID })
}
