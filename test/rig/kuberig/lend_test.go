package kuberig

import (
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/slots"
)

// TestRealLend lends one API server twice. The second borrower finds nothing of what the
// first has made, changed or deleted, and an empty audit log.
func TestRealLend(t *testing.T) {
	t.Parallel()
	NeedTest(t)
	slots.Take(t, slots.APIServer)
	path := filepath.Join(t.TempDir(), "socket")
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dir, started := t.TempDir(), make(chan int, 1)
	ctx := t.Context()
	go func() {
		_, n := Lend(ctx, socket, dir)
		started <- n
	}()
	defer func() {
		_ = socket.Close()
		if n := <-started; n != 1 {
			t.Errorf("%d API servers were started for two loans one after the other, want 1", n)
		}
	}()

	c, err := borrow(ctx, path, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { c.Stop() }()
	first, err := c.state(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyComputeDomainCRDs(ctx); err != nil {
		t.Fatal(err)
	}
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: made}\nspec: {ports: [{port: 80}]}\n"
	for _, err := range []error{c.AddNamespaces(ctx, "made"), c.AddAccount(ctx, "made", "sa"), c.Objects().Create(ctx, service), c.Allow(ctx, "made", "sa", "cluster-admin"),
		c.Objects().Patch(ctx, "namespaces", "", "default", `{"metadata":{"labels":{"changed":"yes"}}}`), c.Objects().Delete(ctx, "clusterroles", "", "view")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	token, err := c.Token(ctx, "made", "sa", "")
	if err != nil {
		t.Fatal(err)
	}
	account, err := c.ObjectsOf(token)
	if err == nil {
		err = account.Create(ctx, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made, namespace: made}\n")
	}
	if err != nil {
		t.Fatal(err)
	}
	if writes, _, err := c.Writes(0); err != nil || len(writes) != 1 {
		t.Errorf("the first borrower's writes: %v, %v", writes, err)
	}
	c.Stop()
	began := time.Now()
	if c, err = borrow(ctx, path, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Log("lent again after", time.Since(began))
	second, err := c.state(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range first.contents {
		if second.contents[key] != value {
			t.Errorf("%s is gone, or differs", key)
		}
	}
	for key := range second.contents {
		if _, ok := first.contents[key]; !ok {
			t.Errorf("%s is there still", key)
		}
	}
	if !slices.Equal(first.groups, second.groups) {
		t.Errorf("groups %v, want %v", second.groups, first.groups)
	}
	if writes, _, err := c.Writes(0); err != nil || len(writes) != 0 {
		t.Errorf("before any write of the second borrower: %v, %v", writes, err)
	}
	if _, err := c.Client().CoreV1().Namespaces().Get(ctx, "made", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace made: %v, want that it is not found", err)
	}
	if err := c.ApplyComputeDomainCRDs(ctx); err != nil {
		t.Errorf("the same types again: %v", err)
	}
}
