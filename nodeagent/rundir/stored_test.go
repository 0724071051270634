package rundir

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/imex/gate"
)

// TestStored reads the run directory of commit 30f9ccf6 and writes each file again. Nothing is lost: agent and hook of
// two releases exchange these files during an upgrade. What that commit wrote for a simulated node is completed by
// values of the other fields that its types had.
func TestStored(t *testing.T) {
	const stored = "testdata/stored-30f9ccf6"
	old, again := Dir(stored), Dir(t.TempDir())
	inv, noInventory := old.ReadInventory()
	hook, noHook := old.ReadHookConfig()
	state, _, noGate := gate.Read(stored)
	r, noRecord := old.ReadRecord("4711")
	if err := errors.Join(noInventory, noHook, noGate, noRecord); err != nil {
		t.Fatal(err)
	}
	use, noUse := old.Uses().Of("4711", r)
	summaries, noSummary := ReadSummaries(old.SummaryDir())
	if noUse != nil || use == nil || noSummary != nil || len(summaries) != 1 {
		t.Fatalf("use %v, %v; %d summaries, %v", use, noUse, len(summaries), noSummary)
	}
	err := errors.Join(again.WriteInventory(*inv), again.WriteHookConfig(*hook), gate.Write(string(again), *state),
		again.WriteRecord("4711", *r), again.Uses().Write("4711", use), WriteSummary(again, summaries[0]))
	if err != nil {
		t.Fatal(err)
	}
	// A record has no initStart any more, and the hook's configuration no wait.
	dropped := cmpopts.IgnoreMapEntries(func(key string, value any) bool {
		return key == "initStart" || key == "wait" && value == "2s"
	})
	for _, name := range []string{InventoryFile, HookConfigFile, gate.FileName, "jobs/4711.json", "use/4711.json", "summaries/1700000000-4711-gb200-001-s7K2.json"} {
		if diff := cmp.Diff(valuesIn(t, old, name), valuesIn(t, again, name), dropped); diff != "" {
			t.Errorf("%s, read and written again (-want +got):\n%s", name, diff)
		}
	}
}

// valuesIn reads a file by its keys: their order does not matter.
func valuesIn(t *testing.T, d Dir, name string) (all map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(d), name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}
