package nodelabels

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadme compares the labels of the README's table with the labels that the code reads. `key-{a,b}` stands there for two
// keys, and "`key-0` to `-9`" for ten.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Node labels\n")
	table, _, _ := strings.Cut(section, "\n`domainLabels`")
	var listed []string
	for _, m := range regexp.MustCompile("`([^`{]+?)([0-9]*)(?:\\{(.+?)\\})?`(?: to `-([0-9]+)`)?").FindAllStringSubmatch(table, -1) {
		prefix, first, parts, last := m[1], m[2], m[3], m[4]
		switch {
		case last == "" && parts == "":
			listed = append(listed, prefix+first)
		case last == "":
			for part := range strings.SplitSeq(parts, ",") {
				listed = append(listed, prefix+first+part)
			}
		case first == "0" && last == "9":
			listed = append(listed, numbered(prefix, 0, maxTiers)...)
		case first == "1" && last == "10":
			listed = append(listed, numbered(prefix, 1, maxTiers)...)
		default:
			t.Errorf("%s: from %q to %q, want 0 to 9 or 1 to 10", prefix, first, last)
		}
	}
	read := append([]string{"nvidia.com/gpu.clique"}, domainKeys...)
	for _, source := range tierSources {
		read = append(read, source.keys...)
	}
	for _, key := range read {
		if !slices.Contains(listed, key) {
			t.Errorf("the README does not name the label %s, which is read", key)
		}
	}
	for _, key := range listed {
		if !slices.Contains(read, key) {
			t.Errorf("the README names the label %s, which is not read", key)
		}
	}
}
