package loaded

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/topology"
)

// The times between two questions.
const (
	// askEvery is while all is as published. askFresh is for LoadTimeout after a change of the
	// files that Slurm has not loaded. askAgain is after that, and if a node is newly pending.
	askEvery = 10 * time.Minute
	askFresh = 10 * time.Second
	askAgain = time.Minute
	// failuresSaid is how many questions in a row must fail before people are told.
	failuresSaid = 3
)

// asker is who wants answers about what Slurm has loaded. It goes after the one about jobs, whose answers
// have the nodes.
const asker = "loaded"

// ReasonNeverLoaded is the event of files that slurmctld has not loaded.
const ReasonNeverLoaded = "FileNeverLoaded"

// Recorder records events of a publication for people, for example as events of Kubernetes.
type Recorder interface {
	Record(p plandoc.Location, warning bool, reason, message string)
}

// Options are what a Watch works with.
type Options struct {
	Slurm    *client.Client // or nil, if nobody can be asked
	Recorder Recorder       // or nil
	Metrics  *Metrics
	Log      *slog.Logger
}

// NewWatch returns the Watch of a publication. Its first question is for the release that files are made for.
func NewWatch(pub *publication.Cluster, o Options) *Watch {
	w := &Watch{Options: o, pub: pub, began: time.Now()}
	if o.Slurm != nil {
		w.want(client.Question{Loaded: true}, w.began, 0)
	}
	return w
}

// Release is the release that Slurm said last, or 0. asking says that the first question has neither been
// answered nor failed.
func (w *Watch) Release() (said slurmconf.Release, asking bool) {
	if w.Slurm == nil {
		return 0, false
	}
	a := w.Slurm.Last()
	return a.State.Release, a.Failures == 0 && a.Asked.Loaded.Before(w.began)
}

// Watch follows how far the places of nodes have come. Reconcile judges Slurm's last answer, and says
// what the Client is to ask next. Its memory can be lost.
type Watch struct {
	Options
	pub      *publication.Cluster
	news     atomic.Bool
	failures int // that were news; the Client alone looks

	began  time.Time    // when the first question was wanted
	judged client.Asked // the times of the answer that was judged last
	waits  bool         // Slurm had not loaded the files then
	loaded time.Time    // the answer by which Slurm has loaded files was asked for then
	digest string       // of the files that were judged last
	has    string       // the digest of files that Slurm has loaded, as it has said once
	text   string       // what was pending then, for people
	// problems are those of nodes that were pending then.
	problems []topology.Finding
	seen     map[Node]bool // what was pending then, and whether two questions found it
	never    again.Once    // the digest of files of which people were told
	told     again.Once    // the digest of files for which Slurm was told to reconfigure
}

// Known is what is known of how far nodes have come.
type Known struct {
	View *View
	// Text says for people what is pending. It has no times of now, so that it only changes if
	// something does. Asked is when Slurm was asked what it tells of.
	Text  string
	Asked time.Time
	// Unjudged says that Slurm can be asked, and has not yet answered or failed.
	Unjudged bool
}

// Reconcile judges the last answer of Slurm if it is new, and wants the next one.
func (w *Watch) Reconcile(in *Input) Known {
	if w.Slurm == nil || in.Doc.Current.Number == 0 {
		return Known{View: NewView(in, nil)}
	}
	a := w.Slurm.Last()
	fresh := in.Doc.Current.OfFiles() != w.digest
	if fresh {
		w.digest = in.Doc.Current.OfFiles()
		at := in.Now
		if soonest := w.judged.Loaded.Add(askFresh); at.Before(soonest) {
			at = soonest
		}
		w.want(w.question(in, &a), at, 0)
	}
	switch {
	case a.Failures >= failuresSaid: // so long that nothing is known
		w.seen = nil
		w.Metrics.forget(w.pub.Name)
		return Known{View: NewView(in, nil), Text: strings.TrimSpace(plandoc.CannotAsk + "\n" + w.text), Asked: w.judged.Loaded}
	case a.Asked.Nodes.IsZero() || a.Asked.Loaded.IsZero(): // Slurm has never said all that is judged
		return Known{View: NewView(in, nil), Unjudged: a.Failures == 0}
	}
	v := NewView(in, &a.State)
	if !fresh && (w.judged.Loaded != a.Asked.Loaded || w.judged.Nodes != a.Asked.Nodes) {
		w.judge(in, v, &a)
	}
	return Known{View: v, Text: w.text, Asked: w.judged.Loaded, Unjudged: w.judged.Loaded.IsZero()}
}

// Problems are nodes in the right place that slurmctld drains all the same, by the answer that was judged
// last.
func (w *Watch) Problems() []topology.Finding { return w.problems }

