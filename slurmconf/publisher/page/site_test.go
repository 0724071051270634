package page_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/chromerig"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/picture"
	"github.com/quoin-hpc/quoin/topology/placement"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// mapSource is a source whose sites a test changes.
type mapSource struct {
	mu    sync.Mutex
	names []string
	now   map[string]*picture.Site
}

// Publications are the names.
func (s *mapSource) Publications() []string { return s.names }

// Site returns a copy, because a view must not change any more.
func (s *mapSource) Site(_ context.Context, name string) (*picture.Site, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	site := s.now[name]
	if site == nil {
		return nil, fmt.Errorf("nothing is known of %s", name)
	}
	copied := *site
	copied.Jobs = slices.Clone(site.Jobs)
	return &copied, nil
}

// JobGPUs knows the GPUs of job 102.
func (s *mapSource) JobGPUs(ctx context.Context, name, id string) (map[string]string, error) {
	site, err := s.Site(ctx, name)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(site.Jobs, func(j picture.Job) bool { return j.ID == id }); i < 0 {
		return nil, client.ErrNoJob
	} else if id != "102" {
		return nil, fmt.Errorf("slurmctld is away")
	}
	return map[string]string{"gb200-00001": "0-1", "gb200-00002": "0-3", "gb200-00055": "2"}, nil
}

// change changes a site.
func (s *mapSource) change(name string, how func(*picture.Site)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how(s.now[name])
}

// plan plans a simulated site, lets faults happen, and plans again.
func plan(t testing.TB, c *simulated.Cluster, name string, faults ...simulated.Fault) *picture.Site {
	t.Helper()
	policy := placement.Policy{EmptyLeaves: true}
	facts := sites.Facts(c)
	new(fabric.Site).Judge(facts)
	first, _, err := placement.MakePlan(placement.Observed{Facts: facts}, placement.Previous{}, policy)
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(simulated.Step{Do: faults})
	facts = sites.Facts(c)
	(&fabric.Site{Plan: first}).Judge(facts)
	made, _, err := placement.MakePlan(placement.Observed{Facts: facts}, placement.Previous{Plan: first}, policy)
	if err != nil {
		t.Fatal(err)
	}
	return &picture.Site{Publication: name, Plan: made, Facts: facts, Said: map[string]picture.Said{}}
}

// racks are so many racks of 18 nodes.
func racks(t testing.TB, count int) *simulated.Cluster {
	t.Helper()
	return sites.Parse(t, fmt.Sprintf(`groups:
- {name: gb200, racks: %d, nodes: 18, node: "gb200-{node:05}", nvlink: rack, platform: true,
   tiers: ["leaf-{rack:03}", "spine-{rack/8}"], gpus: {count: 4, product: NVIDIA GB200}}
`, count))
}

// run runs a job on nodes, which are busy then.
func run(s *picture.Site, j picture.Job) {
	s.Jobs = append(s.Jobs, j)
	for _, n := range j.Nodes {
		says := s.Said[n]
		says.Slurm, says.Use = "ALLOCATED", "busy"
		s.Said[n] = says
	}
}

// idle says that Slurm has all nodes without a job.
func idle(s *picture.Site) {
	for i := range s.Plan.Nodes {
		s.Said[s.Plan.Nodes[i].SlurmName] = picture.Said{Slurm: "IDLE", Use: "free",
			IMEX: picture.Verdict{Reason: "Ready", Message: "jobs across nodes may use IMEX here"}, Drift: picture.Verdict{Reason: "Agrees", Message: "all agree"}}
	}
}

// serve serves the sites until the test ends.
func serve(t testing.TB, s *mapSource) string {
	t.Helper()
	server := httptest.NewServer(page.New(s, slog.New(slog.DiscardHandler)).Handler())
	t.Cleanup(server.Close)
	return server.URL + page.Path
}

// browser is a browser whose errors end the test.
type browser struct {
	*chromerig.Browser
	t testing.TB
}

func start(t testing.TB, o chromerig.Options) browser {
	t.Helper()
	return browser{chromerig.StartTest(t, o), t}
}

// do fails the test on the first error.
func (b browser) do(errs ...error) {
	b.t.Helper()
	for _, err := range errs {
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// text is the text of an element.
func (b browser) text(selector string) (text string) {
	b.t.Helper()
	b.do(b.Eval(fmt.Sprintf("document.querySelector(%q).innerText", selector), &text))
	return text
}

// count is how many elements there are.
func (b browser) count(selector string) (n int) {
	b.t.Helper()
	b.do(b.Eval(fmt.Sprintf("document.querySelectorAll(%q).length", selector), &n))
	return n
}
