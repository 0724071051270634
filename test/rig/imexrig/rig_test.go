package imexrig

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/test/rig/await"
)

// TestRealComputeDomain joins three racks by pods that claim channels, and
// shows that a node has but one. A fourth rack has a node too many.
func TestRealComputeDomain(t *testing.T) {
	t.Parallel()
	const racks, nodes = 3, 6
	c, f := StartTest(t, Options{DriverNamespace: "driver", Nodes: Racks(racks, nodes), ReadyAfter: 200 * time.Millisecond})
	domain, err := f.AddDomain(t.Context(), "default", "all", "all-channel")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, s := range Racks(racks, nodes) {
		hold(t, f, s.Name)
	}
	for rack := range racks {
		await.Until(t, fmt.Sprintf("ready in rack %d", rack), func() bool { return ready(f, domain.UID, RackClique(rack)) == nodes })
	}
	t.Logf("%d nodes ready after %s", racks*nodes, time.Since(began))
	for rack := range racks {
		var got, want []int
		for _, e := range f.Entries(domain.UID, RackClique(rack)) {
			got = append(got, e.Index)
		}
		for i := range nodes {
			want = append(want, i)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("indexes in rack %d (-want +got):\n%s", rack, diff)
		}
	}
	allocated := map[string]int{}
	claims, err := c.Client().ResourceV1().ResourceClaims("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range claims.Items {
		for _, r := range claim.Status.Allocation.Devices.Results {
			allocated[r.Pool+"/"+r.Device]++
		}
	}
	for _, s := range Racks(racks, nodes) {
		if allocated[s.Name+"/channel-0"] != 1 {
			t.Errorf("channel-0 of node %s is allocated to %d claims, want 1", s.Name, allocated[s.Name+"/channel-0"])
		}
	}
	await.Until(t, "ready by the domain's status", func() bool {
		all := f.domain(string(domain.UID)).Status
		return all.Status == nvapi.ComputeDomainStatusReady && len(all.Nodes) == racks*nodes
	})

	if err := f.ClaimingPod(t.Context(), "default", "second", "r02n05", "all-channel"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a second claim found without a device", func() bool {
		second, err := c.Client().CoreV1().Pods("default").Get(t.Context(), "second", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(second.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		})
	})
	fullClique(t, f, domain.UID)
}

// hold makes a pod that claims a channel on the node.
func hold(t *testing.T, f *Fleet, node string) {
	t.Helper()
	if err := f.ClaimingPod(t.Context(), "default", "holder-"+node, node, "all-channel"); err != nil {
		t.Fatal(err)
	}
}

// fullClique shows that the nineteenth daemon of a clique gets no entry.
func fullClique(t *testing.T, f *Fleet, domain types.UID) {
	t.Helper()
	const rack = 3
	var nodes []*Node
	for i := range MaxDaemons + 1 {
		n, err := f.AddNode(t.Context(), Spec{Name: fmt.Sprintf("r%02dn%02d", rack, i), Clique: RackClique(rack)})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
		hold(t, f, n.name)
	}
	await.Until(t, "full", func() bool { return ready(f, domain, RackClique(rack)) == MaxDaemons })
	await.Until(t, "refused", func() bool {
		return slices.ContainsFunc(nodes, func(n *Node) bool {
			err := n.Err()
			return err != nil && strings.Contains(err.Error(), "no available indices")
		})
	})
}

// ready counts the entries of a clique that are ready.
func ready(f *Fleet, domain types.UID, clique string) int {
	count := 0
	for _, e := range f.Entries(domain, clique) {
		if e.Status == nvapi.ComputeDomainStatusReady {
			count++
		}
	}
	return count
}