// judge says what an answer means, and wants the next one.
func (w *Watch) judge(in *Input, v *View, a *client.Answer) {
	waited := w.waits
	w.waits = v.Loaded() == No
	news := w.say(v, a.Asked.Nodes != w.judged.Nodes)
	if w.judged = a.Asked; waited && !w.waits {
		w.loaded = a.Asked.Loaded
	}
	pause, age := askEvery, time.Duration(0)
	switch {
	case a.Asked.Nodes.Before(w.loaded): // nobody knows how the nodes are since Slurm has loaded the files
		if pause = askFresh; waited {
			pause = 0
		}
	case w.pub.Slurm.Reconfigure && v.Never() && w.told.IsNew(w.digest):
		w.reconfigure(w.digest)
		pause = askFresh
	case w.waits && !v.Never():
		pause = askFresh
	case v.Never() || news:
		pause = askAgain
	}
	if pause > askFresh {
		age = pause / 2 // others ask, too
	}
	w.want(w.question(in, a), in.Now.Add(pause), age)
}

// question asks how far the places have come. While Slurm has not loaded the files, nodes are
// asked for only every askEvery, and when the files are loaded.
func (w *Watch) question(in *Input, a *client.Answer) client.Question {
	return client.Question{Loaded: true, Topologies: topologies(in), Nodes: !w.waits || !in.Now.Before(a.Asked.Nodes.Add(askEvery))}
}

// topologies are the names to ask for. topology.conf has one, without a name.
func topologies(in *Input) (names []string) {
	if in.Doc.Current.Plan.Format == "conf" && len(in.Doc.Current.Plan.Topologies) > 0 {
		return []string{""}
	}
	for i := range in.Doc.Current.Plan.Topologies {
		names = append(names, in.Doc.Current.Plan.Topologies[i].Name)
	}
	return names
}

// want replaces what is asked next. An answer of that age will do then.
func (w *Watch) want(q client.Question, at time.Time, age time.Duration) {
	next := client.Want{Question: q, At: at, Than: at.Add(-age)}
	next.Then = func(_ context.Context, a *client.Answer) *client.Want {
		if failures := min(a.Failures, failuresSaid); a.Err == nil || failures != w.failures {
			w.failures = failures
			w.news.Store(true)
		}
		if a.Err == nil {
			return nil
		}
		retry := next
		retry.At = a.Next
		return &retry
	}
	w.Slurm.Want(asker, &next)
}

// End wants no more answers.
func (w *Watch) End() {
	if w.Slurm != nil {
		w.Slurm.Want(asker, nil)
	}
}

// News reports whether there was an answer since the last call, or one of the first failures in a row.
func (w *Watch) News() bool { return w.news.Swap(false) }

// say says what is pending. A node that is not registered as published is pending if two questions
// about nodes found it so, because nodes and their annotations come and go. news says that only
// the last question found such a node.
func (w *Watch) say(v *View, aboutNodes bool) (news bool) {
	old := w.seen
	w.seen = map[Node]bool{}
	var pending []Node
	for _, n := range v.Pending() {
		if n.Stage == StageRegistered && w.pub.Rules.BySlinky() && !w.pub.Rules.Wants(v.in.Nodes[n.Name]) {
			continue // without a worker pod no slurmd runs there, and the node leaves soon or gets a pod
		}
		confirmed, found := old[n]
		if n.Stage == StageRegistered && !found && !aboutNodes { // an older answer about nodes
			news = true
			continue
		}
		confirmed = n.Stage != StageRegistered || confirmed || found && aboutNodes
		w.seen[n] = confirmed
		if confirmed {
			pending = append(pending, n)
		} else {
			news = true
		}
	}
	w.Metrics.set(w.pub.Name, pending, v.Never())
	w.text, w.problems = v.Text(pending), v.problems(pending)
	switch known := v.Loaded(); {
	case known == Yes:
		w.has = w.digest
	case known == Unknown && w.has != w.digest && !v.in.Doc.Current.Plan.ByAnnotation && w.text == "" && len(v.in.Published) > 0: // the file alone places nodes
		w.text = plandoc.LoadNotKnown
	}
	if v.Never() && w.never.IsNew(w.digest) {
		message := v.whyLoaded()
		w.Log.Warn("published files not loaded", "publication", w.pub.Name, "message", message)
		if w.Recorder != nil {
			w.Recorder.Record(w.pub.Place(), true, ReasonNeverLoaded, message)
		}
	}
	return news
}

// reconfigure lets Slurm be told to read its files again, because it has not loaded those of the digest.
func (w *Watch) reconfigure(digest string) {
	w.Slurm.Want("reconfigure", &client.Want{Then: func(ctx context.Context, _ *client.Answer) *client.Want {
		if err := w.Slurm.Reconfigure(ctx); err != nil {
			w.Log.Warn("Slurm does not reconfigure", "publication", w.pub.Name, "err", topology.Cut(err.Error(), topology.MaxMessage))
		} else {
			w.Log.Info("told Slurm to reconfigure, because it had not loaded the published files", "publication", w.pub.Name, "digest", digest)
		}
		return nil
	}})
}
