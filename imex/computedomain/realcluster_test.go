package computedomain

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// TestRealCluster watches pods and lists claims while the real scheduler and the
// driver's real controller work on them.
func TestRealCluster(t *testing.T) { onDrivers(t, clusterWatched) }

func clusterWatched(t *testing.T, driver string) {
	r := newRig(t, kuberig.StartOwnTest(t))
	r.Driver = driver
	r.define(t)
	for _, start := range []func(context.Context) error{r.ApplyDeviceClasses, r.StartControllerManager, r.StartScheduler} {
		if err := start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.StartComputeDomainController(t.Context(), "driver"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n0", "n1"} {
		r.addNode(t, name)
	}
	o := &clusterTest{clusterRig: r, c: observer(t, r.Config(), imex.Config{Namespace: "default"})}
	start(t, o.c.Run)
	o.domain = domainIs(t, o.c, "made", usable)
	t.Run("claims", o.claims)
	t.Run("runbook", o.runbook)
	t.Run("API server restarts", o.restarted)
	t.Run("deleted", o.deleted)
}

type clusterTest struct {
	*clusterRig
	c      *Cluster
	domain imex.Domain
}

// addNode makes a Node with what the driver's kubelet plugin publishes of it.
func (r *clusterRig) addNode(t *testing.T, name string) {
	t.Helper()
	room := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	if _, err := r.Client().CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: room, Allocatable: room}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var devices []resourcev1.Device
	for _, kind := range []string{"channel", "daemon"} {
		id := int64(0)
		devices = append(devices, resourcev1.Device{Name: kind + "-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: &kind}, "id": {IntValue: &id}}})
	}
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-slice"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driverName, NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1}, Devices: devices}}
	if _, err := r.Client().ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// addPod makes a pod with a channel's claim; on is the one node that it wants.
func (r *clusterRig) addPod(t *testing.T, name, template, on string, labels map[string]string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "channel"}}}}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "channel", ResourceClaimTemplateName: &template}},
		Tolerations:    []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}}
	if on != "" {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{on}}}}},
		}}}
	}
	if _, err := r.Client().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

var (
	holderLabels = map[string]string{labelName: holderName, labelComponent: holderComponent}
	slurmdLabels = map[string]string{labelName: slurmdName, labelComponent: slurmdComponent}
)

// seenIs waits for a Snapshot.
func seenIs(t *testing.T, watch interface {
	Changes() <-chan struct{}
	Snapshot() (*imex.Observation, error)
}, what string, is func(*imex.Observation) bool) *imex.Observation {
	t.Helper()
	var seen *imex.Observation
	until(t, watch.Changes(), what, func() (bool, string) {
		var err error
		seen, err = watch.Snapshot()
		return err == nil && is(seen), fmt.Sprintf("%+v, %v", seen, err)
	})
	return seen
}

// claimLines are claims without the random ends of their names.
func claimLines(claims []imex.Claim) []string {
	var out []string
	for _, c := range claims {
		out = append(out, fmt.Sprintf("%s of %s: node %q owner %s pods %v waiting %q", strings.TrimSuffix(c.Name[:strings.LastIndex(c.Name, "-")], "-channel"), c.Namespace, c.Node, c.Owner, c.Pods, c.Waiting))
	}
	slices.Sort(out)
	return out
}

