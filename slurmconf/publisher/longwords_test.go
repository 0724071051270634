package publisher

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestLongWordsAreCut has a store fail with an error of 900 KB, and somebody with a name of
// 100 KB ask for a rollback and an approval.
func TestLongWordsAreCut(t *testing.T) {
	store := newMemory(racks(t))
	long := strings.Repeat("x", 100<<10)
	var log bytes.Buffer
	prepare := func(p *Publisher) { p.log = slog.New(slog.NewTextHandler(&log, nil)) }
	inBubbleWith(t, store, complete(t, Publication{}), prepare, func(*Publisher) {
		store.pass(time.Hour)
		store.change(racks(t, simulated.Fault{Node: "gb200-001", MoveTo: "gb200-019", Reboot: true}))
		store.pass(time.Hour)
		ask := func(key, value string) {
			p := store.get("slurm/quoin-slurm")
			store.edit(func() { p.Annotations[key], p.Annotations[plandoc.AnnotationBy] = value, long })
			store.pass(10 * time.Minute)
		}
		ask(plandoc.AnnotationRollback, "1")
		author := store.plan(t).Current.Author
		if len(author) > 256 || !strings.HasPrefix(author, "xxx") {
			t.Errorf("an author of %d bytes", len(author))
		}
		ask(plandoc.AnnotationApprove, long)
		if reason := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; len(reason) > 2<<10 || !strings.HasPrefix(reason, "RolledBack: ") {
			t.Errorf("a reason of %d bytes: %.100s", len(reason), reason)
		}

		store.edit(func() { store.broken = errors.New(strings.Repeat("y", 900<<10)) })
		store.pass(10 * time.Minute)
	})
	if !strings.Contains(log.String(), "pass failed, the published files stay") {
		t.Fatalf("no pass has failed:\n%.2000s", log.String())
	}
	for line := range strings.Lines(log.String()) {
		if len(line) > 3<<10 {
			t.Errorf("a line of %d bytes: %.200s", len(line), line)
		}
	}
}
