package rundir

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestSummaryRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	if all, err := ReadSummaries(dir); all != nil || err != nil {
		t.Errorf("a missing directory: %v, %v", all, err)
	}
	joules := 12.5
	want := []Summary{
		{Key: "8", Record: Record{JobID: "8", Run: Run{StartTime: "100"}, Node: "n1", GPUs: []string{"0"}}, Ended: 300, ExitCode: "1:0"},
		{Key: "7@b@n1", Record: Record{JobID: "7", Run: Run{StartTime: "200"}, Cluster: "b", Node: "n1"}, Ended: 400,
			Use: &Use{JobID: "7", Since: time.Unix(200, 0).UTC(), Devices: []DeviceUse{{UUID: "GPU-a", Energy: &joules, Memory: &Stat{Mean: 1, Max: 2}}}}},
		{Key: "7@b@n1", Record: Record{JobID: "7", Run: Run{StartTime: "200"}, Cluster: "b", Node: "n2"}, Ended: 500},
	}
	for _, i := range []int{2, 0, 1, 1} {
		if err := CopySummary(dir, want[i]); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadSummaries(dir)
	if diff := cmp.Diff(want, got, unstamped, cmpopts.IgnoreFields(Summary{}, "Head"), cmpopts.IgnoreFields(Use{}, "Head")); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "200-7@b@n1-n2.json")); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{"1-1-.json": "{", "2-2-.json": "{}", ".new-1": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err = ReadSummaries(dir)
	if len(got) != 3 || err == nil || !strings.Contains(err.Error(), "1-1-.json: ") || !strings.Contains(err.Error(), `2-2-.json: apiVersion ""`) {
		t.Errorf("%d summaries, %v", len(got), err)
	}
}

// TestSummaryStays writes a run's summary again, as after a kill, and another run's
// of the same second.
func TestSummaryStays(t *testing.T) {
	dir := t.TempDir()
	for step, s := range []Summary{
		{Key: "7", Record: Record{JobID: "7", Run: Run{"s1", "100"}}, Ended: 200, ExitCode: "1:0"},
		{Key: "7", Record: Record{JobID: "7", Run: Run{"s1", "100"}}, Ended: 300},
		{Key: "7", Record: Record{JobID: "7", Run: Run{"s2", "100"}}, Ended: 400},
	} {
		if err := CopySummary(dir, s); err != nil {
			t.Fatal(err)
		}
		all, err := ReadSummaries(dir)
		var ends []int64
		for _, s := range all {
			ends = append(ends, s.Ended)
		}
		want := [][]int64{{200}, {200}, {200, 400}}[step]
		if diff := cmp.Diff(want, ends); diff != "" || err != nil {
			t.Errorf("step %d: ends (-want +got):\n%s, %v", step, diff, err)
		}
	}
}

func TestSummaryRefused(t *testing.T) {
	dir := t.TempDir()
	for name, s := range map[string]Summary{
		"no job":            {Key: "7"},
		"another job's key": {Key: "8", Record: Record{JobID: "7"}},
		"a path":            {Key: "7@../x", Record: Record{JobID: "7"}},
		"too large":         {Key: "7", Record: Record{JobID: "7"}, Use: &Use{Devices: make([]DeviceUse, MaxDevices)}},
		"a long text":       {Key: "7", Record: Record{JobID: "7"}, Use: &Use{Clique: strings.Repeat("c", 300)}},
	} {
		if err := CopySummary(dir, s); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	long := Summary{Key: strings.Repeat("7", 128) + "@" + strings.Repeat("c", 32) + "@" + strings.Repeat("n", 32), Record: Record{JobID: strings.Repeat("7", 128),
		Run: Run{strings.Repeat("s", 32), strings.Repeat("1", 20)}, Node: strings.Repeat("n", 99)}}
	if err := CopySummary(dir, long); err != nil {
		t.Error(err)
	}
}

func readSummary(d Dir, key string) (*Summary, error) {
	s, _, err := d.summaries().Get(key)
	return s, err
}

// FuzzSummary checks that what is read is written as what reads the same.
func FuzzSummary(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"JobSummary","key":"7","record":{"kind":"JobRecord","jobID":"7"},"ended":1,"use":{"devices":[{"uuid":"GPU-a","power":{"mean":1,"max":2}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := readAs(t, readSummary, summaryFolder, data)
		if err != nil {
			return
		}
		text, err := json.Marshal(once)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := readAs(t, readSummary, summaryFolder, text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again, err := json.Marshal(twice); err != nil || !bytes.Equal(text, again) {
			t.Fatalf("%s\n%s, %v", text, again, err)
		}
	})
}
