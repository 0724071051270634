package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// releases has a folder for each release with what it wrote. testdata/releases/record.sh makes the folder of a
// release; no test changes it.
const releases = "../../testdata/releases"

var record = flag.Bool("record", false, "write the fields of this release's files, if they are not recorded yet")

// releaseFiles are the files that releases share: a pattern of each, what reads it, and the type with its fields.
var releaseFiles = []struct {
	pattern string
	again   func(text []byte) ([]byte, error) // reads the text, and writes it again
	// later says that a reader leaves out keys that it does not know, which a later release wrote.
	later  bool
	fields reflect.Type
	tag    string
}{
	{"reports/*.json", againReport, true, reflect.TypeFor[topology.Node](), "json"},
	{"plan-*.json", againPlan, false, reflect.TypeFor[plandoc.Document](), "json"},
	{"quoin.yaml", againConfig, false, reflect.TypeFor[config.Config](), "yaml"},
	{"run/inventory.json", againJSON[rundir.Inventory], true, reflect.TypeFor[rundir.Inventory](), "json"},
	{"run/gate.json", againJSON[gate.State], true, reflect.TypeFor[gate.State](), "json"},
	{"run/hook.json", againJSON[rundir.HookConfig], true, reflect.TypeFor[rundir.HookConfig](), "json"},
	{"run/jobs/*.json", againJSON[rundir.Record], true, reflect.TypeFor[rundir.Record](), "json"},
	{"run/use/*.json", againJSON[rundir.Use], true, reflect.TypeFor[rundir.Use](), "json"},
	{"run/summaries/*.json", againJSON[rundir.Summary], true, reflect.TypeFor[rundir.Summary](), "json"},
}

func againReport(text []byte) ([]byte, error) {
	n, err := topology.ParseReport("report", text)
	if err != nil {
		return nil, err
	}
	return topology.EncodeReport(n)
}

func againPlan(text []byte) ([]byte, error) {
	d, err := plandoc.Unmarshal(text)
	if err != nil {
		return nil, err
	}
	return plandoc.Marshal(d)
}

func againConfig(text []byte) ([]byte, error) {
	c, err := config.Parse(config.Default(), "quoin.yaml", text, nil)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = c.Write(&b)
	return b.Bytes(), err
}

