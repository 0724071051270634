package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/quoin-hpc/quoin/test/rig/pages"
)

const docs = "../../manifests/docs/"

// userPage is a page for users: its name without .md, and its blocks.
type userPage struct {
	name   string
	blocks []pages.Block
}

// readPages returns the pages for users.
func readPages(t *testing.T) []userPage {
	t.Helper()
	paths, err := filepath.Glob(docs + "*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	var all []userPage
	for _, path := range paths {
		blocks, err := pages.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, userPage{strings.TrimSuffix(filepath.Base(path), ".md"), blocks})
	}
	return all
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// writePages writes the blocks of the pages below dir, for the scripts.
func writePages(dir string, all []userPage) error {
	for _, p := range all {
		folder := filepath.Join(dir, "pages", p.name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		below := map[string]int{}
		for _, b := range p.blocks {
			heading := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(b.Heading), "-"), "-")
			below[heading]++
			file := filepath.Join(folder, fmt.Sprintf("%s-%d.%s", heading, below[heading], b.Language))
			if err := os.WriteFile(file, []byte(b.Text), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestPagesCallQuoin holds that the command line of each call of quoin in a page is right: its
// command, its flags and the number of its arguments.
func TestPagesCallQuoin(t *testing.T) {
	count := 0
	for _, p := range readPages(t) {
		for _, b := range p.blocks {
			if b.Language != "sh" {
				continue
			}
			calls, err := b.CallsOf("quoin")
			if err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
			count += len(calls)
			for _, call := range calls {
				if err := checkCall(call, false); err != nil {
					t.Errorf("%s.md:%d: quoin %s: %v", p.name, b.Line, strings.Join(call, " "), err)
				}
			}
		}
	}
	if count < 30 {
		t.Errorf("the pages have %d calls of quoin, want 30 or more", count)
	}
}

// checkCall reads a command line as quoin does, and runs nothing. Where a sentence names a command, it may leave
// values and arguments open, and name a command with others below it.
func checkCall(args []string, open bool) error {
	cmd, rest, err := newRootCommand().Find(args)
	if err != nil {
		return err
	}
	if cmd.HasAvailableSubCommands() && (!open || len(rest) > 0 && !strings.HasPrefix(rest[0], "-")) {
		return fmt.Errorf("%s is no command that does something", cmd.CommandPath())
	}
	err = cmd.ParseFlags(rest)
	if open {
		var noValue *pflag.ValueRequiredError
		var otherValue *pflag.InvalidValueError
		if errors.As(err, &noValue) || errors.As(err, &otherValue) || errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if err != nil {
		return err
	}
	if err := cmd.ValidateFlagGroups(); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

var inlineCommand = regexp.MustCompile("`quoin ([^`\n]+)`")

// TestPagesNameCommands holds that each command line of quoin within a sentence or a table of a page has a
// command and flags that there are.
func TestPagesNameCommands(t *testing.T) {
	root := filepath.Join("..", "..")
	count := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range inlineCommand.FindAllStringSubmatch(string(text), -1) {
			count++
			if err := checkCall(strings.Fields(m[1]), true); err != nil {
				t.Errorf("%s: quoin %s: %v", path, m[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 20 {
		t.Errorf("the pages have %d command lines, want 20 or more", count)
	}
}

var (
	seriesWord   = regexp.MustCompile(`\bquoin_[a-z_]*[a-z]`)
	recordedWord = regexp.MustCompile(`\bquoin:[a-z_]+(?::[a-z_]+)?`)
)

// TestPagesNameSeries holds that each series that a page names is served, or recorded by the rules.
func TestPagesNameSeries(t *testing.T) {
	served, err := os.ReadFile("METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../../manifests/chart/files/quoin.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(docs + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range append(paths, "../../REASONS.md", "../../FIGURES.md", "../../manifests/RUNBOOKS.md", "../../nodeagent/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range seriesWord.FindAllString(string(text), -1) {
			if named++; !strings.Contains(string(served), "| `"+word+"`") && !strings.Contains(string(served), "| `"+word+"{") {
				t.Errorf("%s names %s, which nobody serves", page, word)
			}
		}
		for _, word := range recordedWord.FindAllString(string(text), -1) {
			if named++; !strings.Contains(string(rules), "record: "+word+"\n") {
				t.Errorf("%s names %s, which no rule records", page, word)
			}
		}
	}
	if named == 0 {
		t.Error("no page names a series")
	}
}
