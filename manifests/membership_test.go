package manifests_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/imexrig"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// membership is a cluster with the manifests, the driver's real controller and a
// real publisher with its own token.
type membership struct {
	t       *testing.T
	cluster *kuberig.Cluster
	fleet   *imexrig.Fleet
	quoin   string // the program; the hook lies beside it
	metrics string
}

const memberRacks, memberNodes, members = 4, 8, "32"

// startMembershipOf starts the cluster and its publisher.
func startMembershipOf(t *testing.T, o imexrig.Options) *membership {
	t.Helper()
	m := newMembershipOf(t, o)
	m.startPublisher()
	return m
}

// newMembership starts a cluster without a publisher.
func newMembership(t *testing.T, nodes []imexrig.Spec) *membership {
	t.Helper()
	return newMembershipOf(t, imexrig.Options{Nodes: nodes})
}

func newMembershipOf(t *testing.T, o imexrig.Options) *membership {
	t.Helper()
	o.DriverNamespace, o.ReadyAfter = driverNamespace, 100*time.Millisecond
	c, f := imexrig.StartTest(t, o)
	if err := c.Objects().Apply(t.Context(), "plain/base", "plain/imex"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	programs.PutTest(t, dir, programs.Quoin, programs.Hook)
	return &membership{t: t, cluster: c, fleet: f, quoin: filepath.Join(dir, "quoin"), metrics: loopback.Address(9836)}
}

// startPublisher runs quoin publisher with its own token until the test ends. more are
// more arguments.
func (m *membership) startPublisher(more ...string) *exec.Cmd {
	m.t.Helper()
	token, err := m.cluster.Token(m.t.Context(), "quoin-system", "quoin-publisher", "")
	if err != nil {
		m.t.Fatal(err)
	}
	// Annotations come two minutes after the files, which would be in the middle of a count of requests.
	args := []string{"publisher", "--kubeconfig", token, "--listen", m.metrics, "--set", "publicationDefaults.annotate=false"}
	cmd := exec.Command(m.quoin, append(args, more...)...)
	m.start("publisher", cmd)
	return cmd
}

// start runs a program until the test ends, and shows what it said where that
// fails.
func (m *membership) start(what string, cmd *exec.Cmd) {
	m.t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if m.t.Failed() {
			m.t.Logf("%s:\n%s", what, &said)
		}
	})
}

// condition is a node's QuoinImexNotReady as "False Ready".
func (m *membership) condition(node string) (is, message string) {
	m.t.Helper()
	n, err := m.cluster.Client().CoreV1().Nodes().Get(m.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == "QuoinImexNotReady" {
			return string(c.Status) + " " + c.Reason, c.Message
		}
	}
	return "", ""
}

// until waits for a node's condition, whose message must have all words.
func (m *membership) until(node, want string, words ...string) {
	m.t.Helper()
	lacks := func(message string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(message, w) })
	}
	var is, message string
	await.Until(m.t, fmt.Sprintf("node %s is %q with %q", node, want, words), func() bool {
		is, message = m.condition(node)
		return is == want && !lacks(message)
	}, func() string { return fmt.Sprintf("but %q: %s", is, message) })
}

// domainSays waits for an event of the ComputeDomain with all words, and holds that quoin imex check
// says the same once.
func (m *membership) domainSays(namespace, reason string, words ...string) {
	m.t.Helper()
	var seen []string
	await.Until(m.t, "an event "+reason, func() bool {
		events, err := m.cluster.Client().CoreV1().Events(namespace).List(m.t.Context(), metav1.ListOptions{})
		if err != nil {
			m.t.Fatal(err)
		}
		seen = nil
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			seen = append(seen, e.Type+" "+e.InvolvedObject.Kind+" "+e.Reason+": "+e.Message)
			return e.Type == corev1.EventTypeWarning && e.InvolvedObject.Kind == "ComputeDomain" && e.Reason == reason &&
				!slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Message, w) })
		})
	}, func() string { return strings.Join(seen, "\n") })
	m.check(1, append(words, reason+": ")...)
}

