package kube

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// electionRig is a real API server with the manifests applied, and a client with the
// publisher's own token.
type electionRig struct {
	*kuberig.Cluster
	t      *testing.T
	config *rest.Config
	client kubernetes.Interface
}

func startElectionRig(t *testing.T) *electionRig {
	t.Helper()
	return newElectionRig(t, kuberig.StartTest(t))
}

func newElectionRig(t *testing.T, c *kuberig.Cluster) *electionRig {
	t.Helper()
	if err := c.Objects().Apply(t.Context(), filepath.FromSlash("../../../manifests/plain/base")); err != nil {
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
	return &electionRig{c, t, rc, client}
}

// candidate is a publisher that stands for election.
type candidate struct {
	store   *Store
	cut     atomic.Bool // from the API server, as if the process had been killed
	stop    context.CancelFunc
	terms   chan struct{} // one value each time that it begins to lead
	deposed chan struct{} // one each time that it stops
	ended   chan error
}

// stand lets a publisher stand for election.
func (r *electionRig) stand() *candidate {
	r.t.Helper()
	c := &candidate{terms: make(chan struct{}, 10), deposed: make(chan struct{}, 10), ended: make(chan error, 1)}
	rc := *r.config
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if c.cut.Load() {
				return nil, errors.New("cut off from the API server")
			}
			return next.RoundTrip(req)
		})
	})
	client, err := kubernetes.NewForConfig(&rc)
	if err != nil {
		r.t.Fatal(err)
	}
	c.store = New(client, setsOf(r.t, &rc), reportsOf(r.t, &rc), "quoin-system", compile(r.t, publication.Publication{Namespace: "slurm"}), slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(r.t.Context())
	c.stop = stop
	go func() {
		c.ended <- c.store.Lead(ctx, func(ctx context.Context) error {
			c.terms <- struct{}{}
			<-ctx.Done()
			c.deposed <- struct{}{}
			return nil
		})
	}()
	return c
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// wait waits for an event as long as a busy machine needs.
func (r *electionRig) wait(what string, event <-chan struct{}) {
	r.t.Helper()
	select {
	case <-event:
	case <-time.After(3 * time.Minute):
		r.t.Fatalf("%s: not within 3 minutes", what)
	}
}

// none fails if the candidate has begun to lead.
func (r *electionRig) none(what string, c *candidate) {
	r.t.Helper()
	select {
	case <-c.terms:
		r.t.Errorf("%s: it leads", what)
	default:
	}
}

// save writes a publication as the candidate would.
func (r *electionRig) save(c *candidate, file string) error {
	was, err := c.store.Load(r.t.Context(), plandoc.Location{Namespace: "slurm", Name: "quoin-slurm"})
	if err != nil {
		return err
	}
	next := was.Clone()
	next.Files["topology.yaml"] = "# " + file
	_, err = c.store.Save(r.t.Context(), plandoc.Location{Namespace: "slurm", Name: "quoin-slurm"}, next)
	return err
}

// TestRealElection goes through what ends a leader.
func TestRealElection(t *testing.T) {
	t.Parallel()
	r := startElectionRig(t)
	a := r.stand()
	r.wait("alone", a.terms)
	b := r.stand()
	_, offset, err := r.Writes(0)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * leaseRetry) // what is measured is that nothing but renewals happens
	writes, _, err := r.Writes(offset)
	if err != nil {
		t.Fatal(err)
	}
	if len(writes) == 0 {
		t.Error("the leader does not renew the Lease")
	}
	for _, w := range writes {
		if w.Resource != "leases" || w.Name != leaseName {
			t.Errorf("written at rest: %+v", w)
		}
	}
	r.none("another leads", b)
	if err := r.save(b, "b"); err == nil || !strings.Contains(err.Error(), "leads now") {
		t.Errorf("a publisher that does not lead has saved: %v", err)
	}
	if err := r.save(a, "a"); err != nil {
		t.Errorf("the leader has not saved: %v", err)
	}

	a.cut.Store(true) // as after kill -9, or where its network is gone
	r.wait("the leader is cut off", b.terms)
	r.wait("cut off", a.deposed)
	a.cut.Store(false)
	if err := r.save(a, "a again"); err == nil || !strings.Contains(err.Error(), "leads now") {
		t.Errorf("the leader of before has saved: %v", err)
	}
	if err := r.save(b, "b"); err != nil {
		t.Errorf("the leader has not saved: %v", err)
	}
	r.none("back, and another leads", a)

	b.stop()
	r.wait("the leader ends and gives the Lease back", a.terms)
	if err := <-b.ended; err != nil {
		t.Errorf("told to stop: %v", err)
	}
	// A renewal that is on its way when the leader is told to stop would come in between.
	await.Until(t, "the leader has renewed the Lease", func() bool {
		lease, err := r.Client().CoordinationV1().Leases("quoin-system").Get(t.Context(), leaseName, metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime.Sub(lease.Spec.AcquireTime.Time) > leaseRetry/2
	})
	a.stop()
	if err := <-a.ended; err != nil {
		t.Errorf("told to stop: %v", err)
	}
	lease, err := r.Client().CoordinationV1().Leases("quoin-system").Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != "" {
		t.Errorf("after the last one: %+v, %v", lease, err)
	}
}

func TestRealReady(t *testing.T) {
	t.Parallel()
	r := newElectionRig(t, kuberig.StartOwnTest(t))
	store := New(r.client, setsOf(t, r.config), reportsOf(t, r.config), "quoin-system", compile(t, publication.Publication{Namespace: "slurm"}), slog.New(slog.DiscardHandler))
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
