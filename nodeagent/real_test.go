package nodeagent

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// TestRealStore keeps reports in a real API server.
func TestRealStore(t *testing.T) {
	t.Parallel()
	c := kuberig.StartOwnTest(t)
	rig := &storeRig{Cluster: c, t: t, client: c.Client()}
	rig.connect()
	t.Run("no definition", rig.noDefinition)
	rig.define()
	t.Run("no node", rig.noNode)
	node, err := rig.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rig.node = node
	t.Run("create", rig.create)
	t.Run("no write when equal", rig.equal)
	t.Run("update", rig.update)
	t.Run("conflict", rig.conflict)
	t.Run("created by another", rig.createdByAnother)
	t.Run("another definition", rig.anotherDefinition)
	t.Run("server down", rig.down)
}

const definitionFile = "../manifests/plain/base/05-nodereports.yaml"

type storeRig struct {
	*kuberig.Cluster
	t       *testing.T
	client  kubernetes.Interface
	reports *nodereport.Client
	node    *corev1.Node
}

func (r *storeRig) store() *KubeStore { return NewKubeStore(r.client, r.reports, "n1") }

func (r *storeRig) connect() {
	r.t.Helper()
	var err error
	if r.reports, err = nodereport.NewClient(r.Config()); err != nil {
		r.t.Fatal(err)
	}
}

// define has the API server know NodeReports.
func (r *storeRig) define() {
	r.t.Helper()
	if err := r.Objects().Apply(r.t.Context(), definitionFile); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Objects().Delete(r.t.Context(), "nodes", "", "n1"); err != nil { // of the test without a definition
		r.t.Fatal(err)
	}
}

// noDefinition: the error says what is missing.
func (r *storeRig) noDefinition(t *testing.T) {
	if _, err := r.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.agent(t, goodLine).syncNow(t.Context()); !errors.Is(err, nodereport.ErrNoDefinition) {
		t.Errorf("%v: want %v", err, nodereport.ErrNoDefinition)
	}
}

// agent returns an agent whose last good report is line.
func (r *storeRig) agent(t *testing.T, line string) *Agent {
	t.Helper()
	a := newAgent(t, r.store())
	a.hear(event(t, line))
	return a
}

// stored returns the NodeReport, and its facts as the agent wrote them.
func (r *storeRig) stored(t *testing.T) (o *nodereport.Object, report string) {
	t.Helper()
	o, err := r.reports.Get(context.WithoutCancel(t.Context()), "n1")
	if err != nil || o == nil || o.Err != nil {
		t.Fatalf("stored is %+v, %v", o, err)
	}
	text, err := topology.EncodeReport(o.Node)
	if err != nil {
		t.Fatal(err)
	}
	return o, string(text)
}

// changed is another report of the same node.
func changed(boot string) string {
	return strings.Replace(goodLine, `"node":"n1"`, `"node":"n1","bootID":"`+boot+`"`, 1)
}

func (r *storeRig) noNode(t *testing.T) {
	if err := r.agent(t, goodLine).syncNow(t.Context()); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "node n1") {
		t.Errorf("%v: want an error that names the missing node", err)
	}
}

func (r *storeRig) create(t *testing.T) {
	if err := r.agent(t, goodLine).syncNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, report := r.stored(t)
	if diff := cmp.Diff(goodLine, report); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if shown, err := r.Kubectl(t.Context(), "get", "nodereports"); err != nil || !strings.HasPrefix(strings.Join(strings.Fields(shown), " "), "NAME GPUS CLIQUE FABRIC IMEX PROBLEMS AGE n1 ") {
		t.Errorf("kubectl shows %v\n%s", err, shown)
	}
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: r.node.UID}}
	if diff := cmp.Diff(owner, got.OwnerReferences); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
}

