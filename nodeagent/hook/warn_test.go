package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// TestPrologWarns says what is wrong with the job's GPUs and the node, keeps it in the record,
// and starts the job. It says nothing of other GPUs, nor of an earlier boot, and little of much.
func TestPrologWarns(t *testing.T) {
	long := strings.Repeat("€", 500)
	for _, tt := range []struct {
		name, boot string
		faults     []rundir.Fault
		want       []string
	}{
		{"its GPU, and the node", testBoot, []rundir.Fault{{UUID: "GPU-0", Text: "zero"}, {UUID: "GPU-1", Text: "one"}, {Text: "node"}}, []string{"one", "node"}},
		{"another GPU", testBoot, []rundir.Fault{{UUID: "GPU-0", Text: "zero"}}, nil},
		{"of an earlier boot", "another", []rundir.Fault{{UUID: "GPU-1", Text: "one"}}, nil},
		{"a long one", testBoot, []rundir.Fault{{Text: long}}, []string{long[:297] + "..."}},
		{"many", testBoot, func() (all []rundir.Fault) {
			for i := range 64 {
				all = append(all, rundir.Fault{Text: fmt.Sprint(i)})
			}
			return all
		}(), []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := rundir.Dir(t.TempDir())
			inv := rundir.Inventory{Node: "n1", BootID: tt.boot, Faults: tt.faults}
			for i := range 2 {
				inv.Entries = append(inv.Entries, rundir.Entry{GRESIndex: i, Minor: i, UUID: fmt.Sprint("GPU-", i), ExporterID: fmt.Sprint(i)})
			}
			if err := run.WriteInventory(inv); err != nil {
				t.Fatal(err)
			}
			code, said := call(t, map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1", "SLURM_JOB_START_TIME": "100"}, "prolog", "--run-dir", string(run), "--mapping-dir", t.TempDir())
			var lines []string
			for line := range strings.Lines(said) {
				if text, is := strings.CutPrefix(strings.TrimSuffix(line, "; the job starts all the same\n"), "quoin-hook: job 7: warning: "); is {
					lines = append(lines, text)
				}
			}
			if diff := cmp.Diff(tt.want, lines); diff != "" || code != 0 {
				t.Errorf("status %d, warnings (-want +got):\n%s", code, diff)
			}
			record, err := run.ReadRecord("7")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, record.Warnings); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrologWarnsOfUnowned says how much memory of the job's GPU no job holds, and nothing of
// other GPUs. A file that cannot be read keeps no job from its label.
func TestPrologWarnsOfUnowned(t *testing.T) {
	prolog := func(run rundir.Dir) string {
		t.Helper()
		inv := rundir.Inventory{Node: "n1", BootID: testBoot, Entries: []rundir.Entry{{UUID: "GPU-0", ExporterID: "0"}, {GRESIndex: 1, Minor: 1, UUID: "GPU-1", ExporterID: "1"}}}
		if err := run.WriteInventory(inv); err != nil {
			t.Fatal(err)
		}
		code, said := call(t, map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1", "SLURM_JOB_START_TIME": "100"}, "prolog", "--run-dir", string(run), "--mapping-dir", t.TempDir())
		if record, err := run.ReadRecord("7"); code != 0 || err != nil || record == nil || len(record.GPUs) != 1 {
			t.Errorf("status %d, record %+v, %v", code, record, err)
		}
		return said
	}
	run := rundir.Dir(t.TempDir())
	if err := run.WriteUnowned([]rundir.Unowned{{UUID: "GPU-0", GiB: 5}, {UUID: "GPU-1", GiB: 70}}); err != nil {
		t.Fatal(err)
	}
	const want = "quoin-hook: job 7: warning: 70 GiB were in use before this job on GPU GPU-1, by programs that no job holds; the job starts all the same\n"
	if said := prolog(run); !strings.Contains(said, want) || strings.Contains(said, "5 GiB") {
		t.Errorf("it says %q, want %q alone", said, want)
	}
	run = rundir.Dir(t.TempDir())
	if err := os.WriteFile(filepath.Join(string(run), "unowned.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := prolog(run); !strings.Contains(said, "unowned.json") {
		t.Errorf("of a broken file it says %q", said)
	}
}
