// Package occupancy says how running jobs lie in the published topologies of each publication,
// beside what Slurm says of its nodes, and how many segments of further jobs fit there.
//
// While a publisher leads, the Keeper wants an answer of each Slurm once a minute, and of a slow one less
// often. A reader may want something fresher. The Client of the Slurm asks. The Keeper changes nothing in
// Slurm and in no store, and its memory can be lost.
package occupancy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	// askEvery is the time between two answers that the Keeper itself wants.
	askEvery = time.Minute
	// askPause is the least time between two answers, whoever wants them.
	askPause = 10 * time.Second
	// restFor bounds the load of Slurm: after an answer the Keeper itself wants none for so many
	// times longer than the answer took. slurmrestd needs seconds for 10,000 nodes.
	restFor = 20
	// Stale is the age from which nothing is said of an answer.
	Stale = 5 * time.Minute
)

// Job is a running job, and how it lies in each topology that has its nodes.
type Job struct {
	slurmctld.Job
	Judgements []fit.Judgement
}

// View is what is known of a publication. Nobody changes it.
type View struct {
	// Asked is when Slurm was asked what it answered last; zero if it never did. Err is why it did
	// not answer the last question.
	Asked time.Time
	Err   error
	// Nodes are Slurm's nodes by Slurm name, and Jobs the jobs that hold nodes. There are none if the view is stale.
	Nodes map[string]slurmctld.Node
	Jobs  []Job
}

// Fresh reports whether the view is not stale.
func (v *View) Fresh(now time.Time) bool { return !v.Asked.IsZero() && now.Before(v.Asked.Add(Stale)) }

// Keeper keeps the views of all publications whose Slurm can be asked.
type Keeper struct {
	// Details asks which GPUs each job has, however many nodes there are. It is for who asks once.
	Details bool
	sites   map[string]*site
}

// site is one publication.
type site struct {
	slurm *client.Client
	job   chan struct{} // holds a value while somebody asks about one job

	mu     sync.Mutex // guards what follows
	began  time.Time  // an answer is wanted each minute since then; zero: nobody follows
	jobs   []Job      // those of the answer that was judged last, or nil
	seen   time.Time  // when that answer was asked for, or the one that is forgotten
	given  []topology.Topology
	places *fit.Map         // made of what was given
	gpus   map[run][]string // of runs that somebody has asked about
}

// run is one run of a job.
type run struct {
	id    string
	start int64
}

// New returns a Keeper of the publications whose Slurm can be asked: of those that have a Client.
func New(slurm map[string]*client.Client) *Keeper {
	k := &Keeper{sites: map[string]*site{}}
	for name, c := range slurm {
		k.sites[name] = &site{slurm: c, job: make(chan struct{}, 1)}
	}
	return k
}

// Set takes the published topologies of a publication, and asks for the jobs there. The same topologies
// again change nothing.
func (k *Keeper) Set(name string, topologies []topology.Topology) {
	s := k.sites[name]
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given != nil && reflect.DeepEqual(s.given, topologies) {
		return
	}
	s.given, s.places = topologies, fit.NewMap(topologies)
	k.Soon(name)
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
	a := s.slurm.Last()
	if a.Asked.Jobs.After(s.seen) {
		s.take(&a)
	}
	v := View{Err: a.Err}
	if s.jobs == nil {
		return v
	}
	if v.Asked = s.seen; v.Fresh(time.Now()) {
		v.Nodes, v.Jobs = a.State.Nodes, s.jobs
	}
	return v
}

// Fresher returns what is known of a publication, and waits for an answer of Slurm before if the
// last one is older than askPause.
func (k *Keeper) Fresher(ctx context.Context, name string) View {
	s := k.sites[name]
	if s == nil {
		return View{}
	}
	err := s.slurm.Newer(ctx, k.question(s), time.Now().Add(-askPause)).Err
	v := k.View(name)
	v.Err = err
	return v
}

// asker is who wants answers about jobs.
const asker = "jobs"

// Soon lets what is known be no older than askPause soon, and does not wait for the answer.
func (k *Keeper) Soon(name string) {
	if s := k.sites[name]; s != nil {
		now := time.Now()
		s.slurm.Want(asker, k.want(s, now, now.Add(-askPause)))
	}
}

// want wants an answer then, and the next one after it.
func (k *Keeper) want(s *site, at, than time.Time) *client.Want {
	return &client.Want{Question: k.question(s), At: at, Than: than, Then: func(context.Context, *client.Answer) *client.Want { return k.next(s) }}
}

