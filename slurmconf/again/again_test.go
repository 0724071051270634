package again

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPause(t *testing.T) {
	var got []time.Duration
	for failures := range 10 {
		got = append(got, Pause(failures, time.Second, time.Minute)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{1, 1, 2, 4, 8, 16, 32, 60, 60, 60}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Pause(1<<40, 10*time.Second, time.Hour); got != time.Hour {
		t.Errorf("after many failures %s, want an hour", got)
	}
}

func TestFirst(t *testing.T) {
	now := time.Now()
	if got := First(time.Time{}, now.Add(time.Minute), now, time.Time{}); got != now {
		t.Errorf("first %s, want %s", got, now)
	}
	if got := First(time.Time{}); !got.IsZero() {
		t.Errorf("first %s, want none", got)
	}
}

// TestSchedule notes changes and failures, and takes what is due.
func TestSchedule(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	var s Schedule
	touch := func(d time.Duration) { s.Touch(at(d), 10*time.Second, time.Minute) }
	want := func(what string, d time.Duration) {
		t.Helper()
		if s.Next() != at(d) {
			t.Errorf("%s: next %s after the start, want %s", what, s.Next().Sub(start), d)
		}
	}
	touch(0)
	want("a change", 10*time.Second)
	touch(9 * time.Second)
	want("another change", 19*time.Second)
	touch(55 * time.Second)
	want("changes without an end", time.Minute)
	if s.Take(at(59*time.Second)) || !s.Take(at(time.Minute)) || s.Take(at(time.Hour)) {
		t.Error("want one pass, and not before it is due")
	}
	s.Dirty = time.Time{}
	s.Fail(at(time.Minute))
	want("a failure", 65*time.Second)
	touch(61 * time.Second)
	want("a change after a failure", 71*time.Second)
	s.At(at(2 * time.Minute))
	want("something later", 71*time.Second)
}

// TestLog notes outcomes of two kinds of work.
func TestLog(t *testing.T) {
	var text strings.Builder
	l := NewLog(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	for _, outcome := range []struct{ about, err string }{
		{"a", ""}, {"a", "x"}, {"a", "x"}, {"b", "x"}, {"a", "y"}, {"a", ""}, {"a", ""}, {"a", "y"}, {"b", "x"},
	} {
		var err error
		if outcome.err != "" {
			err = errors.New(outcome.err)
		}
		l.Note(outcome.about, err)
	}
	const want = `level=WARN msg=problem about=a err=x
level=WARN msg=problem about=b err=x
level=WARN msg=problem about=a err=y
level=INFO msg="problem is solved" about=a
level=WARN msg=problem about=a err=y
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestOnceAndNotify(t *testing.T) {
	var o Once
	if !o.IsNew("a") || o.IsNew("a") || !o.IsNew("b") {
		t.Error("a text is new if it differs from the last one")
	}
	if o.Forget(); !o.IsNew("b") {
		t.Error("after Forget each text is new")
	}
	c := make(chan struct{}, 1)
	Notify(c)
	Notify(c) // does not wait
	if len(c) != 1 {
		t.Errorf("%d values, want 1", len(c))
	}
}