// counted is how many nodes have each verdict by the publisher's series, empty if it is not there.
func (m *membership) counted() map[string]string {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, "http://"+m.metrics+"/metrics", nil)
	if err != nil {
		m.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil // not served yet
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	verdicts := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^quoin_publisher_imex_nodes\{reason="(\w+)"\} (.*)$`).FindAllStringSubmatch(string(text), -1) {
		verdicts[found[1]] = found[2]
	}
	return verdicts
}

// TestRealMembership joins four racks with the DaemonSet of the manifests. It installs the
// publisher again, and then breaks some nodes: the publisher says what is wrong with each.
func TestRealMembership(t *testing.T) {
	t.Parallel()
	nodes := imexrig.Racks(memberRacks, memberNodes)
	m := newMembership(t, nodes)
	o := m.startObserved()
	for _, node := range observedNodes {
		await.Until(t, "the report of "+node, func() bool {
			_, err := m.cluster.Objects().Get(t.Context(), "nodereports", "", node)
			return err == nil
		})
	}
	first := m.startPublisher("--set", "publicationDefaults.settleTime=1s") // else a minute: all that it could wait for is there
	began := time.Now()
	for _, s := range nodes {
		m.until(s.Name, "False Ready")
	}
	t.Logf("%d nodes are members after %s", len(nodes), time.Since(began))
	if diff := cmp.Diff(map[string]string{imex.ReasonReady: members}, m.counted()); diff != "" {
		t.Errorf("nodes by verdict (-want +got):\n%s", diff)
	}
	const same = "same: all " + members + " nodes that need it are members of the IMEX domain"
	m.check(0, same)
	printed, err := m.cluster.Kubectl(t.Context(), strings.Fields(computedomain.ListCommand)[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	m.checkOn(printed, 0, same)
	o.traffic()
	m.reinstalled(nodes, first)
	m.conflict("r02n05")
	m.faults()
	m.selected()
}

// objects returns what kubectl prints if computedomain.ListCommand is run. It may list more
// resources, whose names come after a comma.
func (m *membership) objects(more string) string {
	m.t.Helper()
	list, err := m.cluster.Objects().List(m.t.Context(), strings.Fields(computedomain.ListCommand)[2]+more, "")
	if err != nil {
		m.t.Fatal(err)
	}
	text, err := list.MarshalJSON()
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

// check runs quoin imex check on the cluster as kubectl prints it.
func (m *membership) check(want int, words ...string) {
	m.t.Helper()
	m.checkOn(m.objects(""), want, words...)
}

// imexCheck runs quoin imex check on what kubectl has printed.
func (m *membership) imexCheck(objects string) (out string, code int) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), m.quoin, "imex", "check", "--objects", "-")
	cmd.Stdin = strings.NewReader(objects)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		m.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// checkOn holds what quoin imex check says of what kubectl has printed.
func (m *membership) checkOn(objects string, want int, words ...string) {
	m.t.Helper()
	out, code := m.imexCheck(objects)
	if code != want {
		m.t.Errorf("quoin imex check ended with %d, want %d:\n%s", code, want, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			m.t.Errorf("quoin imex check does not say %q:\n%s", w, out)
		}
	}
}

// conflict has a worker pod claim the channel that the node's holder has.
func (m *membership) conflict(node string) {
	m.t.Helper()
	if err := m.fleet.ClaimingPod(m.t.Context(), "quoin-node", "worker", node, "quoin-imex-channel"); err != nil {
		m.t.Fatal(err)
	}
	if err := m.cluster.Objects().Patch(m.t.Context(), "pods", "quoin-node", "worker", `{"metadata":{"labels":{"app.kubernetes.io/name":"slurmd","app.kubernetes.io/component":"worker"}}}`); err != nil {
		m.t.Fatal(err)
	}
	await.Until(m.t, "quoin imex check sees the worker pod", func() bool {
		out, _ := m.imexCheck(m.objects(""))
		return strings.Contains(out, "quoin-node/worker")
	})
	m.until(node, "False Ready")
	m.until("r02n06", "False Ready")
	m.check(0, node+": Ready: ", "quoin-imex-", "same: all "+members+" nodes that need it are members of the IMEX domain")
	worker, err := m.cluster.Client().CoreV1().Pods("quoin-node").Get(m.t.Context(), "worker", metav1.GetOptions{})
	if err != nil || worker.Status.Phase != corev1.PodPending || worker.Spec.NodeName != "" {
		m.t.Errorf("the worker pod is %s on node %q, %v: want it to wait", worker.Status.Phase, worker.Spec.NodeName, err)
	}
	if err := m.cluster.RemovePod(m.t.Context(), "quoin-node", "worker"); err != nil {
		m.t.Fatal(err)
	}
	m.until(node, "False Ready")
}

// faults are of different nodes, all at once.
func (m *membership) faults() {
	m.t.Helper()
	slow, lost, frozen := m.fleet.Node("r00n01"), m.fleet.Node("r01n02"), m.fleet.Node("r03n03")
	slow.SetReady(false)
	lost.LoseEntry(true)
	frozen.FreezeStatus(true)
	m.until("r00n01", "True NotReady", "index")
	m.until("r00n02", "False Ready")
	m.until("r01n02", "True NotRegistered")
	slow.SetReady(true)
	lost.LoseEntry(false)
	frozen.FreezeStatus(false)
	for _, node := range []string{"r00n01", "r00n02", "r01n02", "r03n03"} {
		m.until(node, "False Ready")
	}
	if err := m.fleet.Node("r01n04").RestartDaemon(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	m.until("r01n04", "False Ready")
}
