package manifests_test

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/imexrig"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
)

// nodeSide are the objects on which jobs across nodes rest: agents, holders and their
// claims, the domain, and the driver's daemons. A line has kind, name, UID and the time of
// the deletion.
func (m *membership) nodeSide() []string {
	m.t.Helper()
	list, err := m.cluster.Objects().List(m.t.Context(), "pods,daemonsets,resourceclaims,computedomains,computedomaincliques", "")
	if err != nil {
		m.t.Fatal(err)
	}
	var lines []string
	for i := range list.Items {
		u, deleted := &list.Items[i], "<none>"
		if at := u.GetDeletionTimestamp(); at != nil {
			deleted = at.Format(time.RFC3339)
		}
		lines = append(lines, strings.Join([]string{u.GetKind(), u.GetNamespace(), u.GetName(), string(u.GetUID()), deleted}, " "))
	}
	slices.Sort(lines)
	return lines
}

// members waits until each node is a member by the publisher's own count.
func (m *membership) members(nodes []imexrig.Spec) {
	m.t.Helper()
	for _, s := range nodes {
		m.until(s.Name, "False Ready")
	}
	all := strconv.Itoa(len(nodes))
	await.Until(m.t, "the publisher counts all nodes", func() bool { return m.counted()[imex.ReasonReady] == all })
}

// reinstalled takes the first publisher away with its namespace, and installs it again.
func (m *membership) reinstalled(nodes []imexrig.Spec, first *exec.Cmd) {
	t := m.t
	t.Helper()
	m.members(nodes)
	before := m.nodeSide()
	for _, want := range []string{"DaemonSet quoin-node quoin-agent", "DaemonSet quoin-node quoin-imex", "Pod quoin-node quoin-imex", "ResourceClaim quoin-node quoin-imex",
		"ComputeDomain quoin-node quoin", "Pod " + driverNamespace + " computedomain-daemon", "ComputeDomainClique " + driverNamespace} {
		if !slices.ContainsFunc(before, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Fatalf("there is no %q among\n%s", want, strings.Join(before, "\n"))
		}
	}
	if err := m.cluster.Objects().DeleteFiles(t.Context(), "plain/base/41-publisher.yaml", "plain/base/13-rbac-imex.yaml", "plain/base/12-rbac-publication.yaml", "plain/base/11-rbac-publisher.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := m.cluster.Objects().Delete(t.Context(), "namespaces", "", "quoin-system"); err != nil {
		t.Fatal(err)
	}
	_ = first.Process.Kill()
	if diff := cmp.Diff(before, m.nodeSide()); diff != "" {
		t.Errorf("without the publisher (-want +got):\n%s", diff)
	}
	if err := m.cluster.Objects().Apply(t.Context(), "plain/base", "plain/imex"); err != nil {
		t.Fatal(err)
	}
	m.metrics = loopback.Address(9836)
	m.startPublisher()
	m.members(nodes)
	if diff := cmp.Diff(before, m.nodeSide()); diff != "" {
		t.Errorf("installed again (-want +got):\n%s", diff)
	}
}

// selected holds that the label quoin.dev/imex goes before that of GPU Operator.
func (m *membership) selected() {
	m.t.Helper()
	holder := func(node string) string {
		for _, line := range m.nodeSide() {
			if f := strings.Fields(line); f[0] == "Pod" && strings.HasPrefix(f[2], "quoin-imex-") && f[4] == "<none>" {
				pod, err := m.cluster.Client().CoreV1().Pods(f[1]).Get(m.t.Context(), f[2], metav1.GetOptions{})
				if err == nil && pod.Spec.NodeName == node {
					return line
				}
			}
		}
		return ""
	}
	before := holder("r00n03")
	for _, label := range [][]string{{"r00n03", "quoin.dev/imex", "true"}, {"r00n03", "nvidia.com/gpu.present", "false"}, {"r00n02", "quoin.dev/imex", "false"}} {
		if err := m.cluster.Objects().Patch(m.t.Context(), "nodes", "", label[0], withLabel(label[1], label[2])); err != nil {
			m.t.Fatal(err)
		}
	}
	m.until("r00n02", "True NotClaimed")
	if after := holder("r00n03"); before == "" || after != before {
		m.t.Errorf("the holder of r00n03 was %q and is %q", before, after)
	}
}

// TestRealOldDomain upgrades a cluster whose domain and holders are in quoin-system, with
// all channels.
func TestRealOldDomain(t *testing.T) {
	t.Parallel()
	nodes := imexrig.Racks(1, 4)
	m := newMembership(t, nodes)
	for _, name := range []string{"plain/base/13-rbac-imex.yaml", "plain/imex/42-imex.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.cluster.Objects().ApplyText(t.Context(), strings.ReplaceAll(string(text), "quoin-node", "quoin-system")); err != nil {
			t.Fatal(err)
		}
	}
	domain, err := m.fleet.AddDomain(t.Context(), "quoin-system", "quoin", "quoin-imex-channel")
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "all nodes joined the old domain", func() bool { return len(m.fleet.Entries(domain.UID, imexrig.RackClique(0))) == len(nodes) })
	before := m.nodeSide()
	upgraded := m.startPublisher()
	m.domainSays("quoin-node", "NoDomain", "ComputeDomain quoin-node/quoin is not created", "set imex.namespace: quoin-system")
	if diff := cmp.Diff(before, m.nodeSide()); diff != "" {
		t.Errorf("upgraded (-want +got):\n%s", diff)
	}
	_ = upgraded.Process.Signal(syscall.SIGTERM) // it gives its Lease back
	_ = upgraded.Wait()
	if err := m.cluster.Objects().DeleteFiles(t.Context(), "plain/imex/42-imex.yaml"); err != nil {
		t.Fatal(err)
	}
	m.metrics = loopback.Address(9836)
	m.startPublisher("--set", "imex.namespace=quoin-system")
	m.members(nodes)
	before = slices.DeleteFunc(before, func(line string) bool { return strings.Contains(line, " quoin-node quoin-imex") })
	if diff := cmp.Diff(before, m.nodeSide()); diff != "" {
		t.Errorf("with imex.namespace (-want +got):\n%s", diff)
	}
}
