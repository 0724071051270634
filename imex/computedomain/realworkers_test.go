package computedomain

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/imex"
)

// workersClaim has worker pods claim beside the holder, so that no node takes them, and looks
// for the nodes on which worker pods are without a claim.
func (o *fleetTest) workersClaim(t *testing.T) {
	t.Helper()
	r, specs := o.clusterRig, o.specs
	r.addPod(t, "slurmd-a", "quoin-imex-channel", "", slurmdLabels)
	r.addPod(t, "slurmd-b", "quoin-imex-channel", "", slurmdLabels)
	o.reasonsAre(t, "all as before", map[string]int{imex.ReasonReady: len(specs)})
	want := []string{
		`slurmd-a of default: node "" owner slurmd pods [] waiting "default/slurmd-a"`,
		`slurmd-b of default: node "" owner slurmd pods [] waiting "default/slurmd-b"`,
	}
	o.claimsAre(t, "two that no node has", func(claims []imex.Claim) bool {
		ofSlurm := slices.DeleteFunc(claimLines(claims), func(line string) bool { return !strings.HasPrefix(line, "slurmd-") })
		return cmp.Equal(want, ofSlurm)
	})
	if seen, err := o.c.Snapshot(); err != nil || seen.Workers != nil {
		t.Errorf("worker pods on %v, %v, while the holder is to claim", seen.Workers, err)
	}

	slurmd := &fleetTest{clusterTest: &clusterTest{clusterRig: r, c: observer(t, r.Config(), imex.Config{Join: imex.JoinSlurmd, Namespace: "default"})}, specs: specs}
	start(t, slurmd.c.Run)
	slurmd.workersAre(t, "on no node", map[string]bool{})
	idle := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "slurmd-idle", Labels: slurmdLabels}, Spec: corev1.PodSpec{
		NodeName: specs[1].Name, Containers: []corev1.Container{{Name: "main", Image: "main"}}}}
	if _, err := r.Client().CoreV1().Pods("default").Create(t.Context(), idle, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	slurmd.workersAre(t, "on one node without a claim", map[string]bool{specs[1].Name: true})
	r.addPod(t, "slurmd-c", "quoin-imex-channel", specs[2].Name, slurmdLabels)
	slurmd.workersAre(t, "on one more, which it waits for", map[string]bool{specs[1].Name: true, specs[2].Name: true})
	for _, pod := range []string{"slurmd-idle", "slurmd-c"} {
		if err := r.RemovePod(t.Context(), "default", pod); err != nil {
			t.Fatal(err)
		}
	}
	slurmd.workersAre(t, "gone", map[string]bool{})
}

func (o *fleetTest) workersAre(t *testing.T, what string, want map[string]bool) {
	t.Helper()
	seenIs(t, o.c, what, func(s *imex.Observation) bool { return cmp.Equal(want, s.Workers) })
}
