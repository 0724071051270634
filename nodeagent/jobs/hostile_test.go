package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRecordNamesNoDirectory has records that name a mapping directory of their own, as a
// container with slurmd may write them. The agent writes in the configured one alone.
func TestRecordNamesNoDirectory(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0)
	victim := t.TempDir()
	r.must(os.WriteFile(filepath.Join(victim, "0"), []byte("17\n18\nroot:x:0:0\n"), 0o600))
	ids := make([]string, 100_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("%q", fmt.Sprint(i))
	}
	for job, gpus := range map[string]string{"18": strings.Join(ids, ","), "19": `"0","1"`} {
		text := fmt.Sprintf(`{"apiVersion":%q,"kind":"JobRecord","jobID":%q,"bootID":%q,"gpus":[%s],"mappingDir":%q}`, topology.APIVersion, job, r.boot, gpus, victim)
		for _, folder := range []string{"jobs", "release"} {
			r.must(os.MkdirAll(filepath.Join(r.run, folder), 0o750))
			r.must(os.WriteFile(filepath.Join(r.run, folder, job+".json"), []byte(text), 0o600))
		}
	}
	r.after(time.Hour)
	entries, err := os.ReadDir(victim)
	r.must(err)
	text, err := os.ReadFile(filepath.Join(victim, "0"))
	r.must(err)
	if len(entries) != 1 || string(text) != "17\n18\nroot:x:0:0\n" {
		t.Errorf("the other directory has %v, its file %q", entries, text)
	}
	if entries, err := os.ReadDir(r.maps); err != nil || len(entries) > 4 {
		t.Errorf("the mapping has %d files, %v", len(entries), err)
	}
}

// TestMappingHasBound has many records of as many devices as a record may have: together they
// make no more files than a node can have devices.
func TestMappingHasBound(t *testing.T) {
	r := newJobsRig(t)
	r.must(os.Remove(filepath.Join(r.run, rundir.InventoryFile)))
	for k := range 3 {
		rec := r.record(fmt.Sprint(20 + k))
		for i := range rundir.MaxDevices {
			rec.GPUs = append(rec.GPUs, fmt.Sprint(k*rundir.MaxDevices/2+i))
		}
		r.write(rec.JobID, rec)
	}
	r.after(time.Minute)
	files, err := filepath.Glob(filepath.Join(r.maps, "[0-9]*"))
	if err != nil || len(files) != rundir.MaxDevices {
		t.Errorf("%d files, %v; want %d", len(files), err, rundir.MaxDevices)
	}
}

// TestFolderThatIsALink leaves alone what a link in the place of a folder leads to, and says so.
func TestFolderThatIsALink(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0)
	victim := t.TempDir()
	for _, name := range []string{"8.json", "17.json"} {
		r.must(os.WriteFile(filepath.Join(victim, name), []byte("{}"), 0o644)) //nolint:gosec // its mode is to stay
	}
	for _, folder := range []string{"jobs", "use", "summaries", "release"} {
		r.must(os.RemoveAll(filepath.Join(r.run, folder)))
		r.must(os.Symlink(victim, filepath.Join(r.run, folder)))
	}
	r.after(10 * time.Minute)
	r.j.count(topology.Sample{}, r.now)
	for _, name := range []string{"8.json", "17.json"} {
		if info, err := os.Stat(filepath.Join(victim, name)); err != nil || info.Mode() != 0o644 || info.Size() != 2 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if said := r.log.String(); !strings.Contains(said, `about="rights on files of jobs"`) || !strings.Contains(said, "is no folder") {
		t.Errorf("said %s", said)
	}
}

// TestLeftByKilledWriters removes what hooks and agents that were killed were writing. A young file
// may be of a hook that writes now.
func TestLeftByKilledWriters(t *testing.T) {
	r := newJobsRig(t)
	old := time.Now().Add(-time.Hour)
	var left, young []string
	for _, folder := range []string{r.run, filepath.Join(r.maps, ".quoin"), filepath.Join(r.run, "jobs"), filepath.Join(r.run, "use"),
		filepath.Join(r.run, "ended"), filepath.Join(r.run, "marks"), filepath.Join(r.run, "summaries")} {
		r.must(os.MkdirAll(folder, 0o750))
		left, young = append(left, filepath.Join(folder, ".new-1")), append(young, filepath.Join(folder, ".new-2"))
	}
	for _, path := range append(left, young...) {
		r.must(os.WriteFile(path, nil, 0o600))
	}
	for _, path := range left {
		r.must(os.Chtimes(path, old, old))
	}
	r.after(10 * time.Second)
	for _, path := range left {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range young {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestStateIsForRoot closes the agent's state, which says what runs on the node.
func TestStateIsForRoot(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0)
	if info, err := os.Stat(filepath.Join(r.run, "agent.json")); err != nil || info.Mode() != 0o600 {
		t.Errorf("state: %v, %v", info, err)
	}
}
