package setup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	code     = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\[([^]]*)\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	mention  = regexp.MustCompile(`[\w./-]*\w\.md(#[\w-]+)?`)
	foreign  = regexp.MustCompile(`https?://\S+`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks holds that each link of a page leads to a file and a heading that are there. It also holds this
// for each page that a program, the chart, an alert, a dashboard or a script names.
func TestLinks(t *testing.T) {
	t.Parallel()
	links, mentions := 0, 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || path == "../bin"):
			return filepath.SkipDir
		case !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go"):
			return nil
		case name != "Makefile" && !slices.Contains([]string{".md", ".go", ".c", ".yaml", ".json", ".txt", ".tpl", ".sh", ".html", ".js", ".csv", ".service"}, filepath.Ext(name)):
			return nil
		}
		text := read(t, strings.TrimPrefix(path, "../"))
		if filepath.Ext(name) == ".md" {
			for _, target := range linksOf(text) {
				links++
				if err := resolves(path, target); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
			text = link.ReplaceAllString(text, "")
		}
		for _, target := range mention.FindAllString(foreign.ReplaceAllString(text, ""), -1) {
			mentions++
			if err := isPage(path, target); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 100 || mentions < 100 {
		t.Errorf("read %d links and %d names of pages, want 100 or more of each", links, mentions)
	}
}

// linksOf returns the targets of a page's links. It leaves out links to other sites.
func linksOf(page string) []string {
	var targets []string
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(fence.ReplaceAllString(page, ""), ""), -1) {
		if !foreign.MatchString(m[2]) {
			targets = append(targets, m[2])
		}
	}
	return targets
}

// resolves says why a link of a file leads nowhere.
func resolves(from, target string) error {
	file, anchor, hasAnchor := strings.Cut(target, "#")
	to := from
	if file != "" {
		to = filepath.Join(filepath.Dir(from), file)
	}
	if !hasAnchor {
		_, err := os.Stat(to)
		return err
	}
	text, err := os.ReadFile(to)
	if err != nil {
		return err
	}
	if !slices.Contains(anchors(string(text)), anchor) {
		return fmt.Errorf("%s has no heading for #%s", to, anchor)
	}
	return nil
}

// isPage says why a name of a page, from the file's folder or one above it, is none.
func isPage(from, target string) error {
	for dir := filepath.Dir(from); ; dir = filepath.Dir(dir) {
		err := resolves(filepath.Join(dir, "x"), target)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if dir == ".." {
			return fmt.Errorf("names %s, which is not there", target)
		}
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) []string {
	var all []string
	times := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		words := noAnchor.ReplaceAllString(strings.ToLower(link.ReplaceAllString(m[1], "$1")), "")
		anchor := strings.ReplaceAll(strings.TrimSpace(words), " ", "-")
		if times[anchor]++; times[anchor] > 1 {
			anchor = fmt.Sprintf("%s-%d", anchor, times[anchor]-1)
		}
		all = append(all, anchor)
	}
	return all
}

func TestLinkRules(t *testing.T) {
	t.Parallel()
	const page = "# A `b`: c\n```sh\n# no heading\n[x](y)\n```\n## 1. See [it](it.md), twice\n## A b c\n[a](a.md#x), `[b](b.md)`, [c](https://c.example/c.md), ![d](d.svg)\n"
	if diff := cmp.Diff([]string{"a-b-c", "1-see-it-twice", "a-b-c-1"}, anchors(page)); diff != "" {
		t.Errorf("anchors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"it.md", "a.md#x", "d.svg"}, linksOf(page)); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	for target, right := range map[string]bool{
		"#the-box": true, "rig/nvml/README.md": true, "tools/scale": true, "../README.md#why-this-one": true,
		"#the-boxes": false, "rig/nvml/NOTHING.md": false, "../README.md#why-that-one": false, "nothing/README.md#x": false,
	} {
		if err := resolves("README.md", target); (err == nil) != right {
			t.Errorf("%s: %v", target, err)
		}
	}
	for target, right := range map[string]bool{
		"manifests/RUNBOOKS.md#quoinxid": true, "docs/install.md": true, "RUNBOOKS.md": true,
		"manifests/RUNBOOKS.md#quoinxids": false, "docs/nothing.md": false,
	} {
		if err := isPage("../manifests/rules/prometheusrule.yaml", target); (err == nil) != right {
			t.Errorf("%s: %v", target, err)
		}
	}
}
