package simulated

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/pages"
)

// TestReadme reads the site file of the README, and looks there for every key that a site file may have.
func TestReadme(t *testing.T) {
	const page, heading = "../README.md", "Site files"
	blocks, err := pages.Read(page)
	if err != nil {
		t.Fatal(err)
	}
	site := ""
	for _, b := range blocks {
		if b.Heading == heading {
			site = b.Text
		}
	}
	c, err := Parse(page, []byte(site))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Machines()) != 37 || len(c.Steps) != 1 {
		t.Errorf("%d machines and %d steps, want 37 and 1", len(c.Machines()), len(c.Steps))
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## "+heading)
	for _, of := range []any{file{}, group{}, gpus{}, mig{}, imexFacts{}, use{}, Step{}, Fault{}} {
		for i := range reflect.TypeOf(of).NumField() {
			if key := reflect.TypeOf(of).Field(i).Tag.Get("yaml"); key != "" && !regexp.MustCompile("(?m)(^|[`{ ])"+key+"[:`]").MatchString(section) {
				t.Errorf("the README does not name the key %s of %T", key, of)
			}
		}
	}
}
