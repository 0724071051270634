package computedomain

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealHostManaged has the controller of a driver that leaves the daemons to the machines'
// own nvidia-imex.service (imex.mode=hostManaged), beside a tenant's domain: nothing is made,
// and nodes are judged by their service. Then the driver starts daemons.
func TestRealHostManaged(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.Driver = "0.5.0"
	r.define(t)
	must(t, r.Objects().Delete(t.Context(), "deviceclasses", "", daemonClass)) // which the chart leaves out in this mode
	if err := r.StartComputeDomainController(t.Context(), "driver", "--imex-mode=hostManaged", "--feature-gates=HostManagedIMEXDaemon=true"); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", Labels: map[string]string{topology.CliqueLabel: someClique}}}
	if _, err := r.Client().CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tenant := &nvapi.ComputeDomain{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tenant"}, Spec: nvapi.ComputeDomainSpec{
		NumNodes: 1, Channel: &nvapi.ComputeDomainChannelSpec{ResourceClaimTemplate: nvapi.ComputeDomainResourceClaimTemplate{Name: "tenants-channel"}}}}
	if _, err := r.nvidia.ComputeDomains("default").Create(t.Context(), tenant, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the controller has admitted the domain", func() bool {
		d, err := r.nvidia.ComputeDomains("default").Get(t.Context(), "tenant", metav1.GetOptions{})
		must(t, err)
		return d.Status.Status == nvapi.ComputeDomainStatusReady
	})
	must(t, r.AddNamespaces(t.Context(), imex.DefaultNamespace))

	o := &clusterTest{clusterRig: r, c: observer(t, r.Config(), imex.Config{})}
	start(t, o.c.Run)
	host := func(s *imex.Observation) bool {
		return s.Join == imex.JoinHost && strings.Contains(s.Why, "the machines' own nvidia-imex.service serves") && s.Domain.Problem.Reason == "" && s.Domain.UID == ""
	}
	seenIs(t, o.c, "the hosts serve", host)
	if seen, err := o.c.Ensure(t.Context()); err != nil || seen.Domain.UID != "" || seen.Domain.Problem.Reason != "" {
		t.Errorf("Ensure: %+v, %v", seen, err)
	}
	n, err := NewNode(r.Config(), o.c.config, "n0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	start(t, n.Run)
	seenIs(t, n, "the hosts serve, as the agent sees it", host)

	major := 235
	for _, service := range []struct {
		runs          bool
		daemon, words string
	}{{true, imex.DaemonReady, imex.ReasonReady}, {true, "WAITING_FOR_PEERS", imex.ReasonNotReady}, {false, "", imex.ReasonNotReady}, {true, "", imex.ReasonUnknown}} {
		seen, err := o.c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		seen.Nodes = map[string]imex.Node{"n0": {Name: "n0", GPUs: true, CliqueLabel: someClique, Local: &topology.IMEX{ChannelMajor: &major, HostService: service.runs, DaemonState: service.daemon}}}
		if v := imex.Judge(seen)["n0"]; v.Reason != service.words || strings.Contains(v.Remedy, "disable") {
			t.Errorf("%+v: %+v", service, v)
		}
	}
	domains, err := r.nvidia.ComputeDomains(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(domains.Items) != 1 {
		t.Errorf("%d ComputeDomains, %v, want the tenant's only", len(domains.Items), err)
	}
	sets, err := r.Client().AppsV1().DaemonSets(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) != 0 {
		t.Errorf("%d DaemonSets, %v, want none", len(sets.Items), err)
	}

	if err := r.ApplyDeviceClasses(t.Context()); err != nil { // the site goes on to imex.mode=driverManaged
		t.Fatal(err)
	}
	d := domainIs(t, o.c, "none beside the tenant's", reasonIs(imex.NoDomain))
	if !strings.Contains(d.Problem.Message, "because there is another ComputeDomain") {
		t.Errorf("%+v", d)
	}
	must(t, r.nvidia.ComputeDomains("default").Delete(t.Context(), "tenant", metav1.DeleteOptions{}))
	domainIs(t, o.c, "made", usable)
	seenIs(t, o.c, "a holder is to claim", func(s *imex.Observation) bool { return s.Join == imex.JoinHolder })
}
