// Package pages reads the fenced blocks of a page, so that a test runs the commands that a user copies.
package pages

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Block is one fenced block of a page.
type Block struct {
	Heading  string // the last heading above the block
	Line     int    // of the opening fence, from 1
	Language string // as the fence names it: sh, yaml, text
	Text     string // without the fences
	NotRun   string // why no test runs the block, or empty
}

var notRun = regexp.MustCompile(`^<!-- not run: (.+) -->$`)

// Read returns the blocks of a page in their order. A block without a language is an error, and so is a
// reason that stands above no block, and a fence that is not closed.
func Read(path string) ([]Block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var blocks []Block
	var open *Block
	heading, reason := "", ""
	for i, line := range strings.Split(string(text), "\n") {
		trimmed := strings.TrimSpace(line)
		language, fence := strings.CutPrefix(trimmed, "```")
		switch {
		case open != nil && trimmed == "```":
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.Text += line + "\n"
		case fence && language == "":
			return nil, fmt.Errorf("%s:%d: the block names no language", path, i+1)
		case fence:
			open = &Block{Heading: heading, Line: i + 1, Language: language, NotRun: reason}
			reason = ""
		case reason != "":
			return nil, fmt.Errorf("%s:%d: %q stands above no block", path, i, reason)
		case notRun.MatchString(trimmed):
			reason = notRun.FindStringSubmatch(trimmed)[1]
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: the block has no end", path, open.Line)
	}
	return blocks, nil
}
