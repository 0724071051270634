package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/topology"
)

// planSite is a real API server with 36 labelled Nodes, a publisher, and people who use
// quoin plan.
type planSite struct {
	*site
	digest string // what is held
}

const planSiteConfig = `publicationDefaults:
  settleTime: 500ms
  loadTimeout: 1ms
`

// TestRealPlan runs quoin plan on a real API server: what people see, ask for and get
// wrong.
func TestRealPlan(t *testing.T) {
	t.Parallel()
	s := &planSite{site: newSite(t, planSiteConfig)}
	s.plan(t, 2, `^quoin: publication "default" has no stored plan in namespace quoin-system: start quoin publisher there, `, "status")
	s.addRacks()
	s.startPublisher("publisher-0")
	s.untilStatus("the first publication", `^publication default: revision 1 of .*, by quoin-publisher, in slurm/quoin-slurm\n`)
	t.Run("published", s.shown)
	t.Run("the cluster itself", s.cluster)
	t.Run("held", s.held)
	t.Run("approved", s.approved)
	t.Run("rolled back", s.rolledBack)
	t.Run("refused", s.refused)
}

// openedLine is the line that names what was opened.
var openedLine = regexp.MustCompile(`(?m)^quoin: (opened .*; )?configuration: .*\n`)

// cluster reads the cluster by --kubeconfig, and gets what it gets from kubectl's output.
func (s *planSite) cluster(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}}}
	if _, err := s.Client().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil { // a list without a Pod is not all of a cluster
		t.Fatal(err)
	}
	if err := s.ApplyDeviceClasses(t.Context()); err != nil { // nor is a list without a DeviceClass known to be of a cluster without the driver
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kinds string
		flag  string
		args  []string
	}{
		{"nodes,nodereports,pods,resourceslices", "--nodes", []string{"render"}},
		{"nodes,nodereports,pods,resourceslices", "--nodes", []string{"map", "-o", "json"}},
		{"nodes,pods,resourceclaims,deviceclasses,daemonsets,deployments", "--objects", []string{"imex", "check", "--set", "imex.join=holder"}},
	} {
		list := ""
		run := func(more ...string) string {
			_, out, stderr := quoin(t, list, slices.Concat(tt.args, []string{"--config", filepath.Join(s.Dir, "quoin.yaml")}, more)...)
			return openedLine.ReplaceAllString(stderr, "") + out
		}
		var byFile, byCluster string
		same := func() bool { // once the publisher has written all conditions
			var err error
			if list, err = s.Kubectl(t.Context(), "get", tt.kinds, "-A", "-o", "json"); err != nil {
				t.Fatal(err)
			}
			byFile = run(tt.flag, "-")
			more := []string{"--kubeconfig", s.Kubeconfig()}
			if tt.args[0] == "map" {
				more = append(more, "--fresh")
			}
			byFile, byCluster = strings.ReplaceAll(byFile, "standard input", "the cluster"), run(more...)
			return byFile == byCluster && len(byFile) >= 40
		}
		await.Until(t, fmt.Sprintf("%v says the same by kubectl's output and by --kubeconfig", tt.args), same, func() string {
			return fmt.Sprintf("by kubectl's output:\n%s\nby --kubeconfig:\n%s", byFile, byCluster)
		})
	}
}

// run runs quoin plan with a kubeconfig, in this process, and returns its exit status and all
// that it says, without the line that names what was opened.
func (s *planSite) run(kubeconfig string, args ...string) (code int, said string) {
	command := []string{"plan", args[0]}
	switch args[0] {
	case "nodes-config":
		command[0] = "imex"
	case "fit", "job":
		command = args[:1:1]
	}
	var out bytes.Buffer
	code = run(s.t.Context(), slices.Concat(command, []string{"--config", filepath.Join(s.Dir, "quoin.yaml"), "--kubeconfig", kubeconfig}, args[1:]), nil, &out, &out)
	return code, openedLine.ReplaceAllString(out.String(), "")
}

// plan runs quoin plan as somebody with all rights, and compares what it says.
func (s *planSite) plan(t *testing.T, code int, want string, args ...string) string {
	t.Helper()
	got, said := s.run(s.Kubeconfig(), args...)
	if got != code || !regexp.MustCompile("(?m)"+want).MatchString(said) {
		t.Errorf("quoin plan %s: exit %d, want %d and %q:\n%s", strings.Join(args, " "), got, code, want, said)
	}
	return said
}

