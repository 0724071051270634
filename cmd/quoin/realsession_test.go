package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clusterCommands look at a cluster, with their exit status if all can be read and if nothing can.
var clusterCommands = []struct {
	line         string
	well, unread int
	want         string // of the output
}{
	{"map", 0, 2, "36 nodes · 2 NVLink blocks"},
	{"map --fresh", 0, 2, "36 nodes · 2 NVLink blocks"},
	{"render", 0, 2, "- block: nvl-8a61c302-0"},
	{"plan status", 0, 2, "revision 1"},
	{"plan show", 0, 2, "nvl-8a61c302-1   18"},
	{"fit -N 2 --segment 2", 0, 2, "36 of 36 nodes are free according to the conditions of Slinky's pods"},
	{"fit --fresh -N 2", 0, 2, "36 of 36 nodes are free according to the conditions of Slinky's pods"},
	{"lint", 0, 2, "can read topology.yaml and gres.conf"},
	{"check --topology shown", 0, 2, "same: Slurm has all 36 nodes"},
	{"check --fresh --topology shown", 0, 2, "same: Slurm has all 36 nodes"},
	{"imex check", 0, 2, "same: no node needs the IMEX domain"},
	{"imex check --set imex.join=auto", 0, 2, "imex.join is auto, here host: NVIDIA's DRA driver serves no ComputeDomains"},
	{"doctor --only cluster", 1, 3, "revision 1 is published in slurm/quoin-slurm"},
}

// TestRealSession looks at a cluster by KUBECONFIG alone: with its configuration and stored plan,
// without a configuration, as somebody who only looks, and as somebody who may read nothing. All commands say
// the same.
func TestRealSession(t *testing.T) {
	t.Parallel()
	const config = "imex: {join: none}\npublicationDefaults:\n  topology: block\n  settleTime: 500ms\n  loadTimeout: 1ms\n"
	s := newSite(t, config)
	c := s.Cluster
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	maps := c.Client().CoreV1().ConfigMaps("quoin-system")
	own, err := maps.Get(t.Context(), "quoin-config", metav1.GetOptions{})
	must(err)
	own.Data = map[string]string{"quoin.yaml": config}
	_, err = maps.Update(t.Context(), own, metav1.UpdateOptions{})
	must(err)
	for _, name := range s.addRacks() {
		pods := c.Client().CoreV1().Pods("slurm")
		pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "gpu-" + name, Labels: map[string]string{"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker",
			"app.kubernetes.io/instance": "gpu", "nodeset.slinky.slurm.net/pod-hostname": name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "slinky.slurm.net/v1beta1", Kind: "NodeSet", Name: "gpu", UID: "1", Controller: new(true)}}},
			Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "slurmd", Image: "slurmd"}}}}, metav1.CreateOptions{})
		must(err)
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: "SlurmNodeStateIdle", Status: corev1.ConditionTrue}}
		_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		must(err)
	}
	s.startPublisher("publisher-0")
	dir := t.TempDir()
	must(os.WriteFile(filepath.Join(dir, "shown"), []byte("BlockName=nvl-8a61c302-0 BlockIndex=0 Nodes=n[00-17] BlockSize=18\nBlockName=nvl-8a61c302-1 BlockIndex=1 Nodes=n[18-35] BlockSize=18\n"), 0o600))

	run := func(kubeconfig, line string) (code int, out, stderr string) {
		t.Helper()
		var stdout, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), s.quoin, strings.Fields(line)...)
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "KUBECONFIG=" + kubeconfig}
		cmd.Stdout, cmd.Stderr = &stdout, &errs
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), stdout.String(), errs.String()
	}
	s.until("the first publication", func() bool {
		_, out, _ := run(c.Kubeconfig(), "plan status")
		return strings.Contains(out, "revision 1 ")
	})

	all := func(kubeconfig, opened string, well bool) {
		t.Helper()
		for _, tt := range clusterCommands {
			want, code := tt.want, tt.well
			if !well {
				want, code = "", tt.unread
			}
			got, out, stderr := run(kubeconfig, tt.line)
			if said := out + stderr; got != code || !strings.Contains(out, want) || !strings.Contains(said, opened) {
				t.Errorf("quoin %s: exit %d, want %d, %q and %q:\n%s", tt.line, got, code, want, opened, said)
			}
		}
	}
	all(c.Kubeconfig(), "quoin: opened cluster rig of "+c.Kubeconfig()+"; configuration: ConfigMap quoin-system/quoin-config\n", true)
	must(c.AddAccount(t.Context(), "default", "nobody"))
	nobody, err := c.Token(t.Context(), "default", "nobody", "")
	must(err)
	all(nobody, `read configuration: ConfigMap quoin-system/quoin-config: configmaps "quoin-config" is forbidden: User "system:serviceaccount:default:nobody" cannot get`, false)
	unknown := func(kubeconfig string) []string {
		_, out, _ := run(kubeconfig, "doctor --only cluster")
		return regexp.MustCompile(`(?m)^unknown .*`).FindAllString(out, -1)
	}
	if of := unknown(nobody); len(of) != 2 || !strings.HasPrefix(of[0], "unknown  unseen       14 things cannot be seen: ") || !strings.HasPrefix(of[1], "unknown  config ") {
		t.Errorf("nobody: unknown are %q, want one line for all that rights hide, and one for the configuration", of)
	}
	must(c.AddAccount(t.Context(), "default", "viewer"))
	must(c.Allow(t.Context(), "default", "viewer", "quoin-viewer"))
	viewer, err := c.Token(t.Context(), "default", "viewer", "")
	must(err)
	all(viewer, "quoin: opened cluster rig of "+viewer+"; configuration: ConfigMap quoin-system/quoin-config\n", true)
	if of := unknown(viewer); len(of) != 1 || !strings.HasPrefix(of[0], "unknown  unseen       2 things cannot be seen: admission, permissions; the first: ") {
		t.Errorf("quoin-viewer: unknown are %q", of)
	}
	if out, err := c.Kubectl(t.Context(), "auth", "can-i", "get", "secrets", "-A", "--as", "system:serviceaccount:default:viewer"); err == nil || strings.TrimSpace(out) != "no" {
		t.Errorf("quoin-viewer reads Secrets: %q, %v", out, err)
	}
	must(maps.Delete(t.Context(), "quoin-config", metav1.DeleteOptions{}))
	code, out, stderr := run(c.Kubeconfig(), "plan status")
	if code != 0 || !strings.Contains(out, "revision 1 ") || !strings.HasSuffix(stderr, "configuration: defaults, because there is no ConfigMap quoin-system/quoin-config\n") {
		t.Errorf("without a configuration: exit %d\n%s%s", code, out, stderr)
	}
}
