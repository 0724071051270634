package publisher

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealFabricMaps publishes a site of 64 machines with 8 rails and no label by reports and a text in
// ConfigMaps, with the rights that the chart gives for that. The text comes by the commands of the
// README, and then by the example of a CronJob.
func TestRealFabricMaps(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	r := &slinkyRig{c, t}
	defineReports(t, c)
	client, sets, reports := r.permit("config.publicationDefaults.fabricFiles={configmaps:quoin.dev/fabric=a}")
	snap, fabric := railedSite(t, 4)
	admin := reportClient(t, c.Config())
	for i := range snap.Nodes {
		name := snap.Nodes[i].Name
		if _, err := c.Client().CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		text, err := topology.EncodeReport(snap.Reports[name])
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Put(t.Context(), text, metav1.ObjectMeta{Name: name}, "test"); err != nil {
			t.Fatal(err)
		}
	}
	ms, soon := Duration{Duration: time.Millisecond}, Duration{Duration: 200 * time.Millisecond}
	pubs := confirmAfter(soon.Duration, complete(t, Publication{Namespace: "slurm", SettleTime: soon, LoadTimeout: ms, FabricFiles: []string{"configmaps:quoin.dev/fabric=a"}}))
	store := kube.New(client, sets, reports, "quoin-system", pubs, slog.New(slog.DiscardHandler))
	inBackground(t, store.Run, newPublisher(store, pubs).Run)
	r.until(t, "the GPUs alone", "quoin-slurm", func(cm *corev1.ConfigMap) bool {
		return strings.Contains(cm.Data["gres.conf"], "h[01-64]") && cm.Data["topology.yaml"] == ""
	})

	// What a site's people type, where ibnetdiscover prints the fabric.
	bin, work := t.TempDir(), t.TempDir()
	shell := func(script string) {
		t.Helper()
		put.File(t, filepath.Join(bin, "text"), fabric.text(), 0o600)
		put.File(t, filepath.Join(bin, "ibnetdiscover"), "#!/bin/sh\n[ $# = 0 ] && exec cat "+filepath.Join(bin, "text")+"\n", 0o755)
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir, cmd.Env = work, append(os.Environ(), "PATH="+bin+":"+c.Programs()+":"+os.Getenv("PATH"), "KUBECONFIG="+c.Kubeconfig(), "HOME="+work)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, script, out)
		}
	}
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^    (ibnetdiscover.*\n)    (kubectl .*\n)`).FindSubmatch(page)
	if commands == nil {
		t.Fatal("README.md has no commands that begin with ibnetdiscover and kubectl")
	}
	shell(string(commands[1]) + string(commands[2]))
	hasLeaves := func(cm *corev1.ConfigMap) bool {
		for rack := range 4 {
			if !strings.Contains(cm.Data["topology.yaml"], fmt.Sprintf("nodes: h[%02d-%02d]\n", 16*rack+1, 16*rack+16)) {
				return false
			}
		}
		return true
	}
	first := r.until(t, "a leaf for each rack", "quoin-slurm", hasLeaves).Data["topology.yaml"]

	// The example takes over, and the fabric changes meanwhile.
	if err := c.Client().CoreV1().ConfigMaps("quoin-system").Delete(t.Context(), "quoin-fabric-a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../manifests/cables/fabric.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("A-NODE-OF-THE-FABRIC", "h01", "IMAGE-WITH-OFED-TOOLS", "tools").Replace(string(example))
	if err := c.Objects().ApplyText(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	job, err := c.Client().BatchV1().CronJobs("quoin-node").Get(t.Context(), "quoin-fabric-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "read"}, Spec: job.Spec.JobTemplate.Spec.Template.Spec}
	if _, err := c.Client().CoreV1().Pods(job.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("the Pod of the example is refused: %v", err)
	}
	read, apply := pod.Spec.InitContainers[0].Args[0], pod.Spec.Containers[0].Args
	apply = apply[:len(apply)-1]
	run := func() {
		t.Helper()
		shell("rm -f part-* text*\n" + read)
		args := append([]string{"--as=system:serviceaccount:quoin-node:quoin-fabric"}, apply...)
		if out, err := c.Kubectl(t.Context(), append(args, "--filename="+work)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	versions := func() (out []string) {
		t.Helper()
		list, err := c.Client().CoreV1().ConfigMaps("quoin-system").List(t.Context(), metav1.ListOptions{LabelSelector: "quoin.dev/fabric=a"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			out = append(out, list.Items[i].Name+" "+list.Items[i].ResourceVersion)
		}
		return out
	}
	run()
	before := versions()
	if run(); len(before) != 8 || strings.Join(versions(), ",") != strings.Join(before, ",") {
		t.Errorf("the example wrote the same fabric again: %q, then %q", before, versions())
	}
	// A pulled cable and a replaced switch change no line. A node that moves shows that the text was read.
	fabric.pull("h19", 5)
	fabric.swapped["rack3-rail2"]++
	for i := range fabric.wires {
		if w := &fabric.wires[i]; w.b == "h64" {
			w.a = fmt.Sprint("rack3-rail", w.rail)
		}
	}
	run()
	moved := r.until(t, "one node moves", "quoin-slurm", func(cm *corev1.ConfigMap) bool {
		return strings.Contains(cm.Data["topology.yaml"], "nodes: h[33-48,64]\n")
	}).Data["topology.yaml"]
	if lines := changed(first, moved); len(lines) != 4 {
		t.Errorf("want the lines of the two leaves of h64 alone:\n%s", strings.Join(lines, "\n"))
	}
	// While a text can't be read, the last one counts.
	if _, err := c.Client().CoreV1().ConfigMaps("quoin-system").Patch(t.Context(), "quoin-fabric-a-1", "application/merge-patch+json", []byte(`{"binaryData":{"text.gz":"AAAA"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the text can't be read", func() bool {
		snap, err := store.Snapshot(t.Context())
		texts := snap.Fabrics["configmaps:quoin.dev/fabric=a"]
		return err == nil && len(texts) == 1 && texts[0].Problem != "" && texts[0].Fabric != nil
	}, func() string { return "" })
}
