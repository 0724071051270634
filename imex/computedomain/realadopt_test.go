package computedomain

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// addDomain makes somebody's domain, whose template has its name and "-channel".
func (r *clusterRig) addDomain(t *testing.T, namespace, name string) string {
	t.Helper()
	d := &nvapi.ComputeDomain{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: nvapi.ComputeDomainSpec{NumNodes: 2, Channel: &nvapi.ComputeDomainChannelSpec{
		ResourceClaimTemplate: nvapi.ComputeDomainResourceClaimTemplate{Name: name + "-channel"}, AllocationMode: imex.AllocateAll}}}
	made, err := r.nvidia.ComputeDomains(namespace).Create(t.Context(), d, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(made.UID)
}

// addClaiming makes a pod that names a domain's template. No scheduler and no controller runs, so there is no claim.
func (r *clusterRig) addClaiming(t *testing.T, namespace, name, domain string, labels map[string]string) {
	t.Helper()
	template := domain + "-channel"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "main", Image: "main"}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "channel", ResourceClaimTemplateName: &template}}}}
	if _, err := r.Client().CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestRealAdopt has the domain of Slurm's worker pods adopted, whatever its namespace and spec, and not that of a job.
// No domain is created beside it.
func TestRealAdopt(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	must(t, r.AddNamespaces(t.Context(), "quoin-node", "slurm", "team"))
	r.define(t)
	r.addDomain(t, "team", "train")
	r.addClaiming(t, "team", "train-0", "train", nil)
	r.addClaiming(t, "team", "worker-0", "slurm", slurmdLabels) // of a template in another namespace
	uid := r.addDomain(t, "slurm", "slurm")

	rc, requests := counted(r.Config())
	c := observer(t, rc, imex.Config{})
	start(t, c.Run)
	d := domainIs(t, c, "none is created while another is there", func(d imex.Domain) bool {
		return strings.Contains(d.Problem.Message, "is not created, because there is another ComputeDomain")
	})
	if d.Problem.Reason != imex.NoDomain || !strings.Contains(d.Problem.Remedy, "set imex.join to holder") {
		t.Errorf("%+v", d)
	}
	r.addClaiming(t, "slurm", "worker-0", "slurm", slurmdLabels)
	adopted := func(d imex.Domain) bool {
		return cmp.Equal(d, imex.Domain{Namespace: "slurm", Name: "slurm", UID: uid})
	}
	domainIs(t, c, "adopted", adopted)
	seenIs(t, c, "adopted, as it is judged", func(s *imex.Observation) bool {
		return s.Join == imex.JoinSlurmd && strings.Contains(s.Why, "ComputeDomain slurm/slurm") && adopted(s.Domain) && s.Workers != nil
	})

	other := r.addDomain(t, "team", "slurm") // whose template the worker pod there has named all the time
	d = domainIs(t, c, "two of worker pods", reasonIs(imex.ReasonConflict))
	if d.UID != "" || !strings.Contains(d.Problem.Message, "slurm/slurm and team/slurm") || !strings.Contains(d.Problem.Remedy, "imex.claimTemplate") {
		t.Errorf("two: %+v", d)
	}
	chosen := observer(t, r.Config(), imex.Config{Namespace: "team", Name: "slurm", ClaimTemplate: "slurm-channel", AllocationMode: imex.AllocateAll})
	start(t, chosen.Run)
	domainIs(t, chosen, "two, and one is named", func(d imex.Domain) bool { return d.Namespace == "team" && d.UID == other })
	must(t, r.RemovePod(t.Context(), "team", "worker-0"))
	domainIs(t, c, "one again", adopted)

	r.addDomain(t, "quoin-node", "quoin")
	d = domainIs(t, c, "Quoin's own beside it", func(d imex.Domain) bool { return d.Note.Reason != "" })
	if want := (topology.Finding{Reason: imex.ReasonConflict, Message: "ComputeDomain quoin-node/quoin has no members, and nodes join slurm/slurm, from which Slurm's worker pods claim",
		Remedy: "set holder.enabled to false in the chart's values, then run kubectl -n quoin-node delete computedomain quoin"}); d.UID != uid || d.Note != want {
		t.Errorf("beside Quoin's own: %+v", d)
	}
	must(t, r.RemovePod(t.Context(), "slurm", "worker-0"))
	seenIs(t, c, "scaled to none", func(s *imex.Observation) bool { return s.Domain.UID == uid })
	must(t, r.Objects().Delete(t.Context(), "computedomains", "quoin-node", "quoin"))
	domainIs(t, c, "Quoin's own is deleted", adopted)
	if slices.ContainsFunc(requests.requests(), func(request string) bool {
		return strings.HasPrefix(request, "POST") || strings.HasPrefix(request, "DELETE")
	}) {
		t.Errorf("Quoin has written: %q", requests.requests())
	}
}
