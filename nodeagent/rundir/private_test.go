package rundir

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRestrict closes what an earlier release left open, and gives it and new files to the
// group of the site.
func TestRestrict(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give files to a group")
	}
	for name, first := range map[string]func(Dir) error{
		"a record": func(d Dir) error { return d.WriteRecord("7", Record{JobID: "7"}) },
		"an agent": func(d Dir) error { return Restrict(d, 4711) },
	} {
		d := Dir(filepath.Join(t.TempDir(), "run"))
		if err := first(d); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(string(d)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("a run directory that %s has made: %v, %v; want that the group can enter it", name, info.Mode(), err)
		}
	}
	d := Dir(t.TempDir())
	record := Record{JobID: "7", Run: Run{StartTime: "100"}, GPUs: []string{}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(string(d), "jobs"), 0o755))
	must(os.WriteFile(filepath.Join(string(d), "jobs/6.json"), nil, 0o644)) //nolint:gosec // as an earlier release did
	must(os.Chmod(filepath.Join(string(d), "jobs"), 0o755))
	want := func(step string, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		must(filepath.WalkDir(string(d), func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == string(d) {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			name, err := filepath.Rel(string(d), path)
			if got[name] = info.Mode().String(); info.Sys().(*syscall.Stat_t).Gid == 4711 { //nolint:forcetypeassert // Linux
				got[name] += " of the group"
			}
			return err
		}))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	must(Restrict(d, 0))
	want("root only", map[string]string{"ended": "drwxr-x---", "jobs": "drwxr-x---", "jobs/6.json": "-rw-r-----", "marks": "drwxr-x---", "summaries": "drwxr-x---", "uncopied": "drwxr-x---", "use": "drwxr-x---"})
	must(Restrict(d, 4711))
	must(d.WriteRecord("7", record))
	must(d.Uses().Write("7", NewUse("7", Run{}, time.Now())))
	must(WriteSummary(d, Summary{Key: "7", Record: record}))
	must(d.End(MarkOf(JobIdentity{JobID: "7"}, Run{}, time.Now(), "")))
	closed := map[string]string{}
	for _, folder := range []string{"ended", "jobs", "marks", "summaries", "uncopied", "use"} {
		closed[folder] = "dgrwxr-x--- of the group"
	}
	for _, file := range []string{"jobs/6.json", "jobs/7.json", "marks/0-7@@-.json", "summaries/100-7-.json", "use/7.json"} {
		closed[file] = "-rw-r----- of the group"
	}
	want("a group", closed)
	must(d.WriteRecord("7", Record{JobID: "7", GPUs: []string{"0"}}))
	must(Restrict(d, 4711))
	want("again", closed)
	must(os.RemoveAll(filepath.Join(string(d), "jobs")))
	must(d.WriteRecord("7", record))
	must(Restrict(d, 4711))
	delete(closed, "jobs/6.json")
	want("the folder was replaced", closed)
}
