package loaded

import (
	"context"
	"log/slog"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/live"
	"github.com/quoin-hpc/quoin/topology"
)

// The times between two questions.
const (
	// askEvery is while all is as published. askFresh is for neverAfter after a change of the
	// files that Slurm has not loaded. askAgain is after that, and if a node is newly behind.
	askEvery = 10 * time.Minute
	askFresh = 10 * time.Second
	askAgain = time.Minute
	// failuresSaid is how many questions in a row must fail before people are told.
	failuresSaid = 3
)

// ReasonNeverLoaded is the event of files that slurmctld has not loaded.
const ReasonNeverLoaded = "FileNeverLoaded"

// Slurm can be asked, and can be told to read its files again.
type Slurm interface {
	live.Asker
	Reconfigure(ctx context.Context) error
}

// Recorder records events of a publication.
type Recorder interface {
	Record(p published.Place, warning bool, reason, message string)
}

// Options are what a Watch works with.
type Options struct {
	// Slurm returns what asks the Slurm of a publication, or nil if nobody can be asked. It may
	// be nil.
	Slurm    func(*publication.Cluster) Slurm
	Recorder Recorder // or nil
	Metrics  *Metrics
	Log      *slog.Logger
}

// NewWatch returns the Watch of a publication.
func NewWatch(pub *publication.Cluster, o Options) *Watch {
	w := &Watch{pub: pub, options: o}
	if o.Slurm != nil {
		w.slurm = o.Slurm(pub)
	}
	return w
}

// Watch asks Slurm how far the places of nodes have come. Its memory can be lost.
type Watch struct {
	pub     *publication.Cluster
	options Options
	// slurm is nil if nobody can be asked.
	slurm Slurm

	state    *live.State
	asked    time.Time
	whole    time.Time // the last question about nodes
	waits    bool      // Slurm had not loaded the files at the last question
	next     time.Time
	digest   string // of the files at the last question
	failures int
	failed   again.Once
	text     string        // what is behind, for people
	seen     map[Node]bool // what was behind at the last question, and whether two found it
	never    again.Once    // the digest of files of which people were told
	told     string        // the digest of files for which Slurm was told to reconfigure
}

// Reconcile asks Slurm if that is due. It returns what is known, which nodes were behind at the
// last question, and when the next question is due, or zero.
func (w *Watch) Reconcile(ctx context.Context, in *Input) (v *View, text string, next time.Time) {
	if w.slurm == nil || in.Doc.Current.Number == 0 {
		return NewView(in, nil), "", next
	}
	if digest := in.Doc.Current.OfFiles(); digest != w.digest {
		w.digest, w.next = digest, w.asked.Add(askFresh)
	}
	if !in.Now.Before(w.next) {
		w.ask(ctx, in)
	}
	return NewView(in, w.state), w.text, w.next
}

// ask asks Slurm, and says when to ask again.
func (w *Watch) ask(ctx context.Context, in *Input) {
	w.asked = in.Now
	state, err := w.question(ctx, in)
	if err != nil {
		if ctx.Err() == nil {
			w.fail(err)
		}
		w.next = in.Now.Add(again.Pause(w.failures, askFresh, askEvery))
		return
	}
	if w.failures >= failuresSaid {
		w.options.Log.Info("Slurm answers again", "publication", w.pub.Name)
	}
	w.failures, w.state = 0, state
	w.failed.Forget()
	v := NewView(in, state)
	w.waits = v.Loaded() == No
	pause, news := askEvery, w.say(v, w.whole.Equal(in.Now))
	switch {
	case w.pub.Slurm.Reconfigure && v.Never() && w.told != w.digest:
		w.reconfigure(ctx)
		pause = askFresh
	case v.Loaded() == No && !v.Never():
		pause = askFresh
	case v.Never() || news:
		pause = askAgain
	}
	w.next = in.Now.Add(pause)
}

// question asks Slurm. While Slurm has not loaded the files, it asks for nodes only every
// askEvery, and when the files are loaded.
func (w *Watch) question(ctx context.Context, in *Input) (*live.State, error) {
	q := live.Question{Topologies: topologies(in), Nodes: len(in.Nodes)}
	if w.waits && w.state != nil && in.Now.Before(w.whole.Add(askEvery)) {
		q.Brief = true
		state, err := w.slurm.Ask(ctx, q)
		if err != nil {
			return nil, err
		}
		state.Nodes = w.state.Nodes
		if NewView(in, state).Loaded() == No {
			return state, nil
		}
	}
	w.whole, q.Brief = in.Now, false
	return w.slurm.Ask(ctx, q)
}

// topologies are the names to ask for. topology.conf has one, without a name.
func topologies(in *Input) (names []string) {
	if in.Doc.Current.Plan.Format == "conf" {
		return nil
	}
	for i := range in.Doc.Current.Plan.Topologies {
		names = append(names, in.Doc.Current.Plan.Topologies[i].Name)
	}
	return names
}

// fail notes that Slurm did not answer.
func (w *Watch) fail(err error) {
	w.failures++
	if w.failures < failuresSaid {
		return
	}
	w.state, w.text, w.seen = nil, published.CannotAsk, nil
	w.options.Metrics.forget(w.pub.Name)
	if w.failed.IsNew(published.CannotAsk) {
		w.options.Log.Warn("Slurm cannot be asked how far nodes have come", "publication", w.pub.Name, "err", topology.Cut(err.Error(), topology.MaxMessage))
	}
}

// say says what is behind. A node that is not registered as published is behind if two questions
// about nodes found it so, because nodes and their annotations come and go. news says that only
// the last question found such a node.
func (w *Watch) say(v *View, aboutNodes bool) (news bool) {
	old := w.seen
	w.seen = map[Node]bool{}
	var behind []Node
	for _, n := range v.Behind() {
		confirmed, found := old[n]
		confirmed = n.Stage != StageRegistered || confirmed || found && aboutNodes
		w.seen[n] = confirmed
		if confirmed {
			behind = append(behind, n)
		} else {
			news = true
		}
	}
	w.options.Metrics.set(w.pub.Name, behind, v.Never())
	w.text = v.Text(behind)
	if v.Never() && w.never.IsNew(w.digest) {
		message := v.whyLoaded()
		w.options.Log.Warn("published files not loaded", "publication", w.pub.Name, "message", message)
		if w.options.Recorder != nil {
			w.options.Recorder.Record(w.pub.Place(), true, ReasonNeverLoaded, message)
		}
	}
	return news
}

// reconfigure tells Slurm to read its files again.
func (w *Watch) reconfigure(ctx context.Context) {
	w.told = w.digest
	if err := w.slurm.Reconfigure(ctx); err != nil {
		w.options.Log.Warn("Slurm does not reconfigure", "publication", w.pub.Name, "err", topology.Cut(err.Error(), topology.MaxMessage))
		return
	}
	w.options.Log.Info("told Slurm to reconfigure, because it had not loaded the published files", "publication", w.pub.Name, "digest", w.digest)
}

// AskerOf returns what asks the Slurm of a publication, as it is configured, or nil.
func AskerOf(pub *publication.Cluster) Slurm {
	switch c := &pub.Slurm; {
	case c.URL != "":
		return live.NewREST(c.URL, c.TokenFile)
	case c.Scontrol != "":
		return &live.Scontrol{Program: c.Scontrol}
	}
	return nil
}
