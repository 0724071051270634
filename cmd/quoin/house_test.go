package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The limits of the house: whoever opens a package finds its rule in a minute.
const (
	maxPackageLines = 2500 // without tests
	maxMethods      = 20
	maxFields       = 15
	maxPrefix       = 3 // files of a package that begin with the same prefixLength letters
	prefixLength    = 4
)

// exceptions go over a limit for a reason. One that no longer does has to go.
var exceptions = map[string]string{
	"nodeagent/jobs/report.Report fields":                "the form of a job's report: a field for each fact",
	"nodeagent/rundir.DeviceUse fields":                  "the form of a file: a field for each fact",
	"nodeagent/rundir.Record fields":                     "the form of a file: a field for each fact",
	"slurmconf/publisher/publication.Publication fields": "the form of the configuration: a field for each key",
	"slurmconf/slurmctld/live.Job fields":                "what Slurm says of a job: a field for each fact",
	"topology/simulated.Fault fields":                    "the form of a site file: a field for each thing that can go wrong",
}

// house is what a package has.
type house struct {
	lines   int
	files   []string       // without .go
	methods map[string]int // by type
	fields  map[string]int // by type
}

// TestHouse holds packages, types and file names to the limits.
func TestHouse(t *testing.T) {
	over := map[string]int{}
	for dir, h := range readHouses(t) {
		if h.lines > maxPackageLines {
			over[dir] = h.lines
		}
		for name, n := range h.methods {
			if n > maxMethods {
				over[dir+"."+name+" methods"] = n
			}
		}
		for name, n := range h.fields {
			if n > maxFields {
				over[dir+"."+name+" fields"] = n
			}
		}
		for prefix, n := range prefixes(h.files) {
			if n > maxPrefix {
				over[dir+"/"+prefix+"*"] = n
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(over)) {
		if exceptions[name] == "" {
			t.Errorf("%s has %d: more than the limit; divide it, or give a reason in exceptions", name, over[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exceptions)) {
		if over[name] == 0 {
			t.Errorf("%s keeps the limit: remove it from exceptions", name)
		}
	}
}

// readHouses reads all packages but those for tests.
func readHouses(t *testing.T) map[string]*house {
	t.Helper()
	const root = "../.."
	houses := map[string]*house{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "testdata" || e.Name() == ".git"):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if houses[dir] == nil {
			houses[dir] = &house{methods: map[string]int{}, fields: map[string]int{}}
		}
		h := houses[dir]
		h.lines += set.File(file.Pos()).LineCount()
		h.files = append(h.files, strings.TrimSuffix(e.Name(), ".go"))
		h.add(file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return houses
}

// add counts a file's methods and fields.
func (h *house) add(file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				h.methods[receiver(d.Recv.List[0].Type)]++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					if fields, ok := s.Type.(*ast.StructType); ok {
						for _, f := range fields.Fields.List {
							h.fields[s.Name.Name] += cmp.Or(len(f.Names), 1)
						}
					}
				}
			}
		}
	}
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

// prefixes counts the files that begin alike.
func prefixes(files []string) map[string]int {
	out := map[string]int{}
	for _, f := range files {
		if len(f) >= prefixLength {
			out[f[:prefixLength]]++
		}
	}
	return out
}
