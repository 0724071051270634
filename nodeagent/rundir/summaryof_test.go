package rundir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadSummariesOf reads the files of some jobs alone: a broken one of another
// job is not even opened.
func TestReadSummariesOf(t *testing.T) {
	dir := t.TempDir()
	for i, key := range []string{"7", "7@hpc@n1", "77", "7-8", "17"} {
		r := Record{JobID: JobOfKey(key), Run: Run{StartTime: "100"}, Node: fmt.Sprintf("n%d", i)}
		if err := CopySummary(dir, Summary{Key: key, Record: r, Ended: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "7-99-n1.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ of, want []string }{
		{[]string{"7"}, []string{"n0", "n1", "n3"}}, // 7-8 may be 7 on a node 8-…
		{[]string{"77", "17"}, []string{"n2", "n4"}},
		{[]string{"7-8"}, []string{"n3"}},
		{[]string{"8"}, nil},
	} {
		all, err := ReadSummaries(dir, tt.of...)
		var nodes []string
		for _, s := range all {
			nodes = append(nodes, s.Record.Node)
		}
		if diff := cmp.Diff(tt.want, nodes); diff != "" || err != nil {
			t.Errorf("%v: %v (-want +got):\n%s", tt.of, err, diff)
		}
	}
	if all, err := ReadSummaries(dir); len(all) != 5 || err == nil {
		t.Errorf("%d summaries of all jobs, %v", len(all), err)
	}
}
