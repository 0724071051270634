package rundir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/document"
	"github.com/quoin-hpc/quoin/topology"
)

// TestHostileRecords refuses records that would have root write where no device is, or keep
// more than a job can have. Each costs its own job only, and its error is short.
func TestHostileRecords(t *testing.T) {
	many := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	for name, tt := range map[string]struct{ key, rest string }{
		"a path as an exporter's id":   {"7", `"gpus": ["../../etc/passwd"]`},
		"a slash in an exporter's id":  {"7", `"gpus": ["0/1"]`},
		"a number that is too long":    {"7", `"gpus": ["1234567890"]`},
		"no exporter's id":             {"7", `"gpus": [""]`},
		"a path that is to be left":    {"7", `"gpus": [], "leaving": ["../0"]`},
		"more devices than a node has": {"7", `"gpus": [` + many(MaxDevices+1, `"0"`) + `]`},
		"more devices to be left":      {"7", `"gpus": [], "leaving": [` + many(MaxDevices+1, `"0"`) + `]`},
		"more UUIDs":                   {"7", `"gpus": [], "uuids": [` + many(MaxDevices+1, `"GPU-a"`) + `]`},
		"more device files":            {"7", `"gpus": [], "devices": [` + many(MaxDevices+1, `"/dev/nvidia0"`) + `]`},
		"a long device file":           {"7", `"gpus": [], "devices": ["` + strings.Repeat("x", topology.MaxText+1) + `"]`},
		"more warnings":                {"7", `"gpus": [], "warnings": [` + many(MaxWarnings+1, `"x"`) + `]`},
		"a UUID with a line break":     {"7", `"gpus": [], "uuids": ["GPU-a\nb"]`},
		"a long text":                  {"7", `"gpus": [], "user": "` + strings.Repeat("x", topology.MaxText+1) + `"`},
		"a long list":                  {"7", `"gpus": [], "nodeList": "` + strings.Repeat("x", 16<<10+1) + `"`},
		"a long run":                   {"7", `"gpus": [], "sluid": "` + strings.Repeat("x", 130<<10) + `"`},
		"a large file":                 {"7", `"gpus": [], "more": "` + strings.Repeat("x", 1<<20) + `"`},
		"another job's key":            {"8", `"gpus": []`},
		"a path as the job's id":       {"7", `"gpus": [], "jobID": "../../` + strings.Repeat("x", 130<<10) + `"`},
		"another kind":                 {"7", `"gpus": [], "kind": "` + strings.Repeat("x", 130<<10) + `"`},
		"a key that leads out":         {"..", `"gpus": [], "jobID": ".."`},
	} {
		t.Run(name, func(t *testing.T) {
			d := Dir(t.TempDir())
			if err := d.WriteRecord("9", Record{JobID: "9", GPUs: []string{"0"}}); err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "jobID": "7", %s}`, topology.APIVersion, recordKind, tt.rest)
			if err := os.WriteFile(filepath.Join(string(d), jobsFolder, tt.key+".json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := d.ReadRecord(tt.key)
			if err == nil || r != nil || len(err.Error()) > 600 {
				t.Errorf("record %+v, error of %d bytes: %.600v", r, len(fmt.Sprint(err)), err)
			}
			if records, _ := d.ReadRecords(); len(records) != 1 || records["9"].JobID != "9" {
				t.Errorf("records %v, want the other job's", records)
			}
		})
	}
}

// TestRecordLeavesOut writes the record of a job of which Slurm says more than a record
// keeps: the labels do not depend on it.
func TestRecordLeavesOut(t *testing.T) {
	d := Dir(t.TempDir())
	long := strings.Repeat("x", 130<<10)
	uuids := []string{"GPU-a", "GPU-" + long, "GPU-b"}
	if err := d.WriteRecord("7", Record{JobID: "7", Run: Run{StartTime: "100", SLUID: long}, User: "u", Account: long, QOS: long, NodeList: long, Indices: long, Devices: []string{"/dev/nvidia0", long}, GPUs: []string{"0", "1"}, UUIDs: uuids}); err != nil {
		t.Fatal(err)
	}
	r, err := d.ReadRecord("7")
	if err != nil {
		t.Fatal(err)
	}
	r.Written = time.Time{}
	want := &Record{Head: document.HeadOf(recordKind), JobID: "7", Run: Run{StartTime: "100"}, User: "u", GPUs: []string{"0", "1"}, UUIDs: []string{"GPU-a", "GPU-b"}}
	if diff := cmp.Diff(want, r); diff != "" || len(uuids[1]) < len(long) {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFoldersThatAreLinks does everything to a run directory whose folders lead to somebody
// else's: nothing there is written, removed or given other rights.
func TestFoldersThatAreLinks(t *testing.T) {
	d, victim := Dir(t.TempDir()), t.TempDir()
	old := time.Now().Add(-time.Hour)
	for i := range MaxSummaries + pruneEvery {
		path := filepath.Join(victim, fmt.Sprintf("%d-7-n1.json", i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"7.json", ".new-1"} {
		path := filepath.Join(victim, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{jobsFolder, useFolder, summaryFolder, endedFolder, markFolder, copyFolder} {
		if err := os.Symlink(victim, filepath.Join(string(d), name)); err != nil {
			t.Fatal(err)
		}
	}
	before := listing(t, victim)
	record := Record{JobID: "7", Run: Run{StartTime: "100"}, GPUs: []string{"0"}}
	mark := MarkOf(JobIdentity{JobID: "7"}, Run{}, time.Now(), "")
	_, pruned := d.PruneSummaries()
	for name, err := range map[string]error{
		"rights":        Restrict(d, 4711),
		"record":        d.WriteRecord("7", record),
		"record again":  d.RewriteRecord("7", record),
		"record's end":  d.RemoveRecord("7"),
		"use":           d.Uses().Write("7", NewUse("7", Run{}, time.Now())),
		"use's end":     d.Uses().Remove("7"),
		"mark":          d.End(mark),
		"mark's end":    d.RemoveEnding(mark),
		"summary":       WriteSummary(d, Summary{Key: "7", Record: record}),
		"copy":          QueueCopy(d, Summary{Key: "7", Record: record}),
		"old summaries": pruned,
		"old endings":   d.PruneEndings(),
	} {
		if err == nil || !strings.Contains(err.Error(), "is no folder") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	d.Tidy()
	if diff := cmp.Diff(before, listing(t, victim)); diff != "" {
		t.Errorf("the other folder (-before +after):\n%s", diff)
	}
}

// TestFolderThatIsALink keeps no inventory where a link leads.
func TestFolderThatIsALink(t *testing.T) {
	m, victim := dcgm.Mapping{Dir: t.TempDir()}, t.TempDir()
	if err := os.Symlink(victim, string(m.Folder())); err != nil {
		t.Fatal(err)
	}
	if err := KeepInventory(m.Folder(), Inventory{Node: "n1"}); err == nil || !strings.Contains(err.Error(), "is no folder") {
		t.Errorf("error %v", err)
	}
	if got := listing(t, victim); len(got) > 0 {
		t.Errorf("written: %v", got)
	}
}

// TestFilesThatAreLinks logs no call, and takes no lock, in a file of somebody else.
func TestFilesThatAreLinks(t *testing.T) {
	d, victim := Dir(t.TempDir()), filepath.Join(t.TempDir(), "file")
	for _, name := range []string{callsFile, lockFile} {
		if err := os.Symlink(victim, filepath.Join(string(d), name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.AppendCall(Call{Hook: "prolog"}); err == nil {
		t.Error("a call was logged")
	}
	if unlock, err := d.Lock(t.Context(), time.Second); err == nil {
		unlock()
		t.Error("a link was locked")
	}
	if _, err := os.Stat(victim); err == nil {
		t.Error("the file was made")
	}
}

// listing is what a folder holds, with modes.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if path != dir {
			out[e.Name()] = fmt.Sprint(info.Mode(), info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
