package plandoc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
)

// Wait is what waits for a time.
type Wait struct {
	// Key says for how long: a key of the configuration such as settleTime, or words.
	Key string
	// For says what waits.
	For string
	// Until is when the first of it ends. It is zero if nothing waits.
	Until time.Time
}

// Add lets one more wait.
func (w *Wait) Add(until time.Time) { w.Until = again.First(w.Until, until) }

// Text says for people what waits, and when it ends.
func (w *Wait) Text(now time.Time) string {
	in := w.Until.Sub(now)
	left := fmt.Sprintf("in %d s", int(in.Seconds()))
	switch {
	case in >= 2*time.Hour:
		left = fmt.Sprintf("in %d h", int(in.Hours()))
	case in >= 2*time.Minute:
		left = fmt.Sprintf("in %d min", int(in.Minutes()))
	}
	return fmt.Sprintf("%s, until %s (%s): %s", w.Key, w.Until.UTC().Format("2006-01-02 15:04:05Z"), left, w.For)
}

const (
	// shortWait is the longest time for which a wait is not noted.
	shortWait = 30 * time.Second
	// untilWord stands between key and time in a line of AnnotationWaits.
	untilWord = ", until "
)

// NoteWaits returns the text of AnnotationWaits: a line for each wait that is not short or
// nearly over, the first to end first. The text changes only if something else waits.
func NoteWaits(waits []Wait, now time.Time) string {
	waits = slices.DeleteFunc(slices.Clone(waits), func(w Wait) bool { return w.Until.Truncate(time.Second).Sub(now) < shortWait })
	slices.SortFunc(waits, func(a, b Wait) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Key, b.Key), cmp.Compare(a.For, b.For))
	})
	lines := make([]string, len(waits))
	for i := range waits {
		w := &waits[i]
		lines[i] = w.Key + untilWord + w.Until.UTC().Format(time.RFC3339) + ": " + w.For
	}
	return strings.Join(lines, "\n")
}

// Noted reports whether the annotations say all that the text of AnnotationWaits says. What they
// say besides is over, or goes with the next write.
func Noted(annotations map[string]string, note string) bool {
	noted := strings.Split(annotations[AnnotationWaits], "\n")
	return note == "" || !slices.ContainsFunc(strings.Split(note, "\n"), func(line string) bool { return !slices.Contains(noted, line) })
}

// Waits returns what the annotations say waits now. A line that cannot be read is left out.
func Waits(annotations map[string]string, now time.Time) (waits []Wait) {
	for line := range strings.Lines(annotations[AnnotationWaits]) {
		key, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), untilWord)
		at, what, _ := strings.Cut(rest, ": ")
		if until, err := time.Parse(time.RFC3339, at); err == nil && until.After(now) {
			waits = append(waits, Wait{Key: key, For: what, Until: until})
		}
	}
	return waits
}
