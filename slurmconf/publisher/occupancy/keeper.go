// Package occupancy keeps what Slurm says of each publication's nodes and running jobs, and how
// the jobs lie in the published topologies.
//
// While it runs it asks each Slurm once a minute, and a slow one less often, in the background.
// A reader may ask for something fresher. It changes nothing in Slurm and in no store, and its memory can be lost.
package occupancy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/layout"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/live"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	// askEvery is the time between two questions of the Keeper's own.
	askEvery = time.Minute
	// askPause is the least time between two questions, whoever asks.
	askPause = 10 * time.Second
	// restFor bounds the load of Slurm: after an answer the Keeper leaves it alone so many times
	// longer than the answer took. slurmrestd needs seconds for 10,000 nodes.
	restFor = 20
	// restSeen is the same while somebody looks.
	restSeen = 5
	// Stale is the age from which nothing is said of an answer.
	Stale = 5 * time.Minute
)

// Job is a running job, and how it lies in each topology that has its nodes.
type Job struct {
	live.Job
	Judgements []layout.Judgement
}

// View is what is known of a publication. Nobody changes it.
type View struct {
	// Asked is when Slurm answered last; zero if it never did. Err is why it did not answer the
	// last question.
	Asked time.Time
	Err   error
	// Nodes are Slurm's nodes by Slurm name, and Jobs the jobs that hold nodes.
	Nodes map[string]live.Node
	Jobs  []Job
}

// Fresh reports whether the view is not stale.
func (v *View) Fresh(now time.Time) bool { return !v.Asked.IsZero() && now.Before(v.Asked.Add(Stale)) }

// Keeper keeps the views of all publications whose Slurm can be asked.
type Keeper struct {
	// Details asks which GPUs each job has, however many nodes there are. It is for who asks once.
	Details bool
	sites   map[string]*site
	log     *slog.Logger
}

// site is one publication.
type site struct {
	name  string
	slurm live.Asker

	asking chan struct{} // holds a value while somebody asks
	wake   chan struct{} // gets a value when places change
	mu     sync.Mutex    // guards what follows
	view   View
	tried  time.Time // the last question
	took   time.Duration
	given  []topology.Topology // what places were made of
	places *layout.Map
	news   bool                       // places have changed since the last judgement
	judged map[run][]layout.Judgement // of a run when it was first seen
	gpus   map[run][]string           // of runs that somebody has asked about
	failed again.Once
}

// run is one run of a job.
type run struct {
	id    string
	start int64
}

// New returns a Keeper of those publications whose Slurm can be asked: slurm returns an asker
// for them. slurm may be nil.
func New[Slurm live.Asker](clusters []*publication.Cluster, slurm func(*publication.Cluster) Slurm, log *slog.Logger) *Keeper {
	k := &Keeper{sites: map[string]*site{}, log: log}
	for _, c := range clusters {
		if slurm == nil {
			break
		}
		if asker := live.Asker(slurm(c)); asker != nil {
			k.sites[c.Name] = &site{name: c.Name, slurm: asker, asking: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
		}
	}
	return k
}

// Set takes the published topologies of a publication. The same places again change nothing.
func (k *Keeper) Set(name string, topologies []topology.Topology) {
	s := k.sites[name]
	if s == nil || s.has(topologies) {
		return
	}
	places, err := layout.New(topologies)
	if err != nil { // the topologies were read from the plan
		k.log.Warn("jobs cannot be judged", "publication", name, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given = topologies; s.places != nil && reflect.DeepEqual(s.places, places) {
		return
	}
	s.places, s.news = places, true
	again.Notify(s.wake)
}

func (s *site) has(topologies []topology.Topology) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given != nil && reflect.DeepEqual(s.given, topologies)
}

// Asks reports whether the Slurm of a publication can be asked.
func (k *Keeper) Asks(name string) bool { return k.sites[name] != nil }

// View returns what is known of a publication, without a question.
func (k *Keeper) View(name string) View {
	s := k.sites[name]
	if s == nil {
		return View{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// Fresher returns what is known of a publication, and asks Slurm before if the last question is
// older than age. It waits for the answer. Slurm is asked every ten seconds at most, and a slow
// one has rest between two questions.
func (k *Keeper) Fresher(ctx context.Context, name string, age time.Duration) View {
	if s := k.sites[name]; s != nil {
		s.mu.Lock()
		age = max(age, askPause, restSeen*s.took)
		s.mu.Unlock()
		k.ask(ctx, s, age)
	}
	return k.View(name)
}

// JobGPUs returns the nodes of a running job and the GPUs that it has of each, such as
// gpu:gb200:4(IDX:0-3). It asks Slurm about the one job if the view does not have them. They do
// not change while the job runs, so Slurm is asked once.
func (k *Keeper) JobGPUs(ctx context.Context, name, id string) (nodes string, gpus []string, err error) {
	view, s := k.View(name), k.sites[name]
	i := slices.IndexFunc(view.Jobs, func(j Job) bool { return id != "" && (id == j.ID || id == j.Array) })
	if i < 0 {
		return "", nil, fmt.Errorf("job %s: %w", topology.Cut(id, topology.MaxText), ErrNoJob)
	}
	j := &view.Jobs[i]
	if len(j.GPUs) > 0 {
		return j.Nodes, j.GPUs, nil
	}
	release, err := s.lock(ctx)
	if err != nil {
		return "", nil, err
	}
	defer release()
	key := runOf(&j.Job)
	s.mu.Lock()
	gpus, known := s.gpus[key]
	s.mu.Unlock()
	if known {
		return j.Nodes, gpus, nil
	}
	state, err := s.slurm.Ask(ctx, live.Question{Job: j.ID, Nodes: len(view.Nodes)})
	if err != nil {
		return "", nil, fmt.Errorf("job %s: %w", id, err)
	}
	if len(state.Jobs) != 1 || state.Jobs[0].Nodes != j.Nodes { // it has ended meanwhile
		return "", nil, fmt.Errorf("job %s: %w", id, ErrNoJob)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gpus == nil {
		s.gpus = map[run][]string{}
	}
	if gpus = state.Jobs[0].GPUs; len(gpus) > 0 { // Slurm may tell them later
		s.gpus[key] = gpus
	}
	return j.Nodes, gpus, nil
}

// ErrNoJob is returned for a job that does not run.
var ErrNoJob = errors.New("no such job runs")

// NodeStates returns Slurm's words for the states of a publication's nodes by Slurm name. It is
// nil if nothing is known that is fresh.
func (k *Keeper) NodeStates(name string) map[string]string {
	view := k.View(name)
	if !view.Fresh(time.Now()) {
		return nil
	}
	states := make(map[string]string, len(view.Nodes))
	for node, n := range view.Nodes {
		states[node] = n.State
	}
	return states
}

// Run asks until ctx ends: each minute, and when topologies change. Then it forgets what it
// knows.
func (k *Keeper) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range k.sites {
		all.Go(func() {
			tick := time.NewTicker(askEvery)
			defer tick.Stop()
			defer s.forget()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					k.ask(ctx, s, s.rest())
				case <-s.wake:
					k.ask(ctx, s, askPause)
				}
			}
		})
	}
	all.Wait()
}

// rest is how long the Keeper leaves Slurm alone. The answer does not become stale meanwhile.
func (s *site) rest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(askEvery-askPause, restFor*s.took), Stale-askEvery)
}

func (s *site) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view, s.judged, s.gpus, s.given, s.places, s.tried = View{}, nil, nil, nil, nil, time.Time{}
}

