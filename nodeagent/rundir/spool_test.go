package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/dcgm/document"
)

// spoolName is of the i-th job to end, which has started before those that ended
// before it.
func spoolName(i int) string { return fmt.Sprintf("%d-%d-n1.json", 20000-i, i) }

// spool fills a directory with summaries of a size, written one after another.
func spool(t *testing.T, n, size int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		path := filepath.Join(dir, spoolName(i))
		if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Unix(int64(30000+i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPruneSummaries(t *testing.T) {
	for _, tt := range []struct {
		name             string
		files, size, out int
	}{
		{"few", 20, 60 << 10, 0},
		{"at the bound", MaxSummaries, 10, 0},
		{"too many", MaxSummaries + 1, 10, 1 + pruneEvery},
		{"too large", 208, 64 << 10, 208 - 112},
		{"too large, between two looks", 209, 64 << 10, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := spool(t, tt.files, tt.size)
			for _, name := range []string{".new-1", "notes.txt"} {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			removed, err := prune(summariesIn(dir, document.Private))
			if err != nil || len(removed) != tt.out {
				t.Fatalf("%d removed, %v; want %d", len(removed), err, tt.out)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) != tt.files-tt.out+2 {
				t.Errorf("%d left, %v", len(left), err)
			}
			for i := range tt.out {
				if want := strings.TrimSuffix(spoolName(i), ".json"); removed[i] != want {
					t.Errorf("removed %s as number %d, want %s", removed[i], i, want)
				}
			}
		})
	}
	if removed, err := prune(summariesIn(filepath.Join(t.TempDir(), "missing"), document.Private)); removed != nil || err != nil {
		t.Errorf("a missing directory: %v, %v", removed, err)
	}
}

// TestCopySummaries copies what waits, and prunes the site's copies of what is pruned here and no
// others: the site's directory may be of many nodes, or the run directory's own.
func TestCopySummaries(t *testing.T) {
	for _, own := range []bool{false, true} {
		run, site := Dir(t.TempDir()), spool(t, MaxSummaries+10, 1)
		if err := os.Rename(spool(t, MaxSummaries, 1), run.SummaryDir()); err != nil {
			t.Fatal(err)
		}
		if own {
			site = run.SummaryDir()
		}
		s := Summary{Key: "7", Record: Record{JobID: "7", Node: "n1", Run: Run{StartTime: "30000"}}}
		if err := errors.Join(WriteSummary(run, s), QueueCopy(run, s)); err != nil {
			t.Fatal(err)
		}
		pruned, err := run.PruneSummaries()
		err = errors.Join(err, run.CopySummaries(site, pruned))
		_, err1 := os.Stat(filepath.Join(site, spoolName(len(pruned)-1)))
		_, err2 := os.Stat(filepath.Join(site, spoolName(len(pruned))))
		_, err3 := os.Stat(filepath.Join(site, s.fileKey()+".json"))
		waiting, err4 := run.uncopied().Keys()
		if len(pruned) != 1+pruneEvery || len(waiting) > 0 || !os.IsNotExist(err1) || errors.Join(err, err2, err3, err4) != nil {
			t.Errorf("own %t: %d are pruned, %v wait; %v; of the site's: the last pruned %v, the next %v, the new one %v; %v", own, len(pruned), waiting, err, err1, err2, err3, err4)
		}
	}
}
