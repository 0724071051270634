package manifests_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/testdata/rig/imexrig"
	"github.com/quoin-hpc/quoin/testdata/rig/kuberig"
)

// TestCordonPolicyNamesSpec has the policy look at every key of a Node's spec but that
// which a cordon sets, beside a cordon that changes.
func TestCordonPolicyNamesSpec(t *testing.T) {
	text, err := os.ReadFile("30-admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[corev1.NodeSpec]().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if want := fmt.Sprintf("object.spec.?%s == oldObject.spec.?%[1]s", key); key != "unschedulable" && !strings.Contains(string(text), want) {
			t.Errorf("the policy does not say %q", want)
		}
	}
}

// cordonPatch is a merge patch of a Node; reason may be null.
func cordonPatch(reason string, unschedulable any, more string) string {
	if reason != "null" {
		reason = fmt.Sprintf("%q", reason)
	}
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}},"spec":{"unschedulable":%v%s}}`, publisher.CordonAnnotation, reason, unschedulable, more)
}

// TestRealCordonToken says what the publisher's token may cordon and uncordon.
func TestRealCordonToken(t *testing.T) {
	c := start(t)
	client := publisherClient(t, c)
	const own, other, left = "quoin: NotReady: x", "disk failed", "quoin: uncordoned by hand"
	admin := func(node, patch string) {
		t.Helper()
		if _, err := c.Client().CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	attempt := func(patch string) error {
		_, err := client.CoreV1().Nodes().Patch(t.Context(), "node-a", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	cordon, uncordon := cordonPatch(own, true, ""), cordonPatch("null", "null", "")
	const noVerb, only = "where a role gives it the verb cordon", "may change the annotation topology.slinky.slurm.net/spec of a Node only"
	const reasons, cordons = "may give reasons to its own cordons", "nobody has uncordoned by hand"
	if err := attempt(cordon); err == nil || !strings.Contains(err.Error(), noVerb) {
		t.Errorf("without slinky/cordon.yaml: %v", err)
	}
	if _, err := c.Kubectl(t.Context(), "apply", "--validate=strict", "-f", "slinky/cordon.yaml"); err != nil {
		t.Fatal(err)
	}
	imexrig.Eventually(t, "allowed", func() bool { return attempt(cordon) == nil })
	for _, y := range []struct{ name, before, patch, refused string }{
		{"uncordon it", "", uncordon, ""},
		{"no reason", uncordon, cordonPatch("null", true, ""), cordons},
		{"another's reason", uncordon, cordonPatch(other, true, ""), reasons},
		{"a reason without a cordon", uncordon, cordonPatch(own, "null", ""), reasons},
		{"a taint beside", uncordon, cordonPatch(own, true, `,"taints":[{"key":"x","effect":"NoExecute"}]`), only},
		{"another key of the spec", uncordon, cordonPatch(own, true, `,"providerID":"x"`), only},
		{"a label beside", uncordon, strings.Replace(cordon, `"annotations"`, `"labels":{"x":"y"},"annotations"`, 1), only},
		{"another annotation beside", uncordon, strings.Replace(cordon, `"annotations":{`, `"annotations":{"x":"y",`, 1), only},
		{"cordon", uncordon, cordon, ""},
		{"another reason of its own", cordon, cordonPatch("quoin: NoEntry: y", true, ""), ""},
		{"another's reason for its own", cordon, cordonPatch(other, true, ""), reasons},
		{"uncordon another's", cordonPatch("null", true, ""), uncordon, cordons},
		{"give another's a reason", cordonPatch("null", true, ""), cordon, reasons},
		{"uncordon what has a reason", cordonPatch(other, true, ""), cordonPatch(other, "null", ""), cordons},
		{"take that reason away", cordonPatch(other, true, ""), cordonPatch("null", true, ""), reasons},
		{"take another's reason as its own", cordonPatch(other, "null", ""), cordon, reasons},
		{"note what was uncordoned by hand", cordonPatch(own, "null", ""), cordonPatch(left, "null", ""), ""},
		{"and forget that", cordonPatch(left, "null", ""), uncordon, ""},
		{"change that", cordonPatch(left, true, ""), cordonPatch(own, true, ""), reasons},
		{"uncordon what another has cordoned then", cordonPatch(left, true, ""), uncordon, cordons},
		{"and keep the note", cordonPatch(left, true, ""), cordonPatch(left, "null", ""), cordons},
		{"cordon what was uncordoned by hand", cordonPatch(left, "null", ""), cordonPatch(left, true, ""), cordons},
		{"and with another reason", cordonPatch(left, "null", ""), cordon, reasons},
		{"a taint without a cordon", uncordon, `{"spec":{"taints":[{"key":"x","effect":"NoExecute"}]}}`, only},
		{"say that it is not cordoned", uncordon, cordonPatch("null", false, ""), ""},
		{"a reason of what is cordoned no more", cordonPatch(own, false, ""), cordonPatch("null", "null", ""), ""},
		{"leave the other's cordon", cordonPatch(left, true, ""), cordonPatch("null", true, ""), ""},
	} {
		if y.before != "" {
			admin("node-a", y.before)
		}
		if err := attempt(y.patch); (err != nil) != (y.refused != "") || err != nil && !strings.Contains(err.Error(), y.refused) {
			t.Errorf("%s: %v, want %q", y.name, err, y.refused)
		}
	}
	admin("node-a", uncordon)
	unnamed(t, c, attempt)
	admin("node-a", uncordon)
	if _, err := c.Kubectl(t.Context(), "delete", "-f", "slinky/cordon.yaml"); err != nil {
		t.Fatal(err)
	}
	imexrig.Eventually(t, "forbidden again", func() bool { return attempt(cordonPatch(own, true, "")) != nil || attempt(uncordon) != nil })
}

// unnamed has the policy not name a key of the spec, as one that is newer than it:
// without a cordon that changes it stays as it is all the same.
func unnamed(t *testing.T, c *kuberig.Cluster, attempt func(patch string) error) {
	t.Helper()
	text, err := os.ReadFile("30-admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policy := strings.Replace(string(text), "object.spec.?taints == oldObject.spec.?taints &&", "", 1)
	if _, err := c.Kubectl(t.Context(), "apply", "-f", write(t, "policy.yaml", policy)); err != nil {
		t.Fatal(err)
	}
	imexrig.Eventually(t, "in force", func() bool {
		return attempt(cordonPatch("quoin: NotReady: x", true, `,"taints":[{"key":"x","effect":"NoSchedule"}]`)) == nil
	})
	for _, patch := range []string{`{"spec":{"taints":[]}}`, cordonPatch("quoin: NoEntry: y", true, `,"taints":[{"key":"y","effect":"NoSchedule"}]`)} {
		if err := attempt(patch); err == nil || !strings.Contains(err.Error(), "of a Node only") {
			t.Errorf("a key that the policy does not name is written with %s: %v", patch, err)
		}
	}
}

// cordonTest is a cluster whose publisher cordons.
type cordonTest struct {
	*membership
	token, config, log string
	publisher          *exec.Cmd
}

// run starts a publisher that may be killed.
func (c *cordonTest) run() {
	c.t.Helper()
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()                                                                                                                              //nolint:errcheck // the publisher has its own
	c.publisher = exec.Command(c.quoin, "publisher", "--kubeconfig", c.token, "--leader-elect=false", "--listen", c.metrics, "--config", c.config) //nolint:noctx // killed below
	c.publisher.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.publisher.Stdout, c.publisher.Stderr = log, log
	if err := c.publisher.Start(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cordonTest) kill() {
	_ = c.publisher.Process.Kill()
	_ = c.publisher.Wait()
}

// logged counts the lines of the publishers that have a text.
func (c *cordonTest) logged(text string) int {
	c.t.Helper()
	all, err := os.ReadFile(c.log)
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.Count(string(all), text)
}

// free is the cordon of a node that has none.
const free = "false "

// cordon is a node's, as "true REASON".
func (c *cordonTest) cordon(node string) string {
	c.t.Helper()
	n, err := c.cluster.Client().CoreV1().Nodes().Get(c.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf("%t %s", n.Spec.Unschedulable, n.Annotations[publisher.CordonAnnotation])
}

// are waits until nodes have cordons that begin so.
func (c *cordonTest) are(what string, want map[string]string) {
	c.t.Helper()
	imexrig.Eventually(c.t, what, func() bool {
		for node, begin := range want {
			if is := c.cordon(node); !strings.HasPrefix(is, begin) || begin == free && is != free {
				return false
			}
		}
		return true
	})
}

func (c *cordonTest) kubectl(args ...string) {
	c.t.Helper()
	if _, err := c.cluster.Kubectl(c.t.Context(), args...); err != nil {
		c.t.Fatal(err)
	}
}

// TestRealCordon has three of twenty nodes not be ready: two are cordoned, and given
// back, by another publisher, for the first is killed; what people do to them is
// respected.
func TestRealCordon(t *testing.T) {
	t.Parallel()
	c := &cordonTest{membership: newMembership(t, imexrig.Racks(2, 10)), log: filepath.Join(t.TempDir(), "log"),
		config: write(t, "quoin.yaml", "publisher: {cordon: true, cordonAfter: 1m}\npublications: [{annotate: false, firstWait: 1s}]\n")} // it is published long before the end
	var err error
	if c.token, err = c.cluster.Token(t.Context(), "quoin-system", "quoin-publisher", ""); err != nil {
		t.Fatal(err)
	}
	bad := []string{"r00n03", "r01n04", "r01n07"}
	for _, node := range bad {
		c.fleet.Node(node).SetReady(false)
	}
	began := time.Now() // their minute goes by as the others join
	c.run()
	defer func() {
		c.kill()
		if t.Failed() {
			log, _ := os.ReadFile(c.log)
			t.Logf("%s", log)
		}
	}()
	for _, s := range imexrig.Racks(2, 10) {
		want := "False Ready"
		if slices.Contains(bad, s.Name) {
			want = "True NotReady"
		}
		c.until(s.Name, want)
	}
	imexrig.Eventually(t, "refused", func() bool { return c.logged("cordon of a node not written") > 0 })
	if c.logged("apply manifests/slinky/cordon.yaml, which lets it, or set cordon: false") != 1 || c.cordon(bad[0]) != free {
		t.Errorf("without permission: %s, logged %d times", c.cordon(bad[0]), c.logged("apply manifests"))
	}
	if since := time.Since(began); since < time.Minute {
		t.Errorf("tried after %s, want a minute", since)
	}
	c.kubectl("apply", "-f", "slinky/cordon.yaml")
	const ours = "true quoin: NotReady: "
	imexrig.Eventually(t, "one held back and two cordoned", func() bool {
		return c.counted("quoin_publisher_cordon_held_back_nodes") == "1" && c.counted("quoin_publisher_cordoned_nodes") == "2"
	})
	slices.SortStableFunc(bad, func(a, b string) int { return -strings.Compare(c.cordon(a), c.cordon(b)) }) // those that are cordoned come first
	first, second, third := bad[0], bad[1], bad[2]
	c.are("a tenth is cordoned", map[string]string{first: ours, second: ours, third: free})
	c.kubectl("uncordon", first)
	c.are("left alone, and another in its place", map[string]string{first: "false quoin: uncordoned by hand", second: ours, third: ours})
	c.kubectl("annotate", "--overwrite", "node", second, publisher.CordonAnnotation+"=disk failed")
	c.kill()
	for _, node := range bad {
		c.fleet.Node(node).SetReady(true)
	}
	c.run()
	c.are("given back, but for what is another's", map[string]string{first: free, second: "true disk failed", third: free})
	for _, node := range bad {
		c.until(node, "False Ready")
	}
	c.atRest()
	c.are("the same", map[string]string{first: free, second: "true disk failed", third: free})
	if n := c.logged("apply manifests/slinky/cordon.yaml"); n != 1 {
		t.Errorf("what is missing was said %d times", n)
	}
}
