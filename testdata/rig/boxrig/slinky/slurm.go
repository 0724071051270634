package slinky

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/testdata/rig/boxrig"
)

// Slurm is the Slurm of a box.
type Slurm struct{ Box *boxrig.Box }

// StartController starts slurmctld and slurmrestd. The webhook refuses it before the
// ConfigMap quoin-slurm is there.
func (s Slurm) StartController(ctx context.Context) error {
	for name, size := range map[string]int{"slurm-auth/slurm.key": 1024, "slurm-jwt/jwt.key": 32} {
		secret, key, _ := strings.Cut(name, "/")
		data := make([]byte, size)
		_, _ = rand.Read(data) // it never fails
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}, Data: map[string][]byte{key: data}}
		if _, err := s.Box.Client().CoreV1().Secrets(namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("start slurmctld: %w", err)
		}
	}
	if err := s.Box.Apply(ctx, controller); err != nil {
		return fmt.Errorf("start slurmctld: %w", err)
	}
	return nil
}

// StartNodes starts five worker pods, gpu-0 and so on.
func (s Slurm) StartNodes(ctx context.Context) error { return s.Box.Apply(ctx, nodeSet) }

// Nudge makes the operator look at the NodeSet again. It waits longer and longer while
// slurmctld and slurmrestd come up.
func (s Slurm) Nudge(ctx context.Context, mark string) error {
	_, err := s.Box.Kubectl(ctx, "-n", namespace, "annotate", "--overwrite", "nodesets.slinky.slurm.net", "gpu", "nudge="+mark)
	return err
}

// Scontrol runs scontrol beside slurmctld.
func (s Slurm) Scontrol(ctx context.Context, args ...string) (string, error) {
	return s.Box.Kubectl(ctx, append([]string{"-n", namespace, "exec", "slurm-controller-0", "-c", "slurmctld", "--", "scontrol"}, args...)...)
}

// AsUser runs a command as a user in a worker pod.
func (s Slurm) AsUser(ctx context.Context, pod string, args ...string) (string, error) {
	return s.Box.Kubectl(ctx, append([]string{"-n", namespace, "exec", pod, "-c", "slurmd", "--",
		"setpriv", "--reuid", "alice", "--regid", "alice", "--clear-groups", "env", "HOME=/tmp", "USER=alice"}, args...)...)
}
