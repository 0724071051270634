package publisher

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/testdata/rig/kuberig"
)

func TestRoleOf(t *testing.T) {
	pod := func(name, uid string, phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}, Status: corev1.PodStatus{Phase: phase,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: ready}}}}
	}
	const yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	me, meNot := pod("me", "1", corev1.PodRunning, yes), pod("me", "1", corev1.PodRunning, no)
	for _, tt := range []struct {
		name   string
		holder string
		pods   []*corev1.Pod
		want   role
	}{
		{"mine", "me_1", []*corev1.Pod{me}, leads},
		{"mine, not ready", "me_1", []*corev1.Pod{meNot}, leads},
		{"mine, before the Pod is seen", "me_1", nil, leads},
		{"mine, another is ready", "me_1", []*corev1.Pod{meNot, pod("b", "2", corev1.PodRunning, yes)}, leads},
		{"nobody's", "", []*corev1.Pod{me}, takesOver},
		{"nobody's, not ready", "", []*corev1.Pod{meNot}, standsBy},
		{"nobody's, no Pod", "", nil, standsBy},
		{"a ready one's", "b_2", []*corev1.Pod{me, pod("b", "2", corev1.PodRunning, yes)}, standsBy},
		{"one's that is not ready", "b_2", []*corev1.Pod{me, pod("b", "2", corev1.PodRunning, no)}, takesOver},
		{"one's on a lost node", "b_2", []*corev1.Pod{me, pod("b", "2", corev1.PodRunning, unknown)}, takesOver},
		{"one's that has no status yet", "b_2", []*corev1.Pod{me, {ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "2"}}}, takesOver},
		{"one's that failed", "b_2", []*corev1.Pod{me, pod("b", "2", corev1.PodFailed, yes)}, takesOver},
		{"one's that ended", "b_2", []*corev1.Pod{me, pod("b", "2", corev1.PodSucceeded, yes)}, takesOver},
		{"one's that is gone", "b_2", []*corev1.Pod{me}, takesOver},
		{"one's that is gone, another has its name", "b_2", []*corev1.Pod{me, pod("b", "3", corev1.PodRunning, yes)}, takesOver},
		{"my name's, before me", "me_0", []*corev1.Pod{me}, takesOver},
		{"neither is ready", "b_2", []*corev1.Pod{meNot, pod("b", "2", corev1.PodRunning, no)}, standsBy},
		{"gone, and I am not ready", "b_2", []*corev1.Pod{meNot}, standsBy},
	} {
		lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &tt.holder}}
		if got := roleOf("me_1", lease, tt.pods); got != tt.want {
			t.Errorf("%s: role %d, want %d", tt.name, got, tt.want)
		}
	}
	if got := roleOf("me_1", nil, []*corev1.Pod{me}); got != takesOver {
		t.Errorf("no Lease: role %d, want %d", got, takesOver)
	}
}

// electionRig is a real API server with publishers' Pods whose kubelet is the
// test, and one election for each Pod, with the publisher's own token.
type electionRig struct {
	*kuberig.Cluster
	t      *testing.T
	client kubernetes.Interface
}

// candidate is a publisher in a Pod.
type candidate struct {
	store   *KubeStore
	stop    context.CancelFunc
	started chan struct{} // closed when it leads
	ended   chan error
}

func startElectionRig(t *testing.T) *electionRig {
	t.Helper()
	c := kuberig.StartTest(t)
	if _, err := c.Kubectl(t.Context(), "apply", "-f", filepath.Join("..", "..", "manifests")); err != nil {
		t.Fatal(err)
	}
	token, err := c.Token(t.Context(), "quoin-system", "quoin-publisher", "")
	if err != nil {
		t.Fatal(err)
	}
	rc, err := clientcmd.BuildConfigFromFlags("", token)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	return &electionRig{c, t, client}
}

// addPod makes a Pod as the Deployment in manifests would.
func (r *electionRig) addPod(name string) {
	r.t.Helper()
	d, err := r.Client().AppsV1().Deployments("quoin-system").Get(r.t.Context(), "quoin-publisher", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.AddPod(r.t.Context(), "quoin-system", name, d.Spec.Template.Labels); err != nil {
		r.t.Fatal(err)
	}
}

func (r *electionRig) ready(name string, ready corev1.ConditionStatus) {
	r.t.Helper()
	if err := r.SetReady(r.t.Context(), "quoin-system", name, ready); err != nil {
		r.t.Fatal(err)
	}
}

func (r *electionRig) run(pod string) *candidate {
	r.t.Helper()
	pubs := complete(r.t, Publication{Namespace: "slurm"})
	ctx, cancel := context.WithCancel(r.t.Context())
	c := &candidate{NewKubeStore(r.client, "quoin-system", pod, pubs, slog.New(slog.DiscardHandler)), cancel, make(chan struct{}), make(chan error, 1)}
	go func() {
		c.ended <- c.store.Lead(ctx, func(ctx context.Context) error {
			close(c.started)
			<-ctx.Done()
			return nil
		})
	}()
	return c
}

// leads waits until the candidate leads.
func (r *electionRig) leads(what string, c *candidate) {
	r.t.Helper()
	select {
	case <-c.started:
	case err := <-c.ended:
		r.t.Fatalf("%s: ended with %v", what, err)
	case <-time.After(3 * time.Minute):
		r.t.Fatalf("%s: does not lead within 3 minutes", what)
	}
}

// ends waits until the candidate has returned, which it must with an error that
// contains want, or with none.
func (r *electionRig) ends(what string, c *candidate, want string) {
	r.t.Helper()
	select {
	case err := <-c.ended:
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			r.t.Errorf("%s: ended with %v, want %q", what, err, want)
		}
	case <-time.After(3 * time.Minute):
		r.t.Fatalf("%s: does not end within 3 minutes", what)
	}
}

