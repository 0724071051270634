package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/golden"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// notReasons are words of this form in the code that are no reasons of Quoin: kinds
// of objects, types of conditions, words of Slurm and Kubernetes, and why a place is as it should be.
var notReasons = strings.Fields(`
	AgentState CheckResult DCGMIdentities FitResult HookConfig IMEXCheckResult JobPlaces JobRecord JobReports JobState JobSummary JobUse LintResult NodeReport RenderResult UnownedMemory
	InfiniBand Placed Stays QuoinFabricDegraded QuoinImexNotReady QuoinTopologyDrift
	ComputeDomain ComputeDomainClique ComputeDomainCliques ConfigMap DaemonSet DeviceClass NodeSet NodeSets ResourceClaim ResourceClaims ResourceSlice
	AggregatedBlock ArrayJobId ArrayTaskId BlockIndex BlockName BlockSize LinkSpeed MultipleFiles NodeName
	PrologEpilogTimeout PrologFlags PrologTimeout SelectType SwitchName SlurmNodeState SlurmNodeStateInvalidReg TopologyPlugin`)

// othersToo are reasons of Quoin that are words of others too: keys of Slurm, and a status of NVIDIA's ComputeDomain.
var othersToo = []string{"AutoDetect", "BlockSizes", "NotReady"}

// TestReferenceOfReasons holds the table of reason words to the code, where each is one constant, and REASONS.md to the
// table.
func TestReferenceOfReasons(t *testing.T) {
	page, rows := "# Reason words\n\n"+generated+`
Quoin says why in one word: in Node conditions, findings of commands, series, events and logs. The message beside the word has the details.
An empty cell means that there is nothing to do, or that the finding ends as soon as its cause is no longer read. quoin help reasons prints the same.
`, map[string]bool{}
	for _, c := range topology.Reasons {
		columns := 3 // a chapter in which no word says what ends the finding has no such column
		if slices.ContainsFunc(c.Words, func(w topology.Word) bool { return w.Ends != "" }) {
			columns = 4
		}
		line := func(cells ...string) { page += "| " + strings.Join(cells[:columns], " | ") + " |\n" }
		page += "\n## " + c.Title + "\n\n" + c.Text + "\n\n"
		line("reason", "meaning", "what to do", "ends")
		line("---", "---", "---", "---")
		for _, w := range c.Words {
			if rows[w.Reason] || w.Meaning == "" || strings.ContainsAny(w.Meaning+w.Remedy+w.Ends, "|`\n") {
				t.Errorf("the row of %s is not the only one, has no meaning, or cannot stand in a page", w.Reason)
			}
			rows[w.Reason] = true
			line("`"+w.Reason+"`", w.Meaning, w.Remedy, w.Ends)
		}
	}
	golden.Check(t, filepath.Join("..", "..", "REASONS.md"), page)
	said, bare := reasonWords(t)
	for _, word := range slices.Sorted(maps.Keys(said)) {
		if !rows[word] && !slices.Contains(notReasons, word) {
			t.Errorf("%s: topology.Reasons has no row for %q", said[word][0], word)
		}
		if rows[word] && len(said[word]) > 1 {
			t.Errorf("%q is the value of several constants: %s", word, strings.Join(said[word], ", "))
		}
	}
	for _, word := range slices.Sorted(maps.Keys(rows)) {
		if said[word] == nil {
			t.Errorf("topology.Reasons has a row for %q, which no constant of the code has", word)
		}
	}
	for _, word := range slices.Sorted(maps.Keys(bare)) {
		if !slices.Contains(notReasons, word) && !slices.Contains(othersToo, word) {
			t.Errorf("%s: %q stands outside a constant: name the constant, so that a typing error does not compile", bare[word], word)
		}
	}
}

var (
	reasonWord  = regexp.MustCompile(`^[A-Z][A-Za-z]*[a-z][A-Z][A-Za-z]*$|^[A-Z]{2,}[A-Z][a-z][A-Za-z]*$`)
	reasonConst = regexp.MustCompile(`^[Rr]eason`)
)

// reasonWords returns the values of constants that are reasons by their name or form, each with its places, and the
// literals outside constants that have the form of a reason, each with one place. The table itself does not count.
func reasonWords(t *testing.T) (said map[string][]string, bare map[string]string) {
	t.Helper()
	said, bare = map[string][]string{}, map[string]string{}
	files := token.NewFileSet()
	literal := func(n ast.Node) (word, place string) {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			word, _ = strconv.Unquote(lit.Value)
			place = files.Position(lit.Pos()).String()
		}
		return word, place
	}
	for _, room := range []string{"topology", "slurmconf", "imex", "dcgm", "nodeagent", "cmd/quoin"} {
		err := filepath.WalkDir(filepath.Join("..", "..", room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "words.go" && room == "topology" {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.CONST {
					for _, spec := range decl.Specs {
						spec, _ := spec.(*ast.ValueSpec)
						for i := range spec.Values {
							word, place := literal(spec.Values[i])
							named := reasonConst.MatchString(spec.Names[i].Name) && word != topology.ReasonOther
							if word != "" && named || reasonWord.MatchString(word) || word == placement.Repartitioned {
								said[word] = append(said[word], place)
							}
						}
					}
					return false
				}
				if word, place := literal(n); reasonWord.MatchString(word) {
					bare[word] = place
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return said, bare
}
