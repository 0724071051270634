package plandoc

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNoteWaits(t *testing.T) {
	at := func(d time.Duration) time.Time { return noon.Add(d + 300*time.Millisecond) }
	waits := []Wait{{"pause between publications", "b", at(3 * time.Minute)}, {"changes of the last hour", "a", at(time.Minute)}, {"new places are confirmed", "short", at(10 * time.Second)}, {Key: "removeAfter", For: "nothing"}}
	const want = "changes of the last hour, until 2026-03-01T12:01:00Z: a\npause between publications, until 2026-03-01T12:03:00Z: b"
	note := NoteWaits(waits, noon)
	if note != want {
		t.Errorf("note %q, want %q", note, want)
	}
	said := map[string]string{AnnotationWaits: note}
	if diff := cmp.Diff([]Wait{{"changes of the last hour", "a", noon.Add(time.Minute)}, {"pause between publications", "b", noon.Add(3 * time.Minute)}}, Waits(said, noon)); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	for name, tt := range map[string]struct {
		waits []Wait
		now   time.Duration
		noted bool
	}{
		"the same":          {waits, 0, true},
		"one is over":       {waits, 2 * time.Minute, true},
		"one waits no more": {waits[:1], 0, true},
		"none waits":        {nil, 0, true},
		"another waits":     {append(waits[:2:2], Wait{"settleTime", "c", at(time.Minute)}), 0, false},
		"one waits longer":  {[]Wait{{"changes of the last hour", "a", at(2 * time.Minute)}}, 0, false},
	} {
		if note := NoteWaits(tt.waits, noon.Add(tt.now)); Noted(said, note) != tt.noted {
			t.Errorf("%s: %q is noted: %v", name, note, !tt.noted)
		}
	}
}
