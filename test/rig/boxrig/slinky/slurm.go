package slinky

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/boxrig"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
)

// NodeSet is the NodeSet of Slurm's worker pods. Slurm calls its nodes gpu-0 and so on, or as their Nodes if a
// DaemonSet is asked for.
const NodeSet = "slurm-worker-gpu"

var (
	// Values are a site's own.
	//go:embed values.yaml
	Values string
	// GRES are its values that make way for Quoin's gres.conf.
	//go:embed gres.yaml
	GRES string
	//go:embed dcgm.tpl
	dcgm string
	//go:embed volume.yaml
	volume string
)

// Slurm is the Slurm of a box.
type Slurm struct{ Box *boxrig.Box }

// Install installs Slinky's chart as a site without Quoin does: slurmctld, slurmrestd and five worker pods. More
// values go before the site's own.
func (s Slurm) Install(ctx context.Context, more string) error {
	if err := s.install(ctx, more); err != nil {
		return fmt.Errorf("install Slurm: %w", err)
	}
	return nil
}

func (s Slurm) install(ctx context.Context, more string) error {
	kept, err := images.Chart(ctx)
	if err != nil {
		return err
	}
	if err := os.CopyFS(s.Chart(), os.DirFS(kept)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.Chart(), "templates/_dcgm.tpl"), []byte(dcgm), 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(s.Box.Machines[0].Path("/var/lib/slurmctld"), 0o755); err != nil {
		return err
	}
	if err := s.Box.Apply(ctx, volume); err != nil {
		return err
	}
	args := []string{"install", "slurm", s.Chart(), "--namespace", namespace, "--create-namespace"}
	for i, text := range []string{Values, GRES, more} {
		file := filepath.Join(s.Box.Dir, fmt.Sprintf("slurm-values-%d.yaml", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		args = append(args, "-f", file)
	}
	_, err = s.Box.Helm(ctx, args...)
	return err
}

// Chart is the folder of the chart, once Slurm is installed.
func (s Slurm) Chart() string { return filepath.Join(s.Box.Dir, "slurm-chart") }

// Nudge makes the operator look at the NodeSet again. It waits longer and longer while
// slurmctld and slurmrestd come up.
func (s Slurm) Nudge(ctx context.Context, mark string) error {
	_, err := s.Box.Kubectl(ctx, "-n", namespace, "annotate", "--overwrite", "nodesets.slinky.slurm.net", NodeSet, "nudge="+mark)
	return err
}

// Scontrol runs scontrol beside slurmctld.
func (s Slurm) Scontrol(ctx context.Context, args ...string) (string, error) {
	return s.Box.Kubectl(ctx, append([]string{"-n", namespace, "exec", "slurm-controller-0", "-c", "slurmctld", "--", "scontrol"}, args...)...)
}

// AsUser runs a command as a user in the worker pod of a node of Slurm.
func (s Slurm) AsUser(ctx context.Context, node string, args ...string) (string, error) {
	pods, err := s.Box.Client().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "nodeset.slinky.slurm.net/pod-hostname=" + node})
	if err != nil {
		return "", err
	}
	if len(pods.Items) != 1 {
		return "", fmt.Errorf("node %s of Slurm has %d worker pods", node, len(pods.Items))
	}
	return s.Box.Kubectl(ctx, append([]string{"-n", namespace, "exec", pods.Items[0].Name, "-c", "slurmd", "--",
		"setpriv", "--reuid", "alice", "--regid", "alice", "--clear-groups", "env", "HOME=/tmp", "USER=alice"}, args...)...)
}
