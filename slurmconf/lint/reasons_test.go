package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReasonsNameEveryRule holds the index of reason words to the code.
func TestReasonsNameEveryRule(t *testing.T) {
	page, err := os.ReadFile("../../REASONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, index, _ := strings.Cut(string(page), "## Slurm's files")
	index, _, _ = strings.Cut(index, "\n## ")
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../section.go", "../syntax/include.go", "../syntax/findings.go", "../gres/parse.go", "../readconf.go", "../readyaml.go", "../fit/site.go")
	reason := regexp.MustCompile(`(?:(?i:reason)\w* *:?= |Reason: |(?:Fatal|Warn|report|once|drains|at)\((?:[^,"]*, ?)+)"([A-Z][A-Za-z]+)"|reason, message :?= "(\w+)"`)
	var words []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, m := range reason.FindAllStringSubmatch(string(text), -1) {
			words = append(words, m[1]+m[2])
		}
	}
	slices.Sort(words)
	words = slices.Compact(words)
	if len(words) < 50 {
		t.Errorf("only %d reason words were found in the code: %v", len(words), words)
	}
	for _, w := range words {
		if !strings.Contains(index, "`"+w+"`") {
			t.Errorf("REASONS.md has no row for %s", w)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)`(?:, `(\\w+)`)? \\|").FindAllStringSubmatch(index, -1) {
		for _, w := range m[1:] {
			if w != "" && !slices.Contains(words, w) {
				t.Errorf("REASONS.md has a row for %s, which lint does not say", w)
			}
		}
	}
}