// next says what is wanted after an answer. While Follow holds, that is one more answer in the minute
// that comes next, unless the last one will do.
func (k *Keeper) next(s *site) *client.Want {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.IsZero() {
		return nil
	}
	minute := s.began.Add(time.Since(s.began).Truncate(askEvery) + askEvery)
	return k.want(s, minute, minute.Add(-s.rest()))
}

// Follow wants an answer of each Slurm each minute until Forget.
func (k *Keeper) Follow() {
	for _, s := range k.sites {
		s.mu.Lock()
		s.began = time.Now()
		s.mu.Unlock()
		s.slurm.Want(asker, k.next(s))
	}
}

// Forget forgets what is known, and wants no more answers.
func (k *Keeper) Forget() {
	for _, s := range k.sites {
		s.mu.Lock()
		s.jobs, s.gpus, s.given, s.places = nil, nil, nil, nil
		s.began, s.seen = time.Time{}, s.slurm.Last().Asked.Jobs
		s.mu.Unlock()
		s.slurm.Want(asker, nil)
	}
}

// question is what the Keeper asks a Slurm.
func (k *Keeper) question(s *site) client.Question {
	nodes := len(s.slurm.Last().State.Nodes)
	return client.Question{Nodes: true, Jobs: true, Details: k.Details || 0 < nodes && nodes <= detailed}
}

// detailed is the most nodes of a Slurm that is asked which GPUs each job has. Of a larger one
// the answer would be too long to be asked for each minute: see JobGPUs.
const detailed = 1000

// JobGPUs returns the nodes of a running job and the GPUs that it has of each, such as
// gpu:gb200:4(IDX:0-3). It asks Slurm about the one job if the view does not have them. They do
// not change while the job runs, so Slurm is asked once. A job that does not run has ErrNoJob, if
// Slurm has said lately which jobs run.
func (k *Keeper) JobGPUs(ctx context.Context, name, id string) (nodes string, gpus []string, err error) {
	view, s := k.View(name), k.sites[name]
	if !view.Fresh(time.Now()) {
		if err = view.Err; err == nil {
			err = errNotSaid
		}
		return "", nil, fmt.Errorf("job %s: %w", topology.Cut(id, topology.MaxText), err)
	}
	i := slices.IndexFunc(view.Jobs, func(j Job) bool { return id != "" && (id == j.ID || id == j.Array) })
	if i < 0 {
		return "", nil, fmt.Errorf("job %s: %w", topology.Cut(id, topology.MaxText), client.ErrNoJob)
	}
	j := &view.Jobs[i]
	if len(j.GPUs) > 0 {
		return j.Nodes, j.GPUs, nil
	}
	select {
	case s.job <- struct{}{}:
		defer func() { <-s.job }()
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
	key := runOf(&j.Job)
	s.mu.Lock()
	gpus, known := s.gpus[key]
	s.mu.Unlock()
	if known {
		return j.Nodes, gpus, nil
	}
	now, err := s.slurm.Job(ctx, j.ID)
	if err != nil {
		return "", nil, err
	}
	if now.Nodes != j.Nodes { // it has ended meanwhile
		return "", nil, fmt.Errorf("job %s: %w", j.ID, client.ErrNoJob)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gpus == nil {
		s.gpus = map[run][]string{}
	}
	if gpus = now.GPUs; len(gpus) > 0 { // Slurm may tell them later
		s.gpus[key] = gpus
	}
	return j.Nodes, gpus, nil
}

// errNotSaid is returned if nobody can be asked, or Slurm has yet to answer.
var errNotSaid = errors.New("not known: Slurm has not said which jobs run")

// rest is the age from which the Keeper itself wants another answer. The answer does not become
// stale meanwhile.
func (s *site) rest() time.Duration {
	return min(max(askEvery-askPause, restFor*s.slurm.Last().Took), Stale-askEvery)
}

// take judges the jobs of an answer. The caller holds the lock.
func (s *site) take(a *client.Answer) {
	s.jobs, s.seen = make([]Job, len(a.State.Jobs)), a.Asked.Jobs
	running := make(map[run]bool, len(a.State.Jobs))
	for i := range a.State.Jobs {
		j := &a.State.Jobs[i]
		s.jobs[i].Job = *j
		if s.places != nil {
			s.jobs[i].Judgements = s.places.Judge(j, a.State.Partitions)
		}
		running[runOf(j)] = true
	}
	maps.DeleteFunc(s.gpus, func(key run, _ []string) bool { return !running[key] })
}

func runOf(j *slurmctld.Job) run { return run{j.ID, j.Start.Unix()} }
