package syntax

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDefaults has lines with and without defaults before them. Values that are empty take the default away.
func TestDefaults(t *testing.T) {
	lines, err := Scan("slurm.conf", []byte("NodeName=n1 CPUs=1\nNodeName=default Gres=gpu:8 CPUs=2\nNodeName=n2\nNodeName=DEFAULT GRES=gpu:4\nNodeName=n3 cpus=3\nNodeName=n4 Gres=\"\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	defaults, got := Defaults{}, map[string]map[string]string{}
	for i := range lines {
		if values := defaults.Values(&lines[i]); values != nil {
			got[lines[i].Value] = values
		}
	}
	want := map[string]map[string]string{
		"n1": {"cpus": "1"}, "n2": {"cpus": "2", "gres": "gpu:8"}, "n3": {"cpus": "3", "gres": "gpu:4"}, "n4": {"cpus": "2", "gres": ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}
