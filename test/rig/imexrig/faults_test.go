package imexrig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// scene is two racks of three nodes and one node without multi-node NVLink, all
// but one in a domain.
type scene struct {
	cluster *kuberig.Cluster
	fleet   *Fleet
	domain  *nvapi.ComputeDomain
}

// TestRealFaults shows each fault as the API server shows it.
func TestRealFaults(t *testing.T) {
	t.Parallel()
	c, f := StartTest(t, Options{DriverNamespace: "driver", Nodes: append(Racks(2, 3), Spec{Name: "plain"})})
	domain, err := f.AddDomain(t.Context(), "default", "all", "all-channel")
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"r00n00", "r00n01", "r00n02", "r01n00", "r01n01", "plain"} {
		if err := f.ClaimingPod(t.Context(), "default", "holder-"+node, node, "all-channel"); err != nil {
			t.Fatal(err)
		}
	}
	s := scene{c, f, domain}
	await.Until(t, "all ready", func() bool {
		return ready(f, domain.UID, RackClique(0)) == 3 && ready(f, domain.UID, RackClique(1)) == 2 && s.podReady(t, "default", "holder-plain")
	})
	t.Run("no clique", s.plain)
	t.Run("not ready", s.notReady)
	t.Run("frozen status", s.frozen)
	t.Run("lost entry", s.lost)
	t.Run("restart", s.restart)
	t.Run("power", s.power)
	t.Run("another clique", s.moved)
	t.Run("another domain", s.another)
	t.Run("unprepare", s.unprepare)
}

func (s scene) entry(rack int, node string) nvapi.ComputeDomainDaemonInfo {
	return s.fleet.Entries(s.domain.UID, RackClique(rack))[node]
}

func (s scene) podReady(t *testing.T, namespace, name string) bool {
	t.Helper()
	pod, err := s.cluster.Client().CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	return err == nil && podReady(pod)
}

func (s scene) label(t *testing.T, node string) string {
	t.Helper()
	machine, err := s.cluster.Client().CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return machine.Labels[DomainLabel]
}

func (s scene) plain(t *testing.T) {
	for _, m := range s.fleet.domain(string(s.domain.UID)).Status.Nodes {
		if m.Name == "plain" {
			if m.Index != -1 || m.CliqueID != "" || m.Status != nvapi.ComputeDomainStatusReady {
				t.Errorf("the domain's status has %+v", m)
			}
			return
		}
	}
	t.Error("the domain's status has no such node")
}

func (s scene) notReady(t *testing.T) {
	node := s.fleet.Node("r00n00")
	node.SetReady(false)
	await.Until(t, "not ready by its entry", func() bool { return s.entry(0, "r00n00").Status == nvapi.ComputeDomainStatusNotReady })
	if !s.podReady(t, "default", "holder-r00n00") {
		t.Error("the pod that has been given its channel is not ready")
	}
	node.SetReady(true)
	await.Until(t, "ready again", func() bool { return s.entry(0, "r00n00").Status == nvapi.ComputeDomainStatusReady })
}

func (s scene) frozen(t *testing.T) {
	node := s.fleet.Node("r00n00")
	node.FreezeStatus(true)
	node.SetReady(false)
	await.Until(t, "a daemon's pod that is not ready", func() bool { return !podReady(s.daemon(t, "r00n00")) })
	s.settle(t)
	if e := s.entry(0, "r00n00"); e.Status != nvapi.ComputeDomainStatusReady {
		t.Errorf("a frozen status has changed: %+v", e)
	}
	node.FreezeStatus(false)
	await.Until(t, "not ready by its entry", func() bool { return s.entry(0, "r00n00").Status == nvapi.ComputeDomainStatusNotReady })
	node.SetReady(true)
	await.Until(t, "ready again", func() bool { return s.entry(0, "r00n00").Status == nvapi.ComputeDomainStatusReady })
}

// settle waits until another node's entry has changed and changed back: what was
// to be written before is written.
func (s scene) settle(t *testing.T) {
	t.Helper()
	for _, status := range []string{nvapi.ComputeDomainStatusNotReady, nvapi.ComputeDomainStatusReady} {
		s.fleet.Node("r01n01").SetReady(status == nvapi.ComputeDomainStatusReady)
		await.Until(t, "settled", func() bool { return s.entry(1, "r01n01").Status == status })
	}
}

// daemon returns the pod of a node's daemon.
func (s scene) daemon(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	pods, err := s.cluster.Client().CoreV1().Pods("driver").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			return &pods.Items[i]
		}
	}
	return &corev1.Pod{}
}

