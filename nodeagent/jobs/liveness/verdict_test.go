package liveness

import (
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	const hour = time.Hour
	gone := facts{shows: true, contained: true, missing: grace, past: -hour}
	late := facts{shows: true, past: overdueAfter, missing: grace}
	with := func(f facts, change func(*facts)) facts { change(&f); return f }
	tests := []struct {
		name  string
		facts facts
		want  Verdict
	}{
		{"nothing is known", facts{past: -hour}, Verdict{}},
		{"of another boot", with(gone, func(f *facts) { f.otherBoot, f.seen = true, true }), Verdict{Dead: Boot}},
		{"its Epilog has begun", facts{epilog: true, seen: true, past: -hour}, Verdict{Dead: Ended}},
		{"a step lives", facts{seen: true, past: -hour}, Verdict{Proven: true}},
		{"a step lives past the end", with(late, func(f *facts) { f.seen = true }), Verdict{Proven: true}},

		{"its steps are gone", gone, Verdict{Dead: Ended}},
		{"gone for less than the grace", with(gone, func(f *facts) { f.missing = grace - 1 }), Verdict{}},
		{"gone, and no process is seen", with(gone, func(f *facts) { f.shows = false }), Verdict{}},
		{"never seen, and none would be", facts{missing: grace, noProlog: true, past: hour}, Verdict{}},

		{"never seen and overdue", late, Verdict{Dead: Overdue}},
		{"overdue, and missing for less than the grace", with(late, func(f *facts) { f.missing = grace - 1 }), Verdict{}},
		{"overdue by less", with(late, func(f *facts) { f.past = overdueAfter - 1 }), Verdict{}},
		{"overdue, none would be seen", with(late, func(f *facts) { f.shows = false }), Verdict{}},
		{"overdue, the step went just now", with(late, func(f *facts) { f.contained, f.missing = true, 0 }), Verdict{}},
		{"its Prolog may run", with(late, func(f *facts) { f.past, f.missing = -hour, longestProlog-1 }), Verdict{}},
		{"its Prolog does not run", with(late, func(f *facts) { f.past, f.noProlog = -hour, true }), Verdict{Hidden: true}},
		{"its Prolog cannot run as long", with(late, func(f *facts) { f.past, f.missing = -hour, longestProlog }), Verdict{Hidden: true}},
		{"not seen for very long", with(late, func(f *facts) { f.past, f.missing = -hour, buriedAfter }), Verdict{Dead: Ended}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := judge(tt.facts); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestJudgeNeverReleasesWhatIsSeen tries every combination. A job that is seen in this boot
// and before its Epilog is never released. A job is not released either if no step of it would be seen.
func TestJudgeNeverReleasesWhatIsSeen(t *testing.T) {
	n := 0
	for bits := range 1 << 4 {
		is := func(bit int) bool { return bits>>bit&1 == 1 }
		for _, past := range []time.Duration{-time.Hour, 0, overdueAfter, 1000 * time.Hour} {
			for _, missing := range []time.Duration{0, grace, 1000 * time.Hour} {
				f := facts{seen: is(0), shows: is(1), contained: is(2), noProlog: is(3), past: past, missing: missing}
				v := judge(f)
				if n++; (v.Dead != "" || v.Hidden) && (f.seen || !f.shows) {
					t.Fatalf("%+v: %+v", f, v)
				}
				if v.Proven != f.seen {
					t.Fatalf("%+v: proven %v", f, v.Proven)
				}
			}
		}
	}
	if n != 1<<4*4*3 {
		t.Errorf("%d combinations tried", n)
	}
}

// TestAbsence is late after the grace, if at least two looks have found it so.
func TestAbsence(t *testing.T) {
	var a Absence
	for _, look := range []struct {
		at    time.Duration
		lasts time.Duration
		late  bool
	}{{5 * time.Second, 0, false}, {15 * time.Second, 10 * time.Second, false}, {25 * time.Second, 20 * time.Second, true}} {
		a.Look(look.at)
		if a.lasts(look.at) != look.lasts || a.Late(look.at) != look.late {
			t.Errorf("%+v: missing for %s, late %t", look, a.lasts(look.at), a.Late(look.at))
		}
	}
	once := Absence{Looks: 1}
	if once.Late(time.Hour) {
		t.Error("one look is enough")
	}
	if a != (Absence{5 * time.Second, minLooks}) {
		t.Errorf("%+v: the count does not stop", a)
	}
}
