package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

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
		s["type"], s["minimum"] = "integer", 0 // all are numbers of things
	case t.Kind() == reflect.Float64:
		s["type"] = "number"
	case t.Kind() == reflect.Map:
		s["type"], s["additionalProperties"] = "object", map[string]any{"type": "string"}
		if t.Elem().Kind() == reflect.Slice {
			s["additionalProperties"] = schemaOf(key, t.Elem(), "The list of one name", docs)
		}
		if t.Elem().Kind() == reflect.Int {
			s["additionalProperties"] = map[string]any{"type": "integer", "minimum": 0}
		}
		if hasKeys(t.Elem()) {
			s["additionalProperties"], s["propertyNames"] = schemaOf(key, t.Elem(), "A publication", docs), map[string]any{"pattern": "^" + dnsLabel + "$"}
		}
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(key, t.Elem(), "One of them", docs)
	default:
		s["type"] = "string"
		key = strings.TrimPrefix(strings.TrimPrefix(key, defaultsKey), publicationsKey)
		if words := wordsOf(key); words != nil {
			s["enum"] = words
		}
		maps.Copy(s, namesOf(key))
	}
	return s
}

// The forms of names that Kubernetes takes. The chart makes objects with these names, and
// Kubernetes would refuse some of the objects after it has made others.
const (
	dnsLabel   = `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`
	dnsPart    = `[a-z0-9]([a-z0-9-]*[a-z0-9])?`
	controller = `(` + dnsLabel + `/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?`
)

// namesOf returns what the schema says of a key that names objects of Kubernetes. Empty is the
// default.
func namesOf(key string) map[string]any {
	switch key {
	case ".namespace", "imex.namespace", "publisher.namespace":
		return map[string]any{"pattern": "^(" + dnsLabel + ")?$"}
	case ".configMap":
		return map[string]any{"pattern": "^(" + dnsPart + `(\.` + dnsPart + ")*)?$", "maxLength": 253}
	case "imex.name", "imex.claimTemplate":
		return map[string]any{"pattern": "^(" + dnsLabel + `(\.` + dnsLabel + ")*)?$", "maxLength": 253}
	case ".nodes.slinky":
		return map[string]any{"pattern": "^(" + controller + ")?$"}
	case ".slurmNames":
		return map[string]any{"if": map[string]any{"pattern": "^slinky(:|$)"}, "then": map[string]any{"pattern": "^slinky(:" + controller + ")?$"}}
	}
	return nil
}

// wordsOf returns the only words that a key takes, or nil.
func wordsOf(key string) []string {
	switch key {
	case "imex.join":
		return []string{imex.JoinAuto, imex.JoinHolder, imex.JoinSlurmd, imex.JoinHost, imex.JoinNone}
	case ".slurmVersion":
		releases := []string{""}
		for _, r := range slurmconf.Releases() {
			releases = append(releases, r.String())
		}
		return releases
	case ".format":
		return []string{"conf", "yaml"}
	}
	return nil
}

// TestValuesNames holds that the schema and the programs refuse the same names and numbers.
func TestValuesNames(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../../manifests/chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 63)
	names := []string{"", "a", "a-1", long, long + "a", "-a", "a-", "Slurm", "quoin_node", "a b", "a.b", "a..b", "a.-b", long + "." + long, long + "a.b", strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 126) + "aa",
		"s/c", "s/C_1", "S/c", "s/c/d", "/c", "s/", "slinky", "slinky:c", "slinky:", "slinky:s/C_1", "slinky:S/c", "slinkyc", "short", "label:a/b", "s/a/b/"}
	for key, values := range map[string][]string{
		"publicationDefaults.namespace": names, "publicationDefaults.configMap": names, "publications.x.namespace": names, "publications.x.configMap": names,
		"publicationDefaults.nodes.slinky": names, "publications.x.nodes.slinky": names, "imex.namespace": names, "imex.name": names, "imex.claimTemplate": names,
		"publicationDefaults.slurmNames":    {"", "short", "full", "slinky", "slinky:c", "slinky:", "slinky:s/C_1", "slinky:S/c", "slinky:s/c/d", "label:a/b", "s/a/b/"},
		"publicationDefaults.baseBlockSize": {"-1", "0", "18"}, "publications.x.minBlockNodes": {"-1", "2"}, "publications.x.parentBlocks": {"-2", "4"}, "publications.x.blockSizes": {"[-18]", "[18]"},
	} {
		for _, value := range values {
			text := key + ": " + value
			set := Setting{Key: key, Value: value, Flag: "--set"}
			if _, err := strconv.Atoi(strings.Trim(value, "[]")); err != nil {
				value = strconv.Quote(value)
			}
			document := value
			for _, name := range slices.Backward(strings.Split("config."+key, ".")) {
				document = "{" + strconv.Quote(name) + ":" + document + "}"
			}
			values, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
			if err != nil {
				t.Fatal(err)
			}
			refused := schema.Validate(values)
			if _, err := Load(Default(), "", []Setting{set}); (err == nil) != (refused == nil) {
				t.Errorf("%s: the programs say %v, the schema %v", text, err, refused)
			}
		}
	}
	for _, name := range names[1:] { // to the programs "" is the default one
		values, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"config":{"publications":{` + strconv.Quote(name) + `:{}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		refused := schema.Validate(values)
		if _, err := Parse(Default(), "quoin.yaml", []byte(`publications: {`+strconv.Quote(name)+`: {}}`), nil); (err == nil) != (refused == nil) {
			t.Errorf("publication %q: the programs say %v, the schema %v", name, err, refused)
		}
	}
}