func (o *clusterTest) claims(t *testing.T) {
	r := o.clusterRig
	r.addPod(t, "holder-a", "quoin-imex-channel", "n0", holderLabels)
	seenIs(t, o.c, "the holder has a node, and so its channel", func(s *imex.Observation) bool { return s.Join == imex.JoinHolder })
	if seen := r.listed(t, o.c.config); len(seen.Claims) != 1 || len(seen.Claims[0].Pods) != 1 {
		t.Errorf("a pod has a node before its claim is allocated: %+v", seen.Claims)
	}
	r.addPod(t, "slurmd-a", "quoin-imex-channel", "n0", slurmdLabels)
	r.addPod(t, "free", "quoin-imex-channel", "n1", nil)
	o.claimsAre(t, "the free one", func(claims []imex.Claim) bool {
		return len(claims) == 3 && strings.Contains(fmt.Sprint(claims), "default/free]")
	})
	r.addPod(t, "late", "quoin-imex-channel", "", nil)
	want := []string{
		`free of default: node "n1" owner other pods [default/free] waiting ""`,
		`holder-a of default: node "n0" owner holder pods [default/holder-a] waiting ""`,
		`late of default: node "" owner  pods [] waiting ""`,
		`slurmd-a of default: node "n0" owner slurmd pods [] waiting "default/slurmd-a"`,
	}
	for _, c := range o.claimsAre(t, "four claims", func(claims []imex.Claim) bool { return cmp.Equal(want, claimLines(claims)) }) {
		if c.Domain != o.domain.UID {
			t.Errorf("claim %s is of domain %q, not %q", c.Name, c.Domain, o.domain.UID)
		}
	}
	// What follows is the driver's: a daemon's claim, which names the domain too.
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "daemon"}, Spec: o.daemonSpec(t)}
	if _, err := r.Client().ResourceV1().ResourceClaims("driver").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.RemovePod(t.Context(), "default", "late"); err != nil {
		t.Fatal(err)
	}
	left := o.claimsAre(t, "one is gone", func(claims []imex.Claim) bool { return len(claims) == 3 })
	if got := claimLines(left); !cmp.Equal(got, slices.Delete(want, 2, 3)) {
		t.Errorf("claims are %q", got)
	}
}

// claimsAre waits for claims that a list has.
func (o *clusterTest) claimsAre(t *testing.T, what string, is func([]imex.Claim) bool) (claims []imex.Claim) {
	t.Helper()
	until(t, tick(t), what, func() (bool, string) {
		claims = o.listed(t, o.c.config).Claims
		return is(claims), fmt.Sprint(claimLines(claims))
	})
	return claims
}

// daemonSpec is what the driver's controller has in its template for daemons.
func (o *clusterTest) daemonSpec(t *testing.T) resourcev1.ResourceClaimSpec {
	t.Helper()
	template, err := o.Client().ResourceV1().ResourceClaimTemplates("driver").Get(t.Context(), "computedomain-daemon-"+o.domain.UID, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return template.Spec.Spec
}

// runbook holds that the commands by which an admin looks for holders of channels say
// who they are.
func (o *clusterTest) runbook(t *testing.T) {
	text, err := os.ReadFile("../../manifests/RUNBOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := func(command string) string {
		t.Helper()
		_, rest, is := strings.Cut(string(text), "kubectl "+command)
		if !is {
			t.Fatalf("RUNBOOKS.md has no kubectl %s", command)
		}
		line, _, _ := strings.Cut(command+rest, "\n")
		out, err := o.Kubectl(t.Context(), strings.Fields(strings.ReplaceAll(line, "quoin-node", "default"))...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	uid := strings.Fields(shown("get computedomain quoin"))[1]
	var pods []string
	for line := range strings.Lines(shown("get resourceclaims -A")) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "ComputeDomainChannelConfig" && f[2] == uid && f[3] != "<none>" {
			pods = append(pods, f[0]+"/"+f[3])
		}
	}
	slices.Sort(pods)
	if want := []string{"default/free", "default/holder-a"}; uid != o.domain.UID || !slices.Equal(pods, want) {
		t.Errorf("domain %q, pods %q, want %q, %q", uid, pods, o.domain.UID, want)
	}
}

func (o *clusterTest) deleted(t *testing.T) {
	for _, pod := range []string{"slurmd-a", "free"} {
		must(t, o.RemovePod(t.Context(), "default", pod))
	}
	o.claimsAre(t, "no claims", func(claims []imex.Claim) bool { return len(claims) == 0 })
	must(t, o.nvidia.ComputeDomains("default").Delete(t.Context(), "quoin", metav1.DeleteOptions{}))
	o.domain = domainIs(t, o.c, "made again after the driver's cleaning", func(d imex.Domain) bool { return usable(d) && d.UID != o.domain.UID })
}

func (o *clusterTest) restarted(t *testing.T) {
	o.StopServer()
	if seen, err := o.c.Snapshot(); err != nil || seen.Join != imex.JoinHolder {
		t.Errorf("while the API server is away: %+v, %v", seen, err)
	}
	if err := o.StartServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, o.RemovePod(t.Context(), "default", "holder-a"))
	seenIs(t, o.c, "what happened since", func(s *imex.Observation) bool { return s.Join == imex.JoinSlurmd })
}
