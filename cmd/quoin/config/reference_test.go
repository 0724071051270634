package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

//go:generate go test -run ^TestReference$ . -update

var update = flag.Bool("update", false, "write the reference")

const referenceHead = `<!-- Made by go generate from the code. Do not edit. -->
# Configuration reference

One YAML file configures all commands: ` + "`--config FILE`" + `. ` + "`--set key=value`" + ` sets any key of any command, for example
` + "`--set publicationDefaults.slurmVersion=25.11`" + `.
` + "`quoin config`" + ` shows the whole configuration with its defaults filled in, and ` + "`publicationDefaults`" + ` in each publication. Unknown keys are refused.
A key without a default has its type in the column of defaults, or is a text.
`

// often are the keys that sites set. Most sites need no other one.
var often = []string{"publicationDefaults.namespace", "publicationDefaults.nodes.selector", "publicationDefaults.slurmNames", "publicationDefaults.slurmVersion", "publicationDefaults.slurm.url", "publicationDefaults.topology",
	"publicationDefaults.tierLabels", "publicationDefaults.fabricFiles", "publicationDefaults.maxChange", "imex.join", "agent.dcgmExporter", "agent.hookGate"}

// TestReference holds that the reference of all keys is as the code says.
func TestReference(t *testing.T) {
	defaults, err := Load(Default(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	docs := docsOf(t, ".", "../../../imex", "../../../slurmconf/publisher/publication")
	var b strings.Builder
	meanings := map[string]string{} // by key
	seen := map[string]string{}     // keys by row
	for name, section := range fieldsOf(configType) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", name, meaning(docs["Config."+section.Name], section.Name))
		v := reflect.ValueOf(defaults).Elem().FieldByIndex(section.Index)
		switch name {
		case publicationsKey: // the keys are those of publicationDefaults
			continue
		case defaultsKey:
			v = reflect.ValueOf(publication.Default())
		}
		b.WriteString("\n| key | default | meaning |\n|---|---|---|\n")
		var known []string
		for _, row := range rowsOf(t, docs, meanings, name, "", v, section.Type) {
			if before, is := seen[row]; is {
				known = append(known, before)
				continue
			}
			key, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " ")
			seen[row] = key
			b.WriteString(row)
		}
		if known != nil {
			fmt.Fprintf(&b, "\nThese keys are as above: %s.\n", strings.Join(known, ", "))
		}
	}
	var head strings.Builder
	head.WriteString(referenceHead + "\nMost sites set some of these keys and no others:\n\n")
	for _, key := range often {
		first, _, _ := strings.Cut(meanings[key], ". ")
		if first == "" {
			t.Errorf("no key %s", key)
		}
		fmt.Fprintf(&head, "* `%s`: %s.\n", key, strings.TrimSuffix(first, "."))
	}
	text := head.String() + b.String()
	const path = "../CONFIGURATION.md"
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s differs from the code (-file +code); run go generate ./...\n%s", path, diff)
	}
}

// rowsOf returns a row for each key of a section, and adds what each means to meanings.
func rowsOf(t *testing.T, docs, meanings map[string]string, name, above string, v reflect.Value, section reflect.Type) (rows []string) {
	t.Helper()
	if len(namesIn(section.String())) == 0 {
		t.Errorf("sections lacks %s", section)
	}
	for own, f := range fieldsOf(section) {
		key, value := below(above, own), v.FieldByIndex(f.Index)
		if hasKeys(f.Type) {
			rows = append(rows, rowsOf(t, docs, meanings, name, key, value, f.Type)...)
			continue
		}
		owner := section
		if len(f.Index) > 1 {
			owner = section.FieldByIndex(f.Index[:len(f.Index)-1]).Type
		}
		doc := docs[owner.Name()+"."+f.Name]
		if !strings.HasPrefix(doc, f.Name+" ") {
			t.Errorf("%s.%s: want a comment of its own that begins with its name", owner, f.Name)
		}
		shown := strings.TrimPrefix(kindOf(f.Type), "text") // of a value that has no default
		if text := textOf(value); text != "" {
			shown = "`" + text + "`"
		}
		if unit := f.Tag.Get("unit"); unit != "" {
			shown += " (" + unit + ")"
		}
		if most := f.Tag.Get("most"); most != "" {
			shown += " (at most " + most + ")"
		}
		meanings[below(name, key)] = meaning(doc, f.Name)
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", key, shown, meaning(doc, f.Name)))
	}
	return rows
}

// meaning is the comment of a field without the field's name.
func meaning(doc, field string) string {
	text := strings.TrimPrefix(strings.Join(strings.Fields(doc), " "), field+" ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "is "), "are ")
	if text != "" && text[0] >= 'a' && text[0] <= 'z' {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return strings.NewReplacer("|", `\|`, `"`, "`").Replace(text)
}

func textOf(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		if v.Len() == 0 {
			return ""
		}
	}
	return fmt.Sprint(v.Interface())
}

func kindOf(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Duration](), t == reflect.TypeFor[publication.Duration]():
		return "duration"
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Slice:
		return "lists by name"
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Int:
		return "numbers by text"
	case t.Kind() == reflect.Map:
		return "pairs of texts"
	}
	return strings.TrimPrefix(words[t.String()], "a ")
}

var configType = reflect.TypeFor[Config]()

// fieldsOf yields the fields of a section with their keys. Fields of inlined structs are
// fields of the section.
func fieldsOf(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name != "" && name != "-" && option != "inline" && !yield(name, f) {
				return
			}
		}
	}
}

// hasKeys reports whether a value of the type has keys that are known.
func hasKeys(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]())
}

// docsOf returns the comments of the fields of all structs of packages, by
// Type.Field.
func docsOf(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok {
					for _, field := range s.Fields.List {
						for _, name := range field.Names {
							docs[spec.Name.Name+"."+name.Name] = field.Doc.Text()
						}
					}
				}
				return true
			})
		}
	}
	return docs
}
