package publisher

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// What says for how long something waits: a key of the configuration, or words for a time that no site chooses.
const (
	settleTime  = "settleTime"
	removeAfter = "removeAfter"
	loadTimeout = "loadTimeout"
	confirming  = "new places are confirmed"
	spacing     = "pause between publications"
	lastHour    = "changes of the last hour"
)

// saidPause is the least time between two messages about what waits, or about what is held for one
// reason, because facts may go back and forth.
const saidPause = time.Minute

// missedPause is how long a name has to be missing before the stored plan has it, because pods come and go.
const missedPause = time.Minute

// saidWaits is what was said of what waits, and when.
type saidWaits struct {
	lines []string
	at    time.Time
}

// say says in the publication's annotations which nodes are pending as Slurm said last, and why new
// files wait. The log says what waits, nodes among it: pods come and go, and a write for each would
// cost too much. The next pass is made when the first of all waits ends.
func (l *loop) say(ctx context.Context, out outcome, known loaded.Known, files, nodes []plandoc.Wait, now time.Time) error {
	for _, w := range slices.Concat(files, nodes) {
		l.At(w.Until)
	}
	set := out.set.Clone()
	write := notePending(set, known)
	note := plandoc.NoteWaits(files, now)
	differs := out.set != nil && !plandoc.Noted(set.Annotations, note)
	lines := strings.FieldsFunc(plandoc.NoteWaits(slices.Concat(files, nodes), now), func(r rune) bool { return r == '\n' })
	fresh := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(l.said.lines, line) })
	switch next := l.said.at.Add(saidPause); {
	case !differs && len(fresh) == 0:
	case now.Before(next):
		l.At(next)
	default:
		for _, line := range fresh {
			l.log.Info("waits", "publication", l.pub.Name, "wait", line)
		}
		l.said = saidWaits{lines, now}
		if differs {
			set.Say(plandoc.AnnotationWaits, note)
			write = true
		}
	}
	if !write {
		return nil
	}
	_, err := l.archive.saveFiles(ctx, set)
	return err
}

// notePending notes in the annotations which nodes are pending as Slurm said last. It reports whether
// that differs from what they say.
func notePending(set *plandoc.Published, known loaded.Known) bool {
	if known.Unjudged || set.Annotations[plandoc.AnnotationPending] == known.Text && plandoc.Asked(set.Annotations).IsZero() == known.Asked.IsZero() {
		return false
	}
	asked := ""
	if !known.Asked.IsZero() {
		asked = known.Asked.UTC().Format(time.RFC3339)
	}
	set.Say(plandoc.AnnotationAsked, asked)
	set.Say(plandoc.AnnotationPending, known.Text)
	return true
}
