package rundir

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var unstamped = cmpopts.IgnoreFields(Record{}, "Head", "Written")

func TestRecordRoundTrip(t *testing.T) {
	run := t.TempDir()
	want := Record{JobID: "7", Run: Run{"s1", "100"}, BootID: "b", User: "u", UID: "1000", Partition: "p", Account: "a", QOS: "q", Cluster: "c", Node: "n",
		NodeList: "n[1-4]", NumNodes: "4", EndTime: "200", GPUs: []string{"0", "1.7"},
		UUIDs: []string{"GPU-a", "MIG-b"}, Leaving: []string{"3"}, Indices: "0-1", Visible: "GPU-a,MIG-b", Unresolved: true}
	if err := Dir(run).WriteRecord("7", want); err != nil {
		t.Fatal(err)
	}
	got, err := Dir(run).ReadRecord("7")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, *got, unstamped); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if age := time.Since(got.Written); age < 0 || age > time.Minute {
		t.Errorf("written %s ago", age)
	}
}

// TestRecordVersions reads what an older hook has left, and what a newer one will.
func TestRecordVersions(t *testing.T) {
	const head = `{"apiVersion":"quoin.dev/v1alpha1","kind":"JobRecord","jobID":"7",`
	for _, tt := range []struct{ name, text, err string }{
		{"older", head + `"startTime":"100","gpus":["0"],"mappingDir":"/map"}`, ""},
		{"newer", head + `"startTime":"100","gpus":["0"],"mappingDir":"/map","mood":{"good":true}}`, ""},
		{"another job's", strings.Replace(head, `"7"`, `"8"`, 1) + `"gpus":[]}`, `job "8"`},
		{"another kind", strings.Replace(head, "JobRecord", "Inventory", 1) + `"gpus":[]}`, `kind "Inventory"`},
		{"cut off", head, "unexpected end"},
		{"not a list", head + `"gpus":"0"}`, "cannot unmarshal"},
	} {
		r, err := readAs(t, Dir.ReadRecord, jobsFolder, []byte(tt.text))
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
		if err == nil && (r.StartTime != "100" || !cmp.Equal(r.GPUs, []string{"0"})) {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

// readAs reads a text as the document of job 7.
func readAs[T any](t *testing.T, read func(d Dir, key string) (*T, error), folder string, text []byte) (*T, error) {
	t.Helper()
	dir := Dir(t.TempDir())
	if err := errors.Join(os.Mkdir(filepath.Join(string(dir), folder), 0o755), os.WriteFile(filepath.Join(string(dir), folder, "7.json"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return read(dir, "7")
}

// TestFindRecord has jobs of one id in several clusters and slurmds.
func TestFindRecord(t *testing.T) {
	run := t.TempDir()
	write := func(key, cluster, node string) {
		t.Helper()
		if err := Dir(run).WriteRecord(key, Record{JobID: "7", Cluster: cluster, Node: node, GPUs: []string{}}); err != nil {
			t.Fatal(err)
		}
	}
	find := func(step, cluster, node, wantKey string, wantFound bool) {
		t.Helper()
		key, r, err := Dir(run).FindRecord(JobIdentity{"7", cluster, node})
		if key != wantKey || (r != nil) != wantFound || err != nil {
			t.Errorf("%s: key %q, record %v, %v; want %q, %t", step, key, r, err, wantKey, wantFound)
		}
	}
	find("none", "a", "n1", "7", false)
	write("7", "a", "n1")
	find("own", "a", "n1", "7", true)
	find("another cluster", "b", "n1", "7@b@n1", false)
	find("another slurmd of the cluster", "a", "n2", "7@a@n2", false)
	find("a Slurm that does not say its cluster", "", "n1", "7", true)
	write("7@b@n1", "b", "n1")
	find("the other's own", "b", "n1", "7@b@n1", true)
	if err := Dir(run).RemoveRecord("7"); err != nil {
		t.Fatal(err)
	}
	find("the other's own stays where it is", "b", "n1", "7@b@n1", true)
	find("the first again", "a", "n1", "7", false)
	if err := os.WriteFile(filepath.Join(run, "jobs/7.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if key, r, err := Dir(run).FindRecord(JobIdentity{"7", "a", "n1"}); key != "7" || r != nil || err == nil {
		t.Errorf("broken: %q, %v, %v", key, r, err)
	}
	for _, id := range []string{"", "../7", "7@b", "7\n"} {
		if _, _, err := Dir(run).FindRecord(JobIdentity{JobID: id}); err == nil {
			t.Errorf("job id %q was taken", id)
		}
	}
}

func TestKeyPart(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"", "n1", "a_b", "a/b", "a b", "../..", "a@b", strings.Repeat("n", 32), strings.Repeat("n", 33), strings.Repeat("n", 34), "ä", "a+b"} {
		part := keyPart(name)
		if len(part) > 32 || strings.ContainsAny(part, "/@\x00 ") {
			t.Errorf("%q gives %q", name, part)
		}
		if was, is := seen[part]; is {
			t.Errorf("%q and %q both give %q", was, name, part)
		}
		seen[part] = name
	}
}

func TestReadRecords(t *testing.T) {
	run := t.TempDir()
	if records, failed := Dir(run).ReadRecords(); len(records)+len(failed) != 0 {
		t.Errorf("a missing folder: %v, %v", records, failed)
	}
	for _, r := range []Record{{JobID: "7", Cluster: "a"}, {JobID: "7", Cluster: "b"}} {
		key, _, err := Dir(run).FindRecord(r.Identity())
		if err == nil {
			err = Dir(run).WriteRecord(key, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"8.json": "{", "9 9.json": "{}", ".new-1": "x", ".x.json": "x", "notes": "x"} {
		if err := os.WriteFile(filepath.Join(run, "jobs", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	records, failed := Dir(run).ReadRecords()
	clusters := map[string]string{}
	for key, r := range records {
		clusters[key] = r.Cluster
	}
	if diff := cmp.Diff(map[string]string{"7": "a", "7@b@": "b"}, clusters); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(failed) != 1 || failed["8"] == nil {
		t.Errorf("failed: %v", failed)
	}
	if err := Dir(run).WriteRecord("8", Record{JobID: "7"}); err == nil {
		t.Error("a key of another job was taken")
	}
	if err := Dir(run).WriteRecord("7@../x", Record{JobID: "7"}); err == nil {
		t.Error("a key with a path was taken")
	}
	file := filepath.Join(run, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, failed := Dir(file).ReadRecords(); failed[""] == nil {
		t.Errorf("a file for a run directory: %v", failed)
	}
}

// FuzzRecord checks that what is read is written as what reads the same.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"JobRecord","jobID":"7","gpus":["0"],"mappingDir":"/m","endTime":"1","contain":true}`))
	f.Add([]byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"JobRecord","jobID":"7","gpus":null,"JOBNAME":"\ud800","x":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := readAs(t, Dir.ReadRecord, jobsFolder, data)
		if err != nil {
			return
		}
		text, err := json.Marshal(once)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := readAs(t, Dir.ReadRecord, jobsFolder, text); err != nil || !cmp.Equal(once, twice, cmpopts.IgnoreFields(Record{}, "Written")) {
			t.Fatalf("%s\nread again: %v\n%s", text, err, cmp.Diff(once, twice))
		}
	})
}