// untilStatus waits until quoin plan status says something.
func (s *planSite) untilStatus(what, want string) {
	s.t.Helper()
	is := regexp.MustCompile("(?m)" + want)
	s.until(what, func() bool {
		_, said := s.run(s.Kubeconfig(), "status")
		return is.MatchString(said)
	})
}

func (s *planSite) shown(t *testing.T) {
	s.plan(t, 2, `^quoin: address of node n00: the Node has no InternalIP$`, "nodes-config", "--clique", "8a61c302-0000-4000-8000-000000000001.0")
	var want strings.Builder
	for n := range 18 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%02d", n)}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "x"}, {Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.0.%d", 100-n)}, {Type: corev1.NodeInternalIP, Address: "fd00::1"}}}}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"addresses": node.Status.Addresses}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Client().CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "10.0.0.%d\n", 83+n)
	}
	for _, clique := range []string{"8a61c302-0000-4000-8000-000000000001.0", "nvl-8a61c302-0"} {
		if said := s.plan(t, 0, `^10\.0\.0\.83$`, "nodes-config", "--clique", clique); said != want.String() {
			t.Errorf("nodes_config.cfg of %s:\n%s\nwant:\n%s", clique, said, want.String())
		}
	}
	dir := t.TempDir()
	s.plan(t, 0, `^wrote .*/nodes_config\.cfg$`, "nodes-config", "--clique", "nvl-8a61c302-0", "--dir", dir)
	if names, err := os.ReadFile(filepath.Join(dir, "nodes_names.cfg")); err != nil || !strings.Contains(string(names), "\n10.0.0.83 n17\n10.0.0.84 n16\n") {
		t.Errorf("nodes_names.cfg: %s, %v", names, err)
	}
	s.plan(t, 2, `^quoin: --clique x: no block of the published plan: want a clique .* or one of the blocks nvl-8a61c302-0, nvl-8a61c302-1$`, "nodes-config", "--clique", "x")
	s.plan(t, 0, `^  nvl: 2 blocks, sizes \[18\].* 36 nodes; digest [0-9a-f]{16}$`, "status")
	s.plan(t, 0, `^nvl +nvl-8a61c302-0 +18 +n\[00-17\]$`, "show")
	s.plan(t, 3, `^nvl-8a61c302-0 +16 +1$`, "fit", "-N", "32", "--segment", "16")
	s.plan(t, 1, `^never: the topology has 36 nodes, and the job asks for 37$`, "fit", "-N", "37")
	s.plan(t, 2, `^quoin: job 8: no record of it here, and nobody can be asked where it runs: set publicationDefaults\.slurm\.url `, "job", "8", "--summary-dir", t.TempDir())
	s.plan(t, 0, `^{"number":1,.*"author":"quoin-publisher"`, "show", "1", "-o", "json")
	s.plan(t, 0, `^1 .*quoin-publisher  first publication$`, "history")
	s.plan(t, 2, `^quoin: nothing is held, and no revision is named: `, "diff")
	s.plan(t, 1, `^digest "0123456789abcdef" is not held: nothing is held$`, "approve", "0123456789abcdef")
	s.plan(t, 2, `^quoin: revision "9": want one that is kept, see quoin plan history$`, "rollback", "9")
}

