package rundir

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
			for i := range tt.files { // the oldest are gone, and no others
				name := spoolName(i)
				if gone := slices.Contains(removed, strings.TrimSuffix(name, ".json")); gone != (i < tt.out) {
					t.Errorf("%s is removed: %t", name, gone)
				}
			}
		})
	}
	if removed, err := prune(summariesIn(filepath.Join(t.TempDir(), "missing"), document.Private)); removed != nil || err != nil {
		t.Errorf("a missing directory: %v, %v", removed, err)
	}
}

// TestPruneCopies prunes the site's copies of what it prunes, and no others: the
// site's directory may be of many nodes, or the run directory's own.
func TestPruneCopies(t *testing.T) {
	for _, own := range []bool{false, true} {
		run, site := t.TempDir(), spool(t, MaxSummaries+10, 1)
		if err := os.Rename(spool(t, MaxSummaries+1, 1), Dir(run).SummaryDir()); err != nil {
			t.Fatal(err)
		}
		if own {
			site = Dir(run).SummaryDir()
		}
		before, err1 := os.ReadDir(site)
		err2 := Dir(run).PruneSummaries(site)
		after, err3 := os.ReadDir(site)
		_, err4 := os.Stat(filepath.Join(site, spoolName(0)))
		if err1 != nil || err2 != nil || err3 != nil || !os.IsNotExist(err4) || len(before)-len(after) != 1+pruneEvery {
			t.Errorf("own %t: %d files, then %d: %v, %v, %v, the oldest: %v", own, len(before), len(after), err1, err2, err3, err4)
		}
	}
}
