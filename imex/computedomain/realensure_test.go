package computedomain

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
)

// TestRealEnsure takes one domain through all that can become of it, against a
// real API server that at first has no driver.
func TestRealEnsure(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	must(t, r.AddNamespaces(t.Context(), "quoin-node", "quoin-system"))
	rc, requests := counted(r.Config())
	c := observer(t, rc, imex.Config{})
	if _, err := c.Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "the DeviceClasses of NVIDIA's DRA driver not read yet") {
		t.Errorf("before anything is read Ensure says %v", err)
	}
	if n := requests.requests(); len(n) != 0 {
		t.Errorf("requests before Run: %q", n)
	}
	start(t, c.Run)
	// GPU Operator 26.7 installs the CRDs without the driver.
	if err := r.ApplyComputeDomainCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := domainIs(t, c, "no driver", reasonIs(imex.ReasonNoDriver))
	if !strings.Contains(d.Problem.Message, channelClass) || d.UID != "" || d.Namespace != "quoin-node" || d.Name != "quoin" {
		t.Errorf("without the driver: %+v", d)
	}
	for _, request := range requests.requests() {
		if !strings.Contains(request, "/deviceclasses?") {
			t.Errorf("without the driver asked for %s", request)
		}
	}
	r.define(t)
	made := domainIs(t, c, "made", usable)
	if sent := requests.lastPosted(); !strings.Contains(sent, `"numNodes":0`) { // the API server's own default would hide it
		t.Errorf("numNodes is not sent: %s", sent)
	}
	r.checkMade(t, made)
	r.checkRemade(t, c, made)
	r.checkDiffers(t, c)
	r.checkAll(t)
	r.checkDeleting(t, c)
}

// checkMade reads the domain as the API server has it.
func (r *clusterRig) checkMade(t *testing.T, made imex.Domain) {
	t.Helper()
	raw, err := r.nvidia.RESTClient().Get().Namespace("quoin-node").Resource("computedomains").Name("quoin").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"numNodes":0`, `"allocationMode":"Single"`, `"name":"quoin-imex-channel"`, `"app.kubernetes.io/managed-by":"quoin"`, `"uid":"` + made.UID + `"`, `"manager":"quoin-publisher"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the domain lacks %s: %s", want, raw)
		}
	}
}

// checkRemade has the domain deleted, and adopts what another publisher made.
func (r *clusterRig) checkRemade(t *testing.T, c *Cluster, made imex.Domain) {
	t.Helper()
	must(t, r.Objects().Delete(t.Context(), "computedomains", "quoin-node", "quoin"))
	again := domainIs(t, c, "made again", func(d imex.Domain) bool { return usable(d) && d.UID != made.UID })
	other := observer(t, r.Config(), imex.Config{})
	start(t, other.Run)
	domainIs(t, other, "adopted", func(d imex.Domain) bool { return usable(d) && d.UID == again.UID })
}

// checkDiffers puts another's domain in the place of ours.
func (r *clusterRig) checkDiffers(t *testing.T, c *Cluster) {
	t.Helper()
	api := r.nvidia.ComputeDomains("quoin-node")
	other := &nvapi.ComputeDomain{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: nvapi.ComputeDomainSpec{NumNodes: 4,
		Channel: &nvapi.ComputeDomainChannelSpec{ResourceClaimTemplate: nvapi.ComputeDomainResourceClaimTemplate{Name: "their-channel"}}}}
	if _, err := api.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	theirs := observer(t, r.Config(), imex.Config{Name: "theirs", AllocationMode: imex.AllocateAll})
	start(t, theirs.Run)
	d := domainIs(t, theirs, "refused", reasonIs(imex.DomainDiffers))
	for _, want := range []string{"spec.numNodes is 4, not 0", "spec.channel.resourceClaimTemplate.name is their-channel, not quoin-imex-channel", "spec.channel.allocationMode is Single, not All", "cannot be changed", "imex.name"} {
		if !strings.Contains(d.Problem.Message+"; "+d.Problem.Remedy, want) {
			t.Errorf("the problem lacks %q: %+v", want, d.Problem)
		}
	}
	if d.UID == "" {
		t.Error("a domain that is there has no UID")
	}
	must(t, r.Objects().Delete(t.Context(), "computedomains", "quoin-node", "theirs"))
}

// checkAll adopts a domain with all channels, though one is configured.
func (r *clusterRig) checkAll(t *testing.T) {
	t.Helper()
	old := &nvapi.ComputeDomain{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: nvapi.ComputeDomainSpec{Channel: &nvapi.ComputeDomainChannelSpec{
		ResourceClaimTemplate: nvapi.ComputeDomainResourceClaimTemplate{Name: "quoin-imex-channel"}, AllocationMode: imex.AllocateAll}}}
	made, err := r.nvidia.ComputeDomains("quoin-system").Create(t.Context(), old, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := observer(t, r.Config(), imex.Config{Namespace: "quoin-system", Name: "old"})
	start(t, c.Run)
	domainIs(t, c, "adopted with all channels", func(d imex.Domain) bool { return usable(d) && d.UID == string(made.UID) })
	must(t, r.Objects().Delete(t.Context(), "computedomains", "quoin-system", "old"))
}

// checkDeleting deletes the domain while the driver's finalizer holds it.
func (r *clusterRig) checkDeleting(t *testing.T, c *Cluster) {
	t.Helper()
	r.finalize(t, `["resource.nvidia.com/computeDomain"]`)
	must(t, r.nvidia.ComputeDomains("quoin-node").Delete(t.Context(), "quoin", metav1.DeleteOptions{}))
	d := domainIs(t, c, "being deleted", reasonIs(imex.DomainDeleting))
	if d.Problem.Reason != imex.DomainDeleting {
		t.Errorf("being deleted: %+v", d)
	}
	r.finalize(t, "null")
	domainIs(t, c, "made a third time", func(n imex.Domain) bool { return usable(n) && n.UID != d.UID })
}