// held has a quarter of the Nodes name another domain while the publisher is away. So it sees all
// of them move at once, however long it takes to write the labels.
func (s *planSite) held(t *testing.T) {
	s.end("publisher-0", syscall.SIGTERM)
	move := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"8a61c302-0000-4000-8000-000000000001.2"}}}`, topology.CliqueLabel)
	for n := range 9 {
		if _, err := s.Client().CoreV1().Nodes().Patch(t.Context(), fmt.Sprintf("n%02d", n), types.MergePatchType, move, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.startPublisher("publisher-0")
	s.untilStatus("the move of nine nodes is held", `^held since .*: BigChange: 9 of 36 nodes`)
	said := s.plan(t, 1, `^held since .*Z \([0-9]+ s ago\): BigChange: 9 of 36 nodes would move or leave`, "status")
	if m := regexp.MustCompile(`to publish it: +quoin plan approve ([0-9a-f]{16}) --publication default --\S.*\n`).FindStringSubmatch(said); m != nil {
		s.digest = m[1]
	} else {
		t.Fatalf("no command that approves it:\n%s", said)
	}
	s.plan(t, 1, `^n\[00-08\] move from nvl-8a61c302-0 to nvl-8a61c302-2: its labels$`, "diff")
	s.plan(t, 1, `^digest "0123456789abcdef" is not held now\. Look at what is held: quoin plan diff --publication default .*\n  `+s.digest+`: BigChange: `, "approve", "0123456789abcdef")
}

func (s *planSite) approved(t *testing.T) {
	s.plan(t, 0, `^asked the publisher: quoin plan status --publication default --.* says what it did$`, "approve", s.digest, "--by", "ann")
	s.untilStatus("the approval is published", `^publication default: revision 2 of .*, by ann, `)
	s.plan(t, 0, `digest `+s.digest+`$`, "status")
	s.plan(t, 0, `^2 .* ann +n\[00-08\] move from nvl-8a61c302-0 to\n +nvl-8a61c302-2: its labels; `, "history")
	if !strings.Contains(s.published(), "n[00-08]") {
		t.Errorf("published:\n%s", s.published())
	}
}

func (s *planSite) rolledBack(t *testing.T) {
	s.plan(t, 0, `^asked the publisher: `, "rollback", "1", "--by", "bob")
	s.untilStatus("the rollback is published", `^publication default: revision 3 of .*, by bob, `)
	s.untilStatus("what was approved waits again", `^held since .*: RolledBack: bob went back to revision 1`)
	s.plan(t, 1, `^rolled back to revision 1: every change waits for an approval$`, "status")
	s.plan(t, 0, `\A\z`, "diff", "1", "3")
	if !strings.Contains(s.published(), "n[00-17]") {
		t.Errorf("published:\n%s", s.published())
	}
}

// refused has people without rights, without a publication, and without an API server.
func (s *planSite) refused(t *testing.T) {
	if err := s.AddAccount(t.Context(), "default", "reader"); err != nil {
		t.Fatal(err)
	}
	token, err := s.Token(t.Context(), "default", "reader", "")
	if err != nil {
		t.Fatal(err)
	}
	as := func(who, kubeconfig string, code int, want string, args ...string) {
		t.Helper()
		if got, said := s.run(kubeconfig, args...); got != code || !strings.Contains(said, want) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s, quoin plan %s: exit %d, want %d and %q on one line:\n%s", who, strings.Join(args, " "), got, code, want, said)
		}
	}
	const who, right = "system:serviceaccount:default:reader", `cannot %s resource "configmaps" in API group "" in the namespace "%s"`
	as("nobody", token, 2, fmt.Sprintf(right, "get", "quoin-system"), "status")
	as("nobody", token, 2, fmt.Sprintf(right, "get", "quoin-system"), "approve", s.digest)
	const readsPlans = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reads-plans}\nrules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get]}]\n"
	if err := s.Objects().ApplyText(t.Context(), readsPlans); err != nil {
		t.Fatal(err)
	}
	if err := s.Allow(t.Context(), "default", "reader", "reads-plans"); err != nil {
		t.Fatal(err)
	}
	s.until("the token may read", func() bool { code, _ := s.run(token, "status"); return code == 1 })
	held := regexp.MustCompile(`approve ([0-9a-f]{16})`).FindStringSubmatch(s.plan(t, 1, "^held since", "status"))
	if held == nil {
		t.Fatal("nothing is held after a rollback")
	}
	as("a reader", token, 2, `"`+who+`" `+fmt.Sprintf(right, "patch", "slurm"), "approve", held[1])

	s.end("publisher-0", syscall.SIGTERM)
	if err := s.Client().CoreV1().ConfigMaps("slurm").Delete(t.Context(), "quoin-slurm", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	as("somebody", s.Kubeconfig(), 2, `annotate ConfigMap slurm/quoin-slurm: it is not there: does the publisher run? configmaps "quoin-slurm" not found`, "approve", held[1])
	as("somebody", s.Kubeconfig(), 2, `--publication "other": want one of default`, "status", "--publication", "other")
	as("somebody", filepath.Join(s.Dir, "no.kubeconfig"), 2, "read kubeconfig: ", "status")
	s.StopServer()
	as("somebody", s.Kubeconfig(), 2, "connection refused", "status")
}