// lock waits until nobody else asks.
func (s *site) lock(ctx context.Context) (release func(), err error) {
	select {
	case s.asking <- struct{}{}:
		return func() { <-s.asking }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask asks Slurm if the last question is older than age. Who comes while another asks waits for
// that answer.
func (k *Keeper) ask(ctx context.Context, s *site, age time.Duration) {
	release, err := s.lock(ctx)
	if err != nil {
		return
	}
	defer release()
	s.mu.Lock()
	due, nodes := time.Since(s.tried) >= age, len(s.view.Nodes)
	s.mu.Unlock()
	if !due {
		return
	}
	now := time.Now()
	state, err := s.slurm.Ask(ctx, live.Question{Nodes: max(nodes, firstNodes), Jobs: true, Details: k.Details || 0 < nodes && nodes <= detailed})
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		k.fail(s, now, err)
		return
	}
	s.take(state, now, time.Since(now))
}

const (
	// firstNodes is for how many nodes the first question waits.
	firstNodes = 20_000
	// detailed is the most nodes of a Slurm that is asked which GPUs each job has. Of a larger one
	// the answer would be too long to be asked for each minute: see JobGPUs.
	detailed = 1000
)

// fail keeps the last answer, and logs the first of several equal errors.
func (k *Keeper) fail(s *site, now time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried, s.took, s.view.Err = now, time.Since(now), err
	if s.failed.IsNew(err.Error()) {
		k.log.Warn("Slurm does not say which jobs run", "publication", s.name, "err", topology.Cut(err.Error(), topology.MaxMessage))
	}
}

// take judges the jobs that are new, and all if the places have changed.
func (s *site) take(state *live.State, now time.Time, took time.Duration) {
	s.mu.Lock()
	places, news, old := s.places, s.news, s.judged
	s.news = false
	s.mu.Unlock()
	kept := make(map[run][]layout.Judgement, len(state.Jobs))
	var judged map[int][]layout.Judgement
	if places != nil {
		judged = places.Judge(state, func(j *live.Job) bool { _, known := old[runOf(j)]; return news || !known })
	}
	running := make(map[run]bool, len(state.Jobs))
	view := View{Asked: now, Nodes: state.Nodes, Jobs: make([]Job, len(state.Jobs))}
	for i := range state.Jobs {
		key := runOf(&state.Jobs[i])
		r, known := old[key]
		if fresh, is := judged[i]; is || news || !known {
			r = fewer(fresh, r)
		}
		kept[key], running[key] = r, true
		view.Jobs[i] = Job{state.Jobs[i], r}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if places == nil {
		kept = nil
	}
	s.view, s.judged, s.tried, s.took = view, kept, now, took
	for key := range s.gpus {
		if !running[key] {
			delete(s.gpus, key)
		}
	}
	s.failed.Forget()
}

func runOf(j *live.Job) run { return run{j.ID, j.Start.Unix()} }

// fewer keeps the fewest units that were proved earlier, if the job is counted as then.
func fewer(fresh, old []layout.Judgement) []layout.Judgement {
	for i := range fresh {
		for k := range old {
			if f, o := &fresh[i], &old[k]; f.Topology == o.Topology && len(f.Names) == len(o.Names) {
				f.Fewest = min(f.Fewest, o.Fewest)
			}
		}
	}
	return fresh
}