// quiet fails when the Lease is written or one of the candidates starts to lead
// in the next seconds.
func (r *electionRig) quiet(what string, standing ...*candidate) {
	r.t.Helper()
	_, offset, err := r.Writes(0)
	if err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(electionRetry + 2*time.Second) // a try again would be in it
	writes, _, err := r.Writes(offset)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(writes) > 0 {
		r.t.Errorf("%s: written: %v", what, writes)
	}
	for _, c := range standing {
		select {
		case <-c.started:
			r.t.Errorf("%s: Pod %s leads", what, c.store.pod)
		default:
		}
	}
}

// TestRealElection goes through what ends a leader.
func TestRealElection(t *testing.T) {
	t.Parallel()
	r := startElectionRig(t)
	for _, pod := range []string{"a", "b", "c"} {
		r.addPod(pod)
	}
	a, b := r.run("a"), r.run("b")
	r.quiet("no Pod is ready", a, b)
	r.ready("a", corev1.ConditionTrue)
	r.leads("the first that is ready", a)
	r.ready("b", corev1.ConditionTrue)
	r.quiet("a leader at rest", b)

	save := func(c *candidate) error {
		return c.store.Save(t.Context(), &Publication{Namespace: "slurm", ConfigMap: "quoin-slurm"}, &Published{Files: map[string]string{"topology.yaml": "x"}})
	}
	if err := save(b); err == nil || !strings.Contains(err.Error(), `Pod "a" leads`) {
		t.Errorf("a publisher that does not lead saved: %v", err)
	}

	r.ready("a", corev1.ConditionFalse) // its container crashed, or its probe fails
	r.leads("another is ready", b)
	r.ends("deposed while it ran", a, `no longer the leader: Lease quoin-system/quoin-publisher names "b_`)
	if err := save(a); err == nil || !strings.Contains(err.Error(), `Pod "b" leads`) {
		t.Errorf("the leader from before saved: %v", err)
	}
	if err := save(b); err != nil {
		t.Errorf("the leader has not saved: %v", err)
	}

	a = r.run("a")
	r.ready("a", corev1.ConditionTrue)
	r.quiet("back, and another leads", a)
	r.ready("a", corev1.ConditionFalse)
	r.ready("b", corev1.ConditionFalse)
	r.quiet("no Pod is ready, and one leads", a)

	r.ready("c", corev1.ConditionTrue)
	b.stop()
	r.ends("told to stop", b, "")
	c := r.run("c")
	r.leads("given back", c)

	again := r.run("c") // as after a kill -9, which leaves the Lease as it is
	r.leads("restarted in the leader's Pod", again)

	r.ready("a", corev1.ConditionTrue)
	r.quiet("the leader's Pod stays", a)
	if err := r.RemovePod(t.Context(), "quoin-system", "c"); err != nil {
		t.Fatal(err)
	}
	r.leads("the leader's Pod is gone", a)
	r.ends("its Pod is gone", c, "no longer the leader")
	r.ends("its Pod is gone", again, "no longer the leader")

	if err := r.Client().CoordinationV1().Leases("quoin-system").Delete(t.Context(), leaseName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.ends("the Lease was deleted", a, `names ""`)
	a = r.run("a")
	r.leads("made anew", a)
	a.stop()
	r.ends("told to stop", a, "")
	lease, err := r.Client().CoordinationV1().Leases("quoin-system").Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil || holder(lease) != "" {
		t.Errorf("after the last one: %+v, %v", lease, err)
	}
}

func TestRealElectionRefuses(t *testing.T) {
	t.Parallel()
	r := startElectionRig(t)
	if err := r.AddPod(t.Context(), "quoin-system", "plain", nil); err != nil {
		t.Fatal(err)
	}
	r.ends("without labels", r.run("plain"), "Pod quoin-system/plain: want the labels app.kubernetes.io/component=publisher,app.kubernetes.io/name=quoin")
	r.ends("no Pod", r.run("none"), `read this publisher's Pod: pods "none" not found`)
}

func TestRealReady(t *testing.T) {
	t.Parallel()
	r := startElectionRig(t)
	store := NewKubeStore(r.client, "quoin-system", "", complete(t, Publication{Namespace: "slurm"}), slog.New(slog.DiscardHandler))
	if err := store.Ready(t.Context()); err == nil {
		t.Error("ready before anything was read")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	if _, err := store.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := store.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	r.StopServer()
	short, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	if err := store.Ready(short); err == nil || !strings.Contains(err.Error(), "the API server does not answer") {
		t.Errorf("without an API server: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
