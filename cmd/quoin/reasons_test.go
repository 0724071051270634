package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/golden"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// notReasons are words of this form in the code that are no reasons of Quoin: kinds
// of objects, and words of Slurm and Kubernetes.
var notReasons = strings.Fields(`
	AgentState DCGMIdentities FitResult HookConfig JobPlaces JobRecord JobReports JobState JobSummary JobUse NodeReport UnownedMemory
	InfiniBand
	ComputeDomain ComputeDomainClique ComputeDomainCliques ConfigMap DaemonSet DeviceClass NodeSet NodeSets ResourceClaim ResourceClaims ResourceSlice
	AggregatedBlock ArrayJobId ArrayTaskId BlockIndex BlockName BlockSize LinkSpeed MultipleFiles NodeName
	PrologEpilogTimeout PrologFlags PrologTimeout SelectType SlurmNodeState SlurmNodeStateInvalidReg TopologyPlugin`)

// TestReferenceOfReasons holds that REASONS.md has a row for every reason word of the code, and no other.
func TestReferenceOfReasons(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "REASONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]explanation)
	for section := range strings.SplitSeq(string(text), "\n## ") {
		for word, e := range explanations(section) {
			found[word] = append(found[word], e)
		}
	}
	words := reasonWords(t)
	for _, word := range slices.Sorted(maps.Keys(words)) {
		if len(found[word]) == 0 && !slices.Contains(notReasons, word) {
			t.Errorf("%s: %q is not in REASONS.md: explain it in a row there", words[word], word)
		}
	}
	for _, word := range slices.Sorted(maps.Keys(found)) {
		if _, used := words[word]; !used && reasonWord.MatchString(word) { // others are found by the tests of their rooms
			t.Errorf("REASONS.md explains %q, which the code does not say", word)
		}
	}
	golden.Check(t, filepath.Join("..", "..", "topology", "picture", "remedies.txt"), remedies(words, found))
}

// remedies are the lines that the page of the map shows beside a reason: the word, a tab, and what
// to do, as plain text.
func remedies(words map[string]string, found map[string][]explanation) string {
	var b strings.Builder
	for _, word := range slices.Sorted(maps.Keys(found)) {
		var todo []string
		for _, e := range found[word] {
			plain := strings.ReplaceAll(markdownLink.ReplaceAllString(e.todo, "$1"), "`", "")
			if !strings.HasPrefix(plain, "nothing") && !strings.HasPrefix(plain, "see ") && !slices.Contains(todo, plain) {
				todo = append(todo, plain)
			}
		}
		if _, used := words[word]; used && len(todo) > 0 {
			fmt.Fprintf(&b, "%s\t%s\n", word, strings.Join(todo, "; or "))
		}
	}
	return b.String()
}

// explanation is what a page says of a reason word.
type explanation struct{ meaning, todo string }

var (
	reasonWord   = regexp.MustCompile(`^[A-Z][A-Za-z]*[a-z][A-Z][A-Za-z]*$|^[A-Z]{2,}[A-Z][a-z][A-Za-z]*$`)
	markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	quotedWord   = regexp.MustCompile("`([A-Za-z]+)`")
)

// explanations returns what the tables of a page say of the words in backquotes of
// their first cells. A table's heading says which cell holds what.
func explanations(page string) map[string]explanation {
	found := make(map[string]explanation)
	meaning, todo, inside := 0, 0, false
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		cells := strings.Split(strings.TrimSpace(strings.ReplaceAll(line, `\|`, "/")), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !inside {
			inside = true
			meaning = slices.IndexFunc(cells, func(c string) bool {
				return slices.Contains([]string{"meaning", "why", "what happened", "what it means", "True if"}, c)
			})
			todo = slices.Index(cells, "what to do")
			continue
		}
		if meaning < 0 || len(cells) <= max(meaning, todo) {
			continue
		}
		e := explanation{meaning: cells[meaning], todo: "nothing, or as the page says"}
		if todo > 0 {
			e.todo = cells[todo]
		}
		for _, m := range quotedWord.FindAllStringSubmatch(cells[1], -1) {
			if _, twice := found[m[1]]; !twice {
				found[m[1]] = e
			}
		}
	}
	return found
}

// reasonWords returns the string literals of the code that have the form of a reason,
// each with one place.
func reasonWords(t *testing.T) map[string]string {
	t.Helper()
	words := make(map[string]string)
	files := token.NewFileSet()
	for _, room := range []string{"topology", "slurmconf", "imex", "dcgm", "nodeagent", "cmd/quoin/show"} {
		err := filepath.WalkDir(filepath.Join("..", "..", room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if word, err := strconv.Unquote(lit.Value); err == nil && (reasonWord.MatchString(word) || word == placement.Repartitioned) { // which is one word
						words[word] = files.Position(lit.Pos()).String()
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return words
}
