package config

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

//go:generate go test -run ^TestValuesSchema$ . -update

// TestValuesSchema holds that the schema of the Helm chart's values takes the keys of this
// package below config, and no others. -update writes them.
func TestValuesSchema(t *testing.T) {
	const path = "../../../manifests/chart/values.schema.json"
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(old, &schema); err != nil {
		t.Fatal(err)
	}
	docs := docsOf(t, ".", "../../../imex", "../../../slurmconf/publisher/publication")
	schema["properties"].(map[string]any)["config"] = schemaOf("", configType, "The configuration of agents and publisher", docs)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(schema); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(old), out.String()); diff != "" {
		t.Errorf("%s differs from the code (-file +code); run go generate ./...\n%s", path, diff)
	}
}

// schemaOf returns the JSON Schema of a section, or of a value.
func schemaOf(key string, t reflect.Type, description string, docs map[string]string) map[string]any {
	s := map[string]any{"description": description}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case hasKeys(t):
		properties := map[string]any{}
		for name, f := range fieldsOf(t) {
			owner := t
			if len(f.Index) > 1 {
				owner = t.FieldByIndex(f.Index[:len(f.Index)-1]).Type
			}
			properties[name] = schemaOf(below(key, name), f.Type, meaning(docs[owner.Name()+"."+f.Name], f.Name), docs)
		}
		s["type"], s["additionalProperties"], s["properties"] = "object", false, properties
	case t == reflect.TypeFor[time.Duration](), t == reflect.TypeFor[publication.Duration]():
		s["type"], s["pattern"] = "string", `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	case t.Kind() == reflect.Bool:
		s["type"] = "boolean"
	case t.Kind() == reflect.Int:
		s["type"] = "integer"
	case t.Kind() == reflect.Float64:
		s["type"] = "number"
	case t.Kind() == reflect.Map:
		s["type"], s["additionalProperties"] = "object", map[string]any{"type": "string"}
		if hasKeys(t.Elem()) {
			s["additionalProperties"] = schemaOf(key, t.Elem(), "A publication", docs)
		}
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(key, t.Elem(), "One of them", docs)
	default:
		s["type"] = "string"
		if words := wordsOf(strings.TrimPrefix(strings.TrimPrefix(key, defaultsKey), publicationsKey)); words != nil {
			s["enum"] = words
		}
	}
	return s
}

// wordsOf returns the only words that a key takes, or nil.
func wordsOf(key string) []string {
	switch key {
	case "imex.join":
		return []string{imex.JoinAuto, imex.JoinHolder, imex.JoinSlurmd, imex.JoinHost, imex.JoinNone}
	case ".slurmVersion":
		var releases []string
		for _, r := range slurmconf.Releases() {
			releases = append(releases, r.String())
		}
		return releases
	case ".format":
		return []string{"conf", "yaml"}
	}
	return nil
}
