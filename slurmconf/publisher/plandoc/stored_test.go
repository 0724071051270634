package plandoc

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStored reads the plans that two commits stored at the end of the same simulated day, and writes them again.
// Nothing is lost, and each node has the same place in both.
func TestStored(t *testing.T) {
	var plans []*Plan
	for _, commit := range []string{"30f9ccf6", "86f84177"} {
		text, err := os.ReadFile("testdata/stored-" + commit + ".json")
		if err != nil {
			t.Fatal(err)
		}
		d, err := Unmarshal(text)
		if err != nil {
			t.Fatalf("%s: %v", commit, err)
		}
		again, err := Marshal(d)
		if err != nil {
			t.Fatalf("%s: %v", commit, err)
		}
		if diff := cmp.Diff(keys(t, text), keys(t, again)); diff != "" {
			t.Errorf("%s, read and written again (-want +got):\n%s", commit, diff)
		}
		plans = append(plans, &d.Current.Plan)
	}
	if len(plans[0].Nodes) != 72 {
		t.Errorf("%d nodes, want 72", len(plans[0].Nodes))
	}
	if changes := Diff(plans[0], plans[1]); len(changes.Moves) > 0 {
		t.Errorf("nodes have other places: %s", changes.Summary(9))
	}
}

// keys is a document as a map, so that the order of its keys does not matter.
func keys(t *testing.T, text []byte) (all map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}
