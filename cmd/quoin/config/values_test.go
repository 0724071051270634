package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
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
	if name, is := strings.CutPrefix(key, publicationsKey+"."); is { // the keys are those of all publications
		key = below(defaultsKey, name)
	}
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
		maps.Copy(s, boundsOf(key))
	case t.Kind() == reflect.Float64:
		s["type"] = "number"
		maps.Copy(s, boundsOf(key))
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
		if words := wordsOf(key); words != nil {
			s["enum"] = words
		}
		maps.Copy(s, namesOf(strings.TrimPrefix(key, defaultsKey)))
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

// refusal is what the programs say of a value of a key, "" if they take it.
func refusal(key, value string) string {
	if _, err := Load(Default(), "", []Setting{{Key: key, Value: value, Flag: SetFlag}}); err != nil {
		return err.Error()
	}
	return ""
}

// A list of words as programs say it, such as "a, b, or nothing for c".
var (
	betweenWords = regexp.MustCompile(`,? or |, `)
	oneWord      = regexp.MustCompile(`^[A-Za-z]+$`)
)

// wordsOf returns the only words that a key takes, or nil. The programs list them if they are given another one.
func wordsOf(key string) []string {
	if key == defaultsKey+".slurmVersion" { // the programs take a release with more digits too
		releases := []string{""}
		for _, r := range slurmconf.Releases() {
			releases = append(releases, r.String())
		}
		return releases
	}
	_, list, _ := strings.Cut(refusal(key, "no-such-word"), ": want ")
	words := betweenWords.Split(list, -1)
	for i, word := range words {
		if strings.HasPrefix(word, "nothing") {
			words[i] = ""
		} else if !oneWord.MatchString(word) {
			return nil
		}
	}
	if !slices.Contains(words, "") && refusal(key, "") == "" {
		words = append(words, "")
	}
	return words
}

// boundsOf returns the least and the greatest number that a key takes. The programs are asked about the whole numbers at
// powers of two. If the programs refuse all of them alone, the key counts things: it is at least 0.
func boundsOf(key string) map[string]any {
	numbers := []int{-1, 0, 1}
	for power := 4; power < 1<<30; power *= 2 {
		numbers = append(numbers, power-1, power)
	}
	var taken []int
	for _, n := range numbers {
		if refusal(key, strconv.Itoa(n)) == "" {
			taken = append(taken, n)
		}
	}
	if len(taken) == 0 {
		return map[string]any{"minimum": 0}
	}
	bounds := map[string]any{}
	if least := taken[0]; least != numbers[0] {
		bounds["minimum"] = least
	}
	if greatest := taken[len(taken)-1]; greatest != numbers[len(numbers)-1] {
		bounds["maximum"] = greatest
	}
	return bounds
}

// TestValuesRefused holds that the schema and the programs refuse the same names, words and numbers.
func TestValuesRefused(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../../manifests/chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 63)
	names := []string{"", "a", "a-1", long, long + "a", "-a", "a-", "Slurm", "quoin_node", "a b", "a.b", "a..b", "a.-b", long + "." + long, long + "a.b", strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 126) + "aa",
		"s/c", "s/C_1", "S/c", "s/c/d", "/c", "s/", "slinky", "slinky:c", "slinky:", "slinky:s/C_1", "slinky:S/c", "slinkyc", "short", "label:a/b", "s/a/b/"}
	tried := map[string][]string{
		"publicationDefaults.namespace": names, "publicationDefaults.configMap": names, "publications.x.namespace": names, "publications.x.configMap": names,
		"publicationDefaults.nodes.slinky": names, "publications.x.nodes.slinky": names, "imex.namespace": names, "imex.name": names, "imex.claimTemplate": names,
		"publicationDefaults.slurmNames":    {"", "short", "full", "slinky", "slinky:c", "slinky:", "slinky:s/C_1", "slinky:S/c", "slinky:s/c/d", "label:a/b", "s/a/b/"},
		"publicationDefaults.baseBlockSize": {"-1", "0", "18", "65535", "65536"}, "publications.x.parentBlocks": {"-2", "4", "65536"},
		"publications.x.blockSizes": {"[-18]", "[18]"}, "publicationDefaults.maxChange": {"-0.1", "0", "0.2", "1", "1.01", "20"}, "publications.x.maxChange": {"0.2", "20"},
		"publications.x.topology": {"", "tree", "ring"}, "publications.x.gres.naming": {"full", "long"}, "publications.x.gres.autoDetect": {"", "off", "on"},
	}
	needsMore := func(word string) bool { return word == rundir.GateHold || word == imex.JoinSlurmd } // another key too
	lists := 0
	for _, key := range Keys() {
		if words := wordsOf(key); words != nil && words[0] != "true" { // a truth value is no text
			lists++
			tried[key] = append(slices.DeleteFunc(words, needsMore), "no-such-word")
		}
	}
	if lists < 13 {
		t.Errorf("%d keys take only words of a list", lists)
	}
	for key, values := range tried {
		for _, value := range values {
			text := key + ": " + value
			set := Setting{Key: key, Value: value, Flag: "--set"}
			if !json.Valid([]byte(value)) || strings.HasSuffix(key, ".slurmVersion") {
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
