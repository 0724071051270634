package manifests

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPolicies compares the table of admission policies in SECURITY.md with the manifests. Each row names
// a test that is there.
func TestPolicies(t *testing.T) {
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	var policies []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.ReplaceAll(line, "`", ""), "|\n"), "|")
		if !strings.HasPrefix(line, "|`quoin-") || len(cells) != 3 {
			continue
		}
		policies = append(policies, cells[0])
		for name := range strings.SplitSeq(cells[2], ", ") {
			if !hasTest(t, name) {
				t.Errorf("SECURITY.md names %s, which is no test: %s", name, line)
			}
		}
	}
	admission, err := os.ReadFile("plain/base/30-admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^kind: ValidatingAdmissionPolicy\nmetadata:\n  name: (\S+)$`).FindAllSubmatch(admission, -1) {
		named[string(m[1])] = true
	}
	slices.Sort(policies)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(named)), policies); diff != "" {
		t.Errorf("policies of the manifests and of SECURITY.md (-manifests +SECURITY.md):\n%s", diff)
	}
}

// TestThreats holds that each row of the threat model in SECURITY.md names tests that are there, and that
// each attacker has one.
func TestThreats(t *testing.T) {
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, is := strings.Cut(string(text), "\n| attacker | what Quoin holds | test |\n|---|---|---|\n")
	table, _, ends := strings.Cut(table, "\n\n")
	if !is || !ends {
		t.Fatal("SECURITY.md has no table of threats")
	}
	for row := range strings.Lines(table + "\n") {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|\n"), "|")
		if len(cells) != 3 || !strings.HasSuffix(strings.TrimSpace(cells[1]), ".") {
			t.Errorf("want an attacker, a sentence and its tests: %s", row)
			continue
		}
		for name := range strings.SplitSeq(strings.TrimSpace(cells[2]), ", ") {
			if !hasTest(t, name) {
				t.Errorf("SECURITY.md names %q, which is no test: %s", name, row)
			}
		}
	}
}

// hasTest reports whether the repository has a test of that name, which may be TEST/SUBTEST.
func hasTest(t *testing.T, name string) bool {
	t.Helper()
	name, part, _ := strings.Cut(name, "/")
	for _, pattern := range []string{"*_test.go", "../*/*_test.go", "../*/*/*_test.go", "../*/*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte("func "+name+"(t *testing.T)")) {
				return part == "" || bytes.Contains(text, []byte("t.Run(\""+part+"\", "))
			}
		}
	}
	return false
}