func againJSON[T any](text []byte) ([]byte, error) {
	v := new(T)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// TestReleases reads what each release has recorded. Nothing of it may be lost: what is read and written again
// has each key with its value.
func TestReleases(t *testing.T) {
	for _, release := range recorded(t) {
		for _, f := range releaseFiles {
			paths, err := filepath.Glob(filepath.Join(releases, release, f.pattern))
			if err != nil || len(paths) == 0 {
				t.Fatalf("%s has no %s: %v", release, f.pattern, err)
			}
			for _, path := range paths {
				t.Run(filepath.ToSlash(strings.TrimPrefix(path, releases+"/")), func(t *testing.T) {
					text, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					again, err := f.again(text)
					if err != nil {
						t.Fatal(err)
					}
					for _, lost := range missing("", decoded(t, text, f.tag), decoded(t, again, f.tag)) {
						t.Error(lost)
					}
					_, err = f.again(bytes.Replace(text, []byte(map[string]string{"json": "{", "yaml": "agent:"}[f.tag]), []byte(map[string]string{"json": `{"ofLater": 1,`, "yaml": "ofLater: 1\nagent:"}[f.tag]), 1))
					if (err == nil) != f.later {
						t.Errorf("with a key of a later release it is read: %v, want %v: %v", err == nil, f.later, err)
					}
				})
			}
		}
	}
}

// TestReleaseDefinition holds each release's reports against the schema of the present definition, by which the API server
// takes them.
func TestReleaseDefinition(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../manifests/schema/report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range recorded(t) {
		paths, err := filepath.Glob(filepath.Join(releases, release, "reports/*.json"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has %d reports: %v", release, len(paths), err)
		}
		for _, path := range paths {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			report, err := jsonschema.UnmarshalJSON(file)
			_ = file.Close()
			if err == nil {
				err = schema.Validate(report)
			}
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// TestReleaseNode reads a node's run directory of each release as an agent and a hook do, with keys of a later
// release in each file.
func TestReleaseNode(t *testing.T) {
	for _, release := range recorded(t) {
		dir := rundir.Dir(filepath.Join(t.TempDir(), "run"))
		if err := os.CopyFS(string(dir), os.DirFS(filepath.Join(releases, release, "run"))); err != nil {
			t.Fatal(err)
		}
		err := filepath.WalkDir(string(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, bytes.Replace(text, []byte("{"), []byte(`{"ofLater": 1,`), 1), 0o600))
		})
		if err != nil {
			t.Fatal(err)
		}
		if inv, err := dir.ReadInventory(); err != nil || len(inv.Entries) != 4 {
			t.Errorf("%s: inventory %+v: %v", release, inv, err)
		}
		if c, err := dir.ReadHookConfig(); err != nil || c.Gate == nil {
			t.Errorf("%s: hook.json %+v: %v", release, c, err)
		}
		if s, _, err := gate.Read(string(dir)); err != nil || s.Reason == "" {
			t.Errorf("%s: gate %+v: %v", release, s, err)
		}
		r, err := dir.ReadRecord("4711")
		if err != nil || len(r.GPUs) != 2 {
			t.Fatalf("%s: record %+v: %v", release, r, err)
		}
		if u, err := dir.Uses().Of("4711", r); err != nil || u == nil || len(u.Devices) != 2 {
			t.Errorf("%s: use %+v: %v", release, u, err)
		}
		if all, err := rundir.ReadSummaries(dir.SummaryDir()); err != nil || len(all) != 1 {
			t.Errorf("%s: summaries %+v: %v", release, all, err)
		}
	}
}

// TestReleaseFields holds that each field of each release's files is there with the same name and the same kind of
// value, also if no recorded file has it.
func TestReleaseFields(t *testing.T) {
	var now []string
	for _, f := range releaseFiles {
		now = append(now, fieldLines(f.pattern, f.fields, f.tag)...)
	}
	slices.Sort(now)
	now = slices.Compact(now)
	if path := filepath.Join(releases, version.Number, "fields.txt"); *record {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			t.Fatalf("a release is recorded once: %v", err)
		}
		if _, err := file.WriteString(strings.Join(now, "\n") + "\n"); errors.Join(err, file.Close()) != nil {
			t.Fatal(err)
		}
	}
	for _, release := range recorded(t) {
		text, err := os.ReadFile(filepath.Join(releases, release, "fields.txt"))
		if err != nil {
			t.Fatal(err)
		}
		old := strings.Split(strings.TrimSpace(string(text)), "\n")
		if len(old) < 200 {
			t.Errorf("%s has %d fields", release, len(old))
		}
		for _, line := range old {
			if _, is := slices.BinarySearch(now, line); !is {
				t.Errorf("%s wrote a field that is gone, renamed or of another kind now: %s", release, line)
			}
		}
		if release == version.Number && len(now) > len(old) {
			t.Errorf("%s has %d fields, %d of them are recorded: before the release delete %s and run record.sh again; after it raise the Number of cmd/version", release, len(now), len(old), filepath.Join(releases, release))
		}
	}
}

// recorded returns the recorded releases. This one must be among them.
func recorded(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(releases, "*/fields.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, path := range paths {
		all = append(all, filepath.Base(filepath.Dir(path)))
	}
	if !slices.Contains(all, version.Number) {
		t.Fatalf("release %s is not recorded: run testdata/releases/record.sh, and commit what it writes", version.Number)
	}
	return all
}

func decoded(t *testing.T, text []byte, tag string) any {
	t.Helper()
	read := json.Unmarshal
	if tag == "yaml" {
		read = yaml.Unmarshal
	}
	var v any
	if err := read(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// missing returns what old has and next does not have, as PATH: VALUE.
func missing(path string, old, next any) (lost []string) {
	switch old := old.(type) {
	case map[string]any:
		other, _ := next.(map[string]any)
		for key, value := range old {
			if _, is := other[key]; !is {
				lost = append(lost, fmt.Sprintf("%s.%s is lost, it was %v", path, key, value))
				continue
			}
			lost = append(lost, missing(path+"."+key, value, other[key])...)
		}
	case []any:
		other, _ := next.([]any)
		if len(old) != len(other) {
			return []string{fmt.Sprintf("%s has %d values, it had %d", path, len(other), len(old))}
		}
		for i := range old {
			lost = append(lost, missing(fmt.Sprintf("%s[%d]", path, i), old[i], other[i])...)
		}
	default:
		if !reflect.DeepEqual(old, next) {
			lost = append(lost, fmt.Sprintf("%s is %v, it was %v", path, next, old))
		}
	}
	return lost
}

// fieldLines returns a line for each field of a type, as it is in a document: FILE PATH KIND.
func fieldLines(path string, of reflect.Type, tag string) (lines []string) {
	leaf := func(kind string) []string { return []string{path + " " + kind} }
	switch {
	case of.Kind() == reflect.Pointer:
		return fieldLines(path, of.Elem(), tag)
	case of == reflect.TypeFor[time.Time](), of == reflect.TypeFor[time.Duration]():
		return leaf("time")
	case of.Implements(reflect.TypeFor[encoding.TextMarshaler]()), reflect.PointerTo(of).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return leaf("text")
	}
	switch of.Kind() {
	case reflect.Slice, reflect.Array:
		return fieldLines(path+"[]", of.Elem(), tag)
	case reflect.Map:
		return fieldLines(path+"{}", of.Elem(), tag)
	case reflect.Struct:
		for i := range of.NumField() {
			f := of.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get(tag), ",")
			switch inline := options == "inline" || f.Anonymous && name == ""; {
			case inline:
				lines = append(lines, fieldLines(path, f.Type, tag)...)
			case name != "-" && name != "" && f.IsExported():
				lines = append(lines, fieldLines(path+" "+name, f.Type, tag)...)
			}
		}
		return lines
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return leaf("number")
	}
	return leaf(of.Kind().String())
}
