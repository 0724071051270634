package nodeagent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-hpc/quoin/testdata/rig/kuberig"
)

// TestRealStore keeps reports in a real API server.
func TestRealStore(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	rig := &storeRig{Cluster: c, t: t, client: c.Client()}
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
	t.Run("server down", rig.down)
}

type storeRig struct {
	*kuberig.Cluster
	t      *testing.T
	client kubernetes.Interface
	node   *corev1.Node
}

func (r *storeRig) store() *KubeStore { return NewKubeStore(r.client, "default", "n1") }

// agent returns an agent whose last good report is line.
func (r *storeRig) agent(t *testing.T, line string) *Agent {
	t.Helper()
	a := newAgent(t, r.store())
	a.hear(event(t, line))
	return a
}

func (r *storeRig) stored(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	cm, err := r.client.CoreV1().ConfigMaps("default").Get(context.WithoutCancel(t.Context()), "quoin-node-n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

// changed is another report of the same node.
func changed(boot string) string {
	return strings.Replace(goodLine, `"node":"n1"`, `"node":"n1","bootID":"`+boot+`"`, 1)
}

func (r *storeRig) noNode(t *testing.T) {
	if err := r.agent(t, goodLine).syncStore(t.Context()); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "node n1") {
		t.Errorf("%v: want an error that names the missing node", err)
	}
}

func (r *storeRig) create(t *testing.T) {
	if err := r.agent(t, goodLine).syncStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := r.stored(t)
	if diff := cmp.Diff(map[string]string{"report.json": goodLine}, got.Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if got.Labels["quoin.dev/kind"] != "node-report" {
		t.Errorf("labels %v", got.Labels)
	}
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: r.node.UID}}
	if diff := cmp.Diff(owner, got.OwnerReferences); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
}

func (r *storeRig) equal(t *testing.T) {
	before := r.stored(t).ResourceVersion
	for range 3 { // each is an agent that starts anew
		if err := r.agent(t, goodLine).syncStore(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := r.stored(t).ResourceVersion; after != before {
		t.Errorf("resource version %s, was %s: an equal report was written", after, before)
	}
}

func (r *storeRig) update(t *testing.T) {
	a := r.agent(t, changed("two"))
	if err := a.syncStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.stored(t).Data[reportKey]; got != changed("two") {
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
	other := r.stored(t)
	other.Data[reportKey] = "somebody else's"
	if _, err := r.client.CoreV1().ConfigMaps("default").Update(t.Context(), other, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), []byte(goodLine)); !apierrors.IsConflict(err) {
		t.Errorf("%v: want a conflict", err)
	}
	if err := r.agent(t, goodLine).syncStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.stored(t).Data[reportKey]; got != goodLine {
		t.Errorf("stored %s", got)
	}
}

func (r *storeRig) createdByAnother(t *testing.T) {
	api := r.client.CoreV1().ConfigMaps("default")
	if err := api.Delete(t.Context(), "quoin-node-n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s := r.store()
	if got, err := s.Get(t.Context()); err != nil || got != nil {
		t.Fatalf("%q, %v: want nothing", got, err)
	}
	if err := r.agent(t, changed("three")).syncStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), []byte(goodLine)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("%v: want that it exists", err)
	}
}

// down: an agent whose API server is away stores the newest report when it is
// back.
func (r *storeRig) down(t *testing.T) {
	r.StopServer()
	a := r.agent(t, changed("four"))
	if err := a.syncStore(t.Context()); err == nil {
		t.Error("stored without a server")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() { a.keepStore(ctx); close(done) }()
	a.hear(event(t, changed("five")))
	if err := r.StartServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	for r.stored(t).Data[reportKey] != changed("five") && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	if got := r.stored(t).Data[reportKey]; got != changed("five") {
		t.Errorf("stored %s", got)
	}
	cancel()
	<-done
}
