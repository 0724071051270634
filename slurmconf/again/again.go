// Package again says when work is done again: the next pass of a loop, the pause between
// failed tries, how a problem is logged once, and one wake-up for many changes. It has no clock, and
// imports the standard library alone.
package again

import "time"

// Timer holds the time of the next pass. The zero Timer waits for nothing.
type Timer struct{ next time.Time }

// At makes the next pass happen at that time at the latest. A zero time is ignored.
func (t *Timer) At(at time.Time) {
	if !at.IsZero() && (t.next.IsZero() || at.Before(t.next)) {
		t.next = at
	}
}

// Move sets the time of the next pass, even to a later one.
func (t *Timer) Move(at time.Time) { t.next = at }

// Next is the time of the next pass, or zero if nothing waits.
func (t *Timer) Next() time.Time { return t.next }

// Take reports whether the pass is due, and clears the time if it is.
func (t *Timer) Take(now time.Time) bool {
	if t.next.IsZero() || t.next.After(now) {
		return false
	}
	t.next = time.Time{}
	return true
}

// First returns the first of the times. Times that are zero do not count.
func First(times ...time.Time) time.Time {
	var t Timer
	for _, at := range times {
		t.At(at)
	}
	return t.Next()
}

// Schedule says when the next pass is made after changes of facts, and after failures.
type Schedule struct {
	Timer
	// Dirty is when the first change since the last pass came, and Touched when the last one
	// came.
	Dirty, Touched time.Time
	// Failures are those in a row, and Failed is the last error.
	Failures int
	Failed   Once
}

// Touch notes a change. The next pass is made when facts were quiet for settle, and longest
// after the first change at the latest.
func (s *Schedule) Touch(now time.Time, settle, longest time.Duration) {
	s.Touched = now
	if s.Dirty.IsZero() {
		s.Dirty = now
	}
	due := now.Add(settle)
	if latest := s.Dirty.Add(longest); due.After(latest) {
		due = latest
	}
	if s.Failures == 0 || due.After(s.Next()) {
		s.Move(due)
	}
}

// The pauses between the tries of a pass that fails.
const (
	firstPause = 5 * time.Second
	lastPause  = time.Minute
)

// Fail notes that a pass failed. The next one is made after a pause.
func (s *Schedule) Fail(now time.Time) {
	s.Failures++
	s.Move(now.Add(Pause(s.Failures, firstPause, lastPause)))
}

// Pause is the time before the next try after so many failed ones. It doubles from first
// up to last.
func Pause(failed int, first, last time.Duration) time.Duration {
	return min(first<<min(max(failed-1, 0), 16), last)
}

// Once remembers the last text, so that one trouble is logged once.
type Once struct{ last string }

// IsNew reports whether the text differs from the last one.
func (o *Once) IsNew(text string) bool {
	if o.last == text {
		return false
	}
	o.last = text
	return true
}

// Forget lets the next text be new.
func (o *Once) Forget() { o.last = "" }

// Notify leaves one value in a channel of capacity 1: the loop that reads it works again.
func Notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
