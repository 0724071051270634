package kube

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/logtext"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// logText is a log that a test reads.
type logText struct{ logtext.Text }

func (l *logText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logText) count(what string) int { return strings.Count(l.String(), what) }

// until waits for a text.
func (l *logText) until(t *testing.T, what string) {
	t.Helper()
	await.Until(t, "the log says "+what, func() bool { return l.count(what) > 0 }, l.String)
}

// compile returns complete publications.
func compile(t testing.TB, pubs ...publication.Publication) []*publication.Cluster {
	t.Helper()
	clusters, err := publication.Compile(pubs, ParseSelector)
	if err != nil {
		t.Fatal(err)
	}
	return clusters
}

// run runs a store until the test ends.
func run(t *testing.T, store func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- store(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func reportsOf(t *testing.T, rc *rest.Config) *nodereport.Client {
	t.Helper()
	c, err := nodereport.NewClient(rc)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func setsOf(t *testing.T, rc *rest.Config) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func storeOf(t *testing.T, server string, log *slog.Logger) *Store {
	t.Helper()
	rc := &rest.Config{Host: server}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	return New(client, setsOf(t, rc), reportsOf(t, rc), "quoin-system", compile(t, publication.Publication{}), log)
}

// fakeAPI is an API server that refuses requests with a status, unless it is 0. It answers lists, and its watches say
// nothing.
func fakeAPI(t *testing.T, refuses func(*http.Request) int, list func(*http.Request) any) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status, query := refuses(r), r.URL.Query()
		switch {
		case status != 0:
			w.WriteHeader(status)
		case query.Get("sendInitialEvents") != "": // so it is listed
			w.WriteHeader(http.StatusUnprocessableEntity)
		case query.Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_ = json.NewEncoder(w).Encode(list(r))
		}
	}))
	t.Cleanup(server.CloseClientConnections)
	rc := &rest.Config{Host: server.URL}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	return rc, client
}

func TestUnreachableAPIServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var log logText
	store := storeOf(t, "http://"+address, log.logger())
	run(t, store.Run)
	log.until(t, "cannot be reached, trying again\" server="+address)
	if err := store.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "not been read yet: connection: dial tcp "+address+": connect: connection refused") {
		t.Errorf("Ready says %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := store.Snapshot(ctx); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("Snapshot says %v", err)
	}
	if n := log.count("\n"); n != 1 {
		t.Errorf("%d lines of one trouble:\n%s", n, &log)
	}
}

func TestAPIServerRefuses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(server.Close)
	var log logText
	store := storeOf(t, server.URL, log.logger())
	run(t, store.Run)
	for _, what := range []string{"what=nodes", "what=reports", `what="publication slurm/quoin-slurm"`} {
		log.until(t, `msg="not readable, trying again" `+what)
	}
	if err := store.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "not been read yet: nodes: ") {
		t.Errorf("Ready says %v", err)
	}
}

// TestRealPlanWatched edits and deletes a stored plan behind the store: the store notices both,
// and not what it writes itself.
func TestRealPlanWatched(t *testing.T) {
	t.Parallel()
	r := newElectionRig(t, kuberig.StartTest(t))
	store := New(r.client, setsOf(t, r.config), reportsOf(t, r.config), "quoin-system", compile(t, publication.Publication{Namespace: "slurm"}), slog.New(slog.DiscardHandler))
	run(t, store.Run)
	d := plandoc.New("default", "slurm/quoin-slurm")
	admin, err := kubernetes.NewForConfig(r.Config())
	if err != nil {
		t.Fatal(err)
	}
	api := admin.CoreV1().ConfigMaps("quoin-system")
	shown := func(what string, is func() bool) {
		t.Helper()
		await.Until(t, what, is)
	}
	for _, change := range []struct {
		name string
		do   func() error
	}{
		{"edited", func() error {
			_, err := api.Patch(t.Context(), "quoin-plan-default", types.MergePatchType, []byte(`{"binaryData":{"plan.json.gz":"eA=="}}`), metav1.PatchOptions{})
			return err
		}},
		{"deleted", func() error { return api.Delete(t.Context(), "quoin-plan-default", metav1.DeleteOptions{}) }},
	} {
		version, err := store.SavePlan(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		d.Version = version
		shown("the plan as it was written", func() bool { seen := store.plans.of("default"); return seen.version == version && !seen.gone })
		if store.PlanChanged("default", version) {
			t.Errorf("before the plan was %s, it has changed", change.name)
		}
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		shown("the plan "+change.name, func() bool { return store.PlanChanged("default", version) })
		if change.name == "deleted" {
			if d, err := store.LoadPlan(t.Context(), "default"); d != nil || err != nil || store.PlanChanged("default", "") {
				t.Errorf("%v, %v", d, err)
			}
			continue
		}
		if _, err := store.LoadPlan(t.Context(), "default"); !errors.Is(err, plandoc.ErrUnreadable) {
			t.Errorf("%v", err)
		}
		d.Version = store.plans.of("default").version
	}
}

// TestRealOutage stops a real API server under a store that has read it.
func TestRealOutage(t *testing.T) {
	t.Parallel()
	r := newElectionRig(t, kuberig.StartOwnTest(t))
	var log logText
	store := New(r.client, setsOf(t, r.config), reportsOf(t, r.config), "quoin-system", compile(t, publication.Publication{Namespace: "slurm"}), log.logger())
	run(t, store.Run)
	if _, err := store.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log.count("\n") != 1 || log.count("ResourceSlices are not read") != 1 { // the role lacks that right
		t.Errorf("with a good API server the log has\n%s", &log)
	}
	r.StopServer()
	log.until(t, "cannot be reached")
	if err := r.StartServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.until(t, "answers again")
}

// of returns what the watch has shown last.
func (w *planWatch) of(publication string) seenPlan {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[publication]
}
