package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// pageSource is what the page draws: the site as it is at the moment of the day, with jobs.
type pageSource struct {
	name string
	jobs workload
	mu   sync.Mutex
	site *picture.Site
}

// Publications is the one publication.
func (s *pageSource) Publications() []string { return []string{s.name} }

// Site is the site of this moment.
func (s *pageSource) Site(context.Context, string) (*picture.Site, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.site == nil {
		return nil, errors.New("the day has not begun")
	}
	return s.site, nil
}

// set shows another moment. What was published stays if the new files are refused.
func (s *pageSource) set(made *publisher.Rendered, facts []topology.Facts) {
	site := &picture.Site{Publication: s.name, Plan: made.Plan, Facts: facts, Said: map[string]picture.Said{}}
	if made.Refused != "" {
		site.Held = &picture.Held{Holds: []picture.Hold{{Reason: made.Refused, Message: made.Message, Digest: made.Digest}}}
	}
	healthy := map[string]bool{}
	for i := range facts {
		f := &facts[i]
		says, ok := slurmSays(f)
		says.Drift = driftOf(made.Plan.Problems, f.Name)
		healthy[f.SlurmName], site.Said[f.SlurmName] = ok, says
	}
	site.Jobs = s.jobs.next(made.Plan, healthy)
	for i := range site.Jobs {
		for _, n := range site.Jobs[i].Nodes {
			says := site.Said[n]
			says.Slurm = "ALLOCATED"
			site.Said[n] = says
		}
	}
	page.Count(site)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.site = site
}

// slurmSays plays Slurm and the IMEX daemons: nodes that are silent are down, and nodes with a
// GPU or a fabric that is not healthy are drained.
func slurmSays(f *topology.Facts) (says picture.Said, ok bool) {
	ready := picture.Verdict{Reason: imex.ReasonReady, Message: "jobs across nodes may use IMEX here"}
	if f.Gone || f.Report == nil {
		return picture.Said{Slurm: "DOWN+NOT_RESPONDING"}, false
	}
	if len(f.Report.Problems) > 0 {
		return picture.Said{Slurm: "IDLE+DRAIN", IMEX: ready}, false
	}
	v := &f.Fabric
	said := picture.Said{Slurm: "IDLE+DRAIN", IMEX: ready}
	if v.Faulty() {
		said.Fabric = picture.Verdict{Wrong: true, Reason: v.Reason, Message: v.Message}
	}
	if v.IMEX == topology.IMEXNotReady {
		said.IMEX = picture.Verdict{Wrong: true, Reason: imex.ReasonFabricNotReady, Message: v.Message + ". What to do: " + v.Remedy}
	}
	if v.Faulty() || v.IMEX == topology.IMEXNotReady {
		return said, false
	}
	return picture.Said{Slurm: "IDLE", IMEX: ready}, true
}

// driftOf says whether labels and hardware of a node name one place.
func driftOf(problems []topology.Finding, node string) picture.Verdict {
	i := slices.IndexFunc(problems, func(p topology.Finding) bool { return p.Node == node })
	if i < 0 {
		return picture.Verdict{Reason: "Agrees", Message: "hardware, labels and published files agree"}
	}
	return picture.Verdict{Wrong: true, Reason: problems[i].Reason, Message: problems[i].Message}
}

// servePage serves the page at the address until ctx ends. It returns when it listens.
func (d *demonstration) servePage(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.Page)
	if err != nil {
		return fmt.Errorf("serve the page: %w; choose another address by --page", err)
	}
	d.source = &pageSource{name: d.Publication.Name}
	server := &http.Server{Handler: page.New(d.source, slog.New(slog.DiscardHandler)).Handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	d.Printf("The map is at %s\n", d.Bold("http://"+listener.Addr().String()+page.Path))
	return nil
}

// stay lets people look at the page.
func (d *demonstration) stay(ctx context.Context) {
	d.Printf("The map stays there until you press Ctrl-C.\n")
	<-ctx.Done()
}
