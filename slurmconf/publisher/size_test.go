package publisher

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// TestLimitSize makes files of 72 nodes for stores that take more, as much, and less.
func TestLimitSize(t *testing.T) {
	others := &plandoc.Published{Files: map[string]string{"topology.yaml": "old", "prolog.sh": "12345"}}
	for _, tt := range []struct {
		name    string
		old     *plandoc.Published
		limit   func(size int) int
		refused bool
	}{
		{"no limit", nil, func(int) int { return 0 }, false},
		{"all fits", nil, func(size int) int { return size }, false},
		{"a byte less", nil, func(size int) int { return size - 1 }, true},
		{"another file of the store", others, func(size int) int { return size + 4 }, true},
		{"room for another file", others, func(size int) int { return size + 5 }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pub := complete(t, Publication{})[0]
			made := makeFiles(t, pub, pub.Rules.Gather(racks(t)), Previous{})
			l := &loop{outlets: outlets{options: Options{MaxBytes: tt.limit(sizeOf(made.Files))}}}
			made.limitSize(pub, l.room(&stored{set: tt.old}))
			if (made.Refused == "TooLarge") != tt.refused || tt.refused != strings.HasPrefix(made.Message, "the files have ") {
				t.Errorf("refused %q: %s", made.Refused, made.Message)
			}
		})
	}
}

// TestTooLargeIsHeld adds a rack that is too large for the store.
func TestTooLargeIsHeld(t *testing.T) {
	pubs := complete(t, Publication{})
	store := newMemory(racksWithout(t, 18))
	made := makeOf(t, pubs[0], pubs[0].Rules.Gather(store.snap), Previous{})
	inBubbleWith(t, store, pubs, func(p *Publisher) { p.options.MaxBytes = sizeOf(made.Files) }, func(*Publisher) {
		store.pass(10 * time.Minute)
		before := maps.Clone(store.get("slurm/quoin-slurm").Files)
		store.change(racks(t))
		store.pass(10 * time.Minute)
		got := store.get("slurm/quoin-slurm")
		if reason := got.Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(reason, "TooLarge: the files have ") {
			t.Errorf("held: %q", reason)
		}
		if diff := cmp.Diff(before, got.Files); diff != "" || len(before) == 0 {
			t.Errorf("files (-before +after):\n%s", diff)
		}
	})
}
