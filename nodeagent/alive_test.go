package nodeagent

import (
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	const hour = time.Hour
	gone := lifeFacts{readable: true, contained: true, missing: grace, looks: minLooks, contain: true, past: -hour}
	late := lifeFacts{readable: true, contain: true, past: overdueAfter, missing: grace, looks: minLooks}
	with := func(f lifeFacts, change func(*lifeFacts)) lifeFacts { change(&f); return f }
	tests := []struct {
		name  string
		facts lifeFacts
		want  verdict
	}{
		{"nothing is known", lifeFacts{past: -hour}, verdict{}},
		{"of another boot", with(gone, func(f *lifeFacts) { f.otherBoot, f.seen = true, true }), verdict{dead: releasedBoot}},
		{"its Epilog has begun", lifeFacts{epilog: true, seen: true, past: -hour}, verdict{dead: releasedEnded}},
		{"a step lives", lifeFacts{readable: true, seen: true, past: -hour}, verdict{proven: true}},
		{"a step lives past the end", with(late, func(f *lifeFacts) { f.seen = true }), verdict{proven: true}},
		{"a step lives, the lasting one is gone", with(gone, func(f *lifeFacts) { f.seen = true }), verdict{proven: true}},

		{"the lasting step is gone", gone, verdict{dead: releasedEnded}},
		{"gone for less than the grace", with(gone, func(f *lifeFacts) { f.missing = grace - 1 }), verdict{}},
		{"gone in one look only", with(gone, func(f *lifeFacts) { f.looks = minLooks - 1 }), verdict{}},
		{"something is left of it", with(gone, func(f *lifeFacts) { f.remains = true }), verdict{}},
		{"gone, batch step without Contain", with(gone, func(f *lifeFacts) { f.contain = false }), verdict{dead: releasedEnded}},
		{"missing and never there", with(gone, func(f *lifeFacts) { f.contained = false }), verdict{}},

		{"never seen and overdue", late, verdict{dead: releasedOverdue}},
		{"overdue, and missing for less than the grace", with(late, func(f *lifeFacts) { f.missing = grace - 1 }), verdict{}},
		{"overdue, and missing in one look", with(late, func(f *lifeFacts) { f.looks = minLooks - 1 }), verdict{}},
		{"its Prolog may run", with(late, func(f *lifeFacts) { f.past, f.missing = -hour, longestProlog-1 }), verdict{}},
		{"its Prolog does not run", with(late, func(f *lifeFacts) { f.past, f.noProlog = -hour, true }), verdict{hidden: true}},
		{"its Prolog does not run, something is left", with(late, func(f *lifeFacts) { f.past, f.noProlog, f.remains = -hour, true, true }), verdict{}},
		{"its Prolog cannot run as long", with(late, func(f *lifeFacts) { f.past, f.missing = -hour, longestProlog }), verdict{hidden: true}},
		{"not seen for long, where that is not sure", with(late, func(f *lifeFacts) { f.past, f.missing, f.looks, f.contain, f.noProlog = -hour, hour/2, 9, false, true }), verdict{}},
		{"not seen for very long", with(late, func(f *lifeFacts) { f.past, f.missing, f.looks = -hour, buriedAfter, 9 }), verdict{dead: releasedEnded}},
		{"overdue by less", with(late, func(f *lifeFacts) { f.past = overdueAfter - 1 }), verdict{}},
		{"overdue, something is left", with(late, func(f *lifeFacts) { f.remains = true }), verdict{}},
		{"overdue, no external steps here", with(late, func(f *lifeFacts) { f.contain = false }), verdict{}},
		{"overdue, no source can be read", with(late, func(f *lifeFacts) { f.readable = false }), verdict{}},
		{"overdue, the step went just now", with(late, func(f *lifeFacts) { f.contained, f.looks = true, 1 }), verdict{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := judge(tt.facts); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestJudgeNeverReleasesWhatIsSeen tries every combination: a job that is seen,
// in this boot and before its Epilog, is never released, nor one of which no
// source can say anything.
func TestJudgeNeverReleasesWhatIsSeen(t *testing.T) {
	n := 0
	for bits := range 1 << 7 {
		is := func(bit int) bool { return bits>>bit&1 == 1 }
		for _, past := range []time.Duration{-time.Hour, 0, overdueAfter, 1000 * time.Hour} {
			for _, missing := range []time.Duration{0, grace, 1000 * time.Hour} {
				for looks := range minLooks + 2 {
					f := lifeFacts{seen: is(0), remains: is(1), readable: is(2), contained: is(3), contain: is(4), noProlog: is(5), past: past, missing: missing, looks: looks}
					v := judge(f)
					if n++; (v.dead != "" || v.hidden) && (f.seen || f.remains || !f.contained && !f.readable) {
						t.Fatalf("%+v: %+v", f, v)
					}
					if v.proven != f.seen {
						t.Fatalf("%+v: proven %v", f, v.proven)
					}
				}
			}
		}
	}
	if n < 3000 {
		t.Errorf("%d combinations tried", n)
	}
}
