package computedomain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	nvclient "sigs.k8s.io/dra-driver-nvidia-gpu/pkg/nvidia.com/clientset/versioned/typed/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// within is how long a test waits for what the API server tells in milliseconds, and
// for what is tried again after a minute.
const within = 180 * time.Second

// clusterRig is a real API server and a client of the driver's API.
type clusterRig struct {
	*kuberig.Cluster
	nvidia *nvclient.ResourceV1beta1Client
}

func startRig(t *testing.T) *clusterRig {
	t.Helper()
	return newRig(t, kuberig.StartTest(t))
}

func newRig(t *testing.T, c *kuberig.Cluster) *clusterRig {
	t.Helper()
	nvidia, err := nvclient.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &clusterRig{Cluster: c, nvidia: nvidia}
}

// onDrivers runs a test with the controller of each release of the driver.
func onDrivers(t *testing.T, test func(t *testing.T, driver string)) {
	t.Helper()
	t.Parallel()
	for _, driver := range kuberig.Drivers() {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, driver)
		})
	}
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listed is what quoin imex check sees: all objects, listed once.
func (r *clusterRig) listed(t *testing.T, config imex.Config) *imex.Observation {
	t.Helper()
	list, err := r.Objects().List(t.Context(), strings.Fields(ListCommand)[2], "")
	must(t, err)
	objects := NewObjects(config)
	for i := range list.Items {
		text, err := list.Items[i].MarshalJSON()
		must(t, err)
		must(t, objects.Add(list.Items[i].GetKind(), text))
	}
	return objects.Seen()
}

// label writes a label of a node, whose value is in JSON: null takes it away.
func (r *clusterRig) label(t *testing.T, node, key, value string) {
	t.Helper()
	must(t, r.Objects().Patch(t.Context(), "nodes", "", node, fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value)))
}

// finalize writes the finalizers of the domain quoin-node/quoin in JSON.
func (r *clusterRig) finalize(t *testing.T, finalizers string) {
	t.Helper()
	must(t, r.Objects().Patch(t.Context(), "computedomains", "quoin-node", "quoin", `{"metadata":{"finalizers":`+finalizers+`}}`))
}

// define tells the API server what the driver's Helm chart would.
func (r *clusterRig) define(t *testing.T) {
	t.Helper()
	if err := errors.Join(r.ApplyComputeDomainCRDs(t.Context()), r.ApplyDeviceClasses(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// start runs an observer until the test ends.
func start(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func observer(t *testing.T, rc *rest.Config, config imex.Config) *Cluster {
	t.Helper()
	config, err := config.Complete()
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCluster(rc, config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// until waits until is holds, woken by nothing but changes: a change of which
// nobody is told fails the test.
func until[T any](t *testing.T, changes <-chan T, what string, is func() (bool, string)) {
	t.Helper()
	end := time.After(within)
	for {
		ok, seen := is()
		if ok {
			return
		}
		select {
		case <-changes:
		case <-end:
			t.Fatalf("%s: not within %v; seen: %s", what, within, seen)
		}
	}
}

// Snapshot returns what Ensure sees, and creates nothing.
func (c *Cluster) Snapshot() (*imex.Observation, error) {
	seen, _, err := c.see()
	return seen, err
}

// domainIs waits for what Ensure says.
func domainIs(t *testing.T, c *Cluster, what string, is func(imex.Domain) bool) imex.Domain {
	t.Helper()
	var domain imex.Domain
	until(t, c.Changes(), what, func() (bool, string) {
		seen, err := c.Ensure(t.Context())
		if err != nil {
			return false, err.Error()
		}
		domain = seen.Domain
		return is(domain), fmt.Sprintf("%+v", domain)
	})
	return domain
}

func reasonIs(reason string) func(imex.Domain) bool {
	return func(d imex.Domain) bool { return d.Problem.Reason == reason }
}

func usable(d imex.Domain) bool { return d.UID != "" && d.Problem.Reason == "" }

// counter counts the requests that go through it.
type counter struct {
	mu     sync.Mutex
	seen   []string
	posted string // the last body
}

// counted returns a configuration of which the requests are counted.
func counted(rc *rest.Config) (*rest.Config, *counter) {
	c := &counter{}
	rc = rest.CopyConfig(rc)
	rc.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if err := c.note(r); err != nil {
				return nil, err
			}
			return rt.RoundTrip(r)
		})
	})
	return rc, c
}

func (c *counter) note(r *http.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, r.Method+" "+r.URL.RequestURI())
	if r.Method != http.MethodPost {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(body)
	c.posted = string(text)
	return err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (c *counter) lastPosted() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.posted
}

func (c *counter) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.seen...)
}

// tick wakes often, where nothing else would.
func tick(t *testing.T) <-chan time.Time {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	t.Cleanup(ticker.Stop)
	return ticker.C
}