func (r *storeRig) equal(t *testing.T) {
	first, _ := r.stored(t)
	before := first.ResourceVersion
	for range 3 { // each is an agent that starts anew
		if err := r.agent(t, goodLine).syncNow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after, _ := r.stored(t); after.ResourceVersion != before {
		t.Errorf("resource version %s, was %s: an equal report was written", after.ResourceVersion, before)
	}
}

func (r *storeRig) update(t *testing.T) {
	a := r.agent(t, changed("two"))
	if err := a.syncNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, got := r.stored(t); got != changed("two") {
		t.Errorf("stored %s", got)
	}
}

// conflict: what somebody wrote between reading and writing is not overwritten
// unseen; the next try does it.
func (r *storeRig) conflict(t *testing.T) {
	s := r.store()
	if _, err := s.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := `{"bootID":"somebody else's","gpus":[]}`
	if err := r.Objects().Patch(t.Context(), "nodereports", "", "n1", other); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), []byte(goodLine)); !apierrors.IsConflict(err) {
		t.Errorf("%v: want a conflict", err)
	}
	if err := r.agent(t, goodLine).syncNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, got := r.stored(t); got != goodLine {
		t.Errorf("stored %s", got)
	}
}

func (r *storeRig) createdByAnother(t *testing.T) {
	if err := r.Objects().Delete(t.Context(), "nodereports", "", "n1"); err != nil {
		t.Fatal(err)
	}
	s := r.store()
	if got, err := s.Get(t.Context()); err != nil || got != nil {
		t.Fatalf("%q, %v: want nothing", got, err)
	}
	if err := r.agent(t, changed("three")).syncNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), []byte(goodLine)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("%v: want that it exists", err)
	}
}

// anotherDefinition: agent and definition are of two releases, which call the links of a GPU otherwise. The
// API server leaves out what its definition does not know, and each report stays readable.
func (r *storeRig) anotherDefinition(t *testing.T) {
	text, err := os.ReadFile(definitionFile)
	if err != nil {
		t.Fatal(err)
	}
	const name, anotherName = "                  links:\n", "                  nvlinks:\n"
	another := strings.Replace(string(text), name, anotherName, 1)
	if another == string(text) {
		t.Fatal("the definition has no links")
	}
	apply := func(definition string) {
		t.Helper()
		if err := r.Objects().ApplyText(t.Context(), definition); err != nil {
			t.Fatal(err)
		}
	}
	linked := strings.Replace(goodLine, `"minor":0,`, `"minor":0,"links":{"switch":18},`, 1)
	sync := func() (report, version string) {
		t.Helper()
		if err := r.agent(t, linked).syncNow(t.Context()); err != nil {
			t.Fatal(err)
		}
		o, report := r.stored(t)
		return report, o.ResourceVersion
	}

	apply(another)
	await.Until(t, "the API server leaves the links out", func() bool { report, _ := sync(); return !strings.Contains(report, "links") })
	report, before := sync()
	if _, after := sync(); after != before {
		t.Errorf("version %s, was %s: a report without links was written again", after, before)
	}
	if diff := cmp.Diff(goodLine, report); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	older := strings.Replace(linked, `"links"`, `"nvlinks"`, 1) // as an agent of the other release writes
	if err := r.Objects().Patch(t.Context(), "nodereports", "", "n1", older); err != nil {
		t.Fatal(err)
	}

	apply(string(text))
	readable := func() bool {
		o, err := r.reports.Get(t.Context(), "n1")
		return err == nil && o != nil && o.Err == nil
	}
	await.Until(t, "the API server leaves the other release's links out", readable)
	if _, report := r.stored(t); report != goodLine {
		t.Errorf("of the other release's report is read: %s", report)
	}
	if err := r.Objects().Patch(t.Context(), "nodereports", "", "n1", strings.Replace(older, "18", "17", 1)); err != nil {
		t.Errorf("an agent of the other release is refused: %v", err)
	}
	if _, report := r.stored(t); report != goodLine {
		t.Errorf("of the other release's report is read: %s", report)
	}
	if report, _ := sync(); report != linked {
		t.Errorf("stored %s", report)
	}
}

// down: an agent whose API server is away stores the newest report when it is
// back.
func (r *storeRig) down(t *testing.T) {
	r.StopServer()
	a := r.agent(t, changed("four"))
	if err := a.syncNow(t.Context()); err == nil {
		t.Error("stored without a server")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	says := make(fed)
	a.config.Probe, a.config.Stale = says, time.Hour
	defer start(t, a)()
	says <- event(t, changed("five"))
	if err := r.StartServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, got := r.stored(t)
	for got != changed("five") && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		_, got = r.stored(t)
	}
	if got != changed("five") {
		t.Errorf("stored %s", got)
	}
}