func (s scene) lost(t *testing.T) {
	before := s.entry(0, "r00n01")
	node := s.fleet.Node("r00n01")
	node.LoseEntry(true)
	await.Until(t, "without its entry", func() bool { return s.entry(0, "r00n01").NodeName == "" })
	if !podReady(s.daemon(t, "r00n01")) {
		t.Error("the daemon's pod is not ready")
	}
	node.LoseEntry(false)
	await.Until(t, "entered again", func() bool { return s.entry(0, "r00n01") == before })
}

func (s scene) restart(t *testing.T) {
	before := s.entry(0, "r00n02")
	if err := s.fleet.Node("r00n02").RestartDaemon(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "entered with another address", func() bool {
		now := s.entry(0, "r00n02")
		return now.NodeName != "" && now.IPAddress != before.IPAddress && now.Index == before.Index && now.Status == nvapi.ComputeDomainStatusReady
	})
}

func (s scene) power(t *testing.T) {
	before := s.entry(1, "r01n00")
	node := s.fleet.Node("r01n00")
	if err := node.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a daemon's pod that is not ready", func() bool { return !podReady(s.daemon(t, "r01n00")) })
	node.SetReady(false) // nobody is left to write it
	s.settle(t)
	if e := s.entry(1, "r01n00"); e != before {
		t.Errorf("the entry of a dead node has changed: %+v", e)
	}
	node.SetReady(true)
	if err := node.Boot(t.Context(), RackClique(1)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "entered with another address after the boot", func() bool {
		now := s.entry(1, "r01n00")
		return now.IPAddress != before.IPAddress && now.Index == before.Index && now.Status == nvapi.ComputeDomainStatusReady &&
			s.podReady(t, "default", "holder-r01n00")
	})
}

func (s scene) moved(t *testing.T) {
	if err := s.fleet.Node("r00n02").Boot(t.Context(), RackClique(1)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "entered in the new clique", func() bool { return s.entry(1, "r00n02").Status == nvapi.ComputeDomainStatusReady })
	// A node with two entries is more than the domain's status can have: the driver
	// writes it no more, for no node.
	before := s.status(t)
	s.fleet.Node("r01n01").SetReady(false)
	await.Until(t, "not ready by its entry", func() bool { return s.entry(1, "r01n01").Status == nvapi.ComputeDomainStatusNotReady })
	refused := s.refused(t)
	await.Until(t, "refused", func() bool { return s.refused(t) > refused })
	if diff := cmp.Diff(before, s.status(t)); diff != "" {
		t.Errorf("the domain's status has been written (-before +after):\n%s", diff)
	}
	if e := s.entry(0, "r00n02"); e.NodeName == "" {
		t.Error("the entry under the old clique is gone")
	}
	s.fleet.Node("r01n01").SetReady(true)
}

// refused counts how often the driver's controller could not write a status.
func (s scene) refused(t *testing.T) int {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(s.cluster.Dir, "compute-domain-controller.log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(log), `Duplicate value: {"name":"r00n02"}`)
}

// status returns the domain's as it is now.
func (s scene) status(t *testing.T) nvapi.ComputeDomainStatus {
	t.Helper()
	domain, err := s.fleet.nvidia.ResourceV1beta1().ComputeDomains("default").Get(t.Context(), "all", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return domain.Status
}

// another lets a second domain's daemon into a clique.
func (s scene) another(t *testing.T) {
	other, err := s.fleet.AddDomain(t.Context(), "default", "other", "other-channel")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.fleet.ClaimingPod(t.Context(), "default", "other-r01n02", "r01n02", "other-channel"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "ready in a domain of its own", func() bool { return ready(s.fleet, other.UID, RackClique(1)) == 1 })
	if got := s.label(t, "r01n02"); got != string(other.UID) {
		t.Errorf("the node's label is %q, want the other domain's %q", got, other.UID)
	}
	if _, there := s.fleet.Entries(s.domain.UID, RackClique(1))["r01n02"]; there {
		t.Error("the node has an entry in both domains")
	}
}

func (s scene) unprepare(t *testing.T) {
	before := s.entry(0, "r00n00")
	if err := s.cluster.Client().CoreV1().Pods("default").Delete(t.Context(), "holder-r00n00", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "out of the domain", func() bool {
		return s.label(t, "r00n00") == "" && s.entry(0, "r00n00").NodeName == "" && s.daemon(t, "r00n00").Name == ""
	})
	if err := s.fleet.ClaimingPod(t.Context(), "default", "again", "r00n00", "all-channel"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "in again with the index that got free", func() bool {
		now := s.entry(0, "r00n00")
		return now.NodeName != "" && now.Index == before.Index && now.IPAddress != before.IPAddress && now.Status == nvapi.ComputeDomainStatusReady
	})
}
