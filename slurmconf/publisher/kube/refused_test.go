package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

// TestWorkerInvalid reads why Slurm refuses a worker's registration from the conditions that
// Slinky's operator writes.
func TestWorkerInvalid(t *testing.T) {
	const reason = "Failed to set topology 'nvl:b9'"
	for name, tt := range map[string]struct {
		condition corev1.PodCondition
		want      string
	}{
		"refused":            {corev1.PodCondition{Type: inputs.ConditionInvalidReg, Status: corev1.ConditionTrue, Message: reason}, reason},
		"no longer":          {corev1.PodCondition{Type: inputs.ConditionInvalidReg, Status: corev1.ConditionFalse, Message: reason}, ""},
		"drained afterwards": {corev1.PodCondition{Type: "SlurmNodeStateDrain", Status: corev1.ConditionTrue, Message: reason}, ""},
	} {
		pod := slurmdPod(1)
		was := slimPod(pod.DeepCopy())
		pod.Status.Conditions = append(pod.Status.Conditions, tt.condition)
		is := slimPod(pod)
		if is.Worker.Invalid != tt.want {
			t.Errorf("%s: %+v, want %q", name, is, tt.want)
		}
		if got := relevant(was, is); got != (tt.want != "") {
			t.Errorf("%s: relevant %t", name, got)
		}
	}
}
