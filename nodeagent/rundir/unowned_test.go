package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUnowned writes what Prologs hear, and removes it.
func TestUnowned(t *testing.T) {
	d := Dir(t.TempDir())
	on := func(uuids ...string) []Unowned {
		t.Helper()
		found, err := d.UnownedOn(uuids)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := on("GPU-a"); found != nil {
		t.Errorf("without a file: %v", found)
	}
	if err := d.WriteUnowned([]Unowned{{"GPU-a", 70}, {"GPU-b", 2}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Unowned{{"GPU-b", 2}}, on("GPU-b", "GPU-c")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 2 {
		if err := d.WriteUnowned(nil); err != nil {
			t.Fatal(err)
		}
	}
	if found := on("GPU-a"); found != nil {
		t.Errorf("removed: %v", found)
	}
	if err := os.WriteFile(filepath.Join(string(d), unownedKey+".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.UnownedOn([]string{"GPU-a"}); err == nil || !strings.Contains(err.Error(), "unowned.json") {
		t.Errorf("a broken file: %v", err)
	}
}

// FuzzUnowned names no device that nobody asked for.
func FuzzUnowned(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"UnownedMemory","devices":[{"uuid":"GPU-a","gib":70},{"uuid":"GPU-b","gib":2}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := Dir(t.TempDir())
		if err := os.WriteFile(filepath.Join(string(d), unownedKey+".json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		found, _ := d.UnownedOn([]string{"GPU-a"})
		for _, u := range found {
			if u.UUID != "GPU-a" {
				t.Errorf("%+v", u)
			}
		}
	})
}
