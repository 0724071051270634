package imex

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// knownWords returns the reasons of verdicts.
func knownWords(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(allWords(t), func(word string) bool {
		return slices.Contains([]string{NoDomain, DomainDiffers, DomainDeleting, DomainOutdated}, word)
	})
}

// allWords returns the constants of reasons.go.
func allWords(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			word, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, word)
		}
		return true
	})
	return words
}
