package manifests_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

const schemaFile = "schema/report.schema.json"

// schema is the part of JSON Schema that gives a document its shape.
type schema struct {
	Type                 string
	Title, Description   string
	Properties           map[string]*schema
	Required             []string
	Items                *schema
	AdditionalProperties *bool
}

// shape is the type of every field by its path, and whether it is required. The
// fields of an array's entries are below "[]".
type shape map[string]string

func (s shape) add(path, name, kind string, required bool) string {
	need := "optional"
	if required {
		need = "required"
	}
	path = strings.TrimPrefix(path+"."+name, ".")
	s[path] = need + " " + kind
	return path
}

func (s shape) ofSchema(t *testing.T, path string, of *schema) {
	t.Helper()
	if of.Title == "" || of.Description == "" {
		t.Errorf("%q has no title or no description", path)
	}
	if of.Type == "object" && (of.AdditionalProperties == nil || *of.AdditionalProperties) {
		t.Errorf("%q takes unknown keys", path)
	}
	for _, name := range of.Required {
		if of.Properties[name] == nil {
			t.Errorf("%q requires %q, which it does not have", path, name)
		}
	}
	for name, p := range of.Properties {
		s.ofSchema(t, s.add(path, name, p.Type, slices.Contains(of.Required, name)), p)
	}
	if of.Items != nil {
		s.ofSchema(t, s.add(path, "[]", of.Items.Type, true), of.Items)
	}
}

func (s shape) ofGo(path string, of reflect.Type) {
	switch kindOf(of) {
	case "object":
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		for _, f := range reflect.VisibleFields(of) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "-" {
				continue
			}
			s.ofGo(s.add(path, name, kindOf(f.Type), options == ""), f.Type)
		}
	case "array":
		s.ofGo(s.add(path, "[]", kindOf(of.Elem()), true), of.Elem())
	}
}

// kindOf is what JSON calls the values that a Go type is written as.
func kindOf(of reflect.Type) string {
	switch {
	case of.Implements(reflect.TypeFor[encoding.TextMarshaler]()), of.Kind() == reflect.String:
		return "string"
	case of.Kind() == reflect.Pointer:
		return kindOf(of.Elem())
	case of.Kind() == reflect.Struct:
		return "object"
	case of.Kind() == reflect.Slice:
		return "array"
	case of.Kind() == reflect.Bool:
		return "boolean"
	case reflect.Zero(of).CanInt(), reflect.Zero(of).CanUint():
		return "integer"
	}
	return of.String()
}

func schemaShape(t *testing.T) shape {
	t.Helper()
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	s := shape{}
	s.ofSchema(t, "", &root)
	return s
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func document(t *testing.T, text []byte) any {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestSchemaIsTheType holds that the schema has the fields of the Go type, and
// no others.
func TestSchemaIsTheType(t *testing.T) {
	want := shape{"apiVersion": "required string", "kind": "required string"}
	want.ofGo("", reflect.TypeFor[topology.Node]())
	if diff := cmp.Diff(want, schemaShape(t)); diff != "" {
		t.Errorf("%s (-Go type +schema)\n%s", schemaFile, diff)
	}
}

// TestSchemaTakesReports validates what every shipped site's machines report,
// at every moment of its day.
func TestSchemaTakesReports(t *testing.T) {
	s := compileSchema(t)
	for _, name := range simulated.Shipped() {
		t.Run(name, func(t *testing.T) {
			c := sites.Open(t, name)
			for moment := 0; ; moment++ {
				for _, m := range c.Machines() {
					if m.Report == nil {
						continue
					}
					text, err := topology.EncodeReport(m.Report)
					if err != nil {
						t.Fatal(err)
					}
					if err := s.Validate(document(t, text)); err != nil {
						t.Errorf("moment %d: %v\n%s", moment, err, text)
					}
				}
				if moment == len(c.Steps) {
					break
				}
				c.Apply(c.Steps[moment])
			}
		})
	}
}

// everything is a report that has every field.
const everything = `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"n1","bootID":"b","fabricMode":1,"imexNodes":18,
"domain":"8a61c302-0000-4000-8000-000000000001.1","domainChanged":true,"earlierClique":"8a61c302-0000-4000-8000-000000000001.5","driverVersion":"580","nvmlVersion":"13","cudaVersion":"13.0",
"gpus":[{"index":0,"uuid":"GPU-1","minor":0,"pciBusID":"00000000:07:00.0","product":"NVIDIA GB200","memoryMiB":189471,"numaNode":0,"cpuAffinity":"0-3",
"xids":[79],"recovery":"resetGPU",
"links":{"switch":1,"ibmnpu":1,"unknown":1,"gpus":[{"pciBusID":"00000000:0A:00.0","count":4}]},
"mig":[{"uuid":"MIG-1","profile":"1g.10gb","gpuInstanceID":1,"computeInstanceID":0,"capabilities":["/dev/nvidia-caps/nvidia-cap21"]}],"migEmpty":true,"dcgmID":0,
"fabric":{"clusterUUID":"8a61c302-0000-4000-8000-000000000001","cliqueID":1,"state":"completed","status":"ERROR_UNKNOWN","health":"healthy",
"healthFields":{"degradedBandwidth":true,"routeRecovery":false,"routeUnhealthy":false,"accessTimeoutRecovery":false,"partitionAssigned":true,"incorrectConfiguration":"none"}}}],
"sockets":[{"cpus":"0-3","cores":4}],
"platform":{"chassisSerial":"18","rackGUID":"0001fe00000000000000000000000000","slot":1,"tray":0,"hostID":1},"imex":{"channelMajor":234,"channels":2048,"daemonState":"READY","domainState":"UP","daemonAddress":"10.0.0.1","daemonFault":"it has not started since the machine booted","peers":[{"address":"10.0.0.4","name":"n4","state":"dead"}],"hostService":true},"tiers":["leaf-01"],
"adapters":[{"name":"mlx5_0","model":"MT4129","nodeGUID":"946dae0300001234","pciBusID":"00000000:18:00.0","numaNode":0,"gpus":["00000000:1B:00.0"],"netDevs":["ibp24s0"],
"ports":[{"port":1,"guid":"946dae0300001234","linkLayer":"InfiniBand","rateGbps":400,"neighbor":{"chassisID":"1c:34:da:00:00:01","portID":"swp7","systemName":"leaf-01"}}]}],
"problems":[{"node":"n1","reason":"GPULost","message":"gone"}]}`

// edit returns v with what is at path changed.
func edit(v any, path string, change func(any) any) any {
	if path == "" {
		return change(v)
	}
	key, rest, _ := strings.Cut(path, ".")
	switch v := v.(type) {
	case map[string]any:
		v[key] = edit(v[key], rest, change)
	case []any:
		v[0] = edit(v[0], rest, change)
	}
	return v
}

// breakage is one thing that makes a report a bad one.
type breakage struct {
	name, path string
	change     func(any) any
}

func to(value any) func(any) any { return func(any) any { return value } }

// breakages break a report in every way that its shape allows, and in its values.
func breakages(t *testing.T) []breakage {
	t.Helper()
	without := func(key string) func(any) any {
		return func(v any) any { delete(v.(map[string]any), key); return v }
	}
	const fabric = "gpus.[].fabric"
	broken := []breakage{
		{"no apiVersion", "", without("apiVersion")},
		{"another apiVersion", "apiVersion", to("quoin.dev/v2")},
		{"no kind", "", without("kind")},
		{"another kind", "kind", to("Node")},
		{"no name", "", without("node")},
		{"empty name", "node", to("")},
		{"minor below zero", "gpus.[].minor", to(json.Number("-1"))},
		{"minor too big", "gpus.[].minor", to(json.Number("1048577"))},
		{"memory below zero", "gpus.[].memoryMiB", to(json.Number("-1"))},
		{"links below zero", "gpus.[].links.switch", to(json.Number("-1"))},
		{"too many links to unknown ends", "gpus.[].links.unknown", to(json.Number("65"))},
		{"too many links to processors", "gpus.[].links.ibmnpu", to(json.Number("65"))},
		{"too many links to a GPU", "gpus.[].links.gpus.[].count", to(json.Number("65"))},
		{"clique below zero", fabric + ".cliqueID", to(json.Number("-1"))},
		{"clique too big", fabric + ".cliqueID", to(json.Number("4294967296"))},
		{"no state", fabric, without("state")},
		{"unknown state", fabric + ".state", to("almost")},
		{"unknown health", fabric + ".health", to("fine")},
		{"an adapter without a name", "adapters.[]", without("name")},
		{"an empty name of an adapter", "adapters.[].name", to("")},
		{"a GUID of 15 digits", "adapters.[].nodeGUID", to("946dae030000123")},
		{"a GUID in upper case", "adapters.[].ports.[].guid", to("946DAE0300001234")},
		{"a GUID with colons", "adapters.[].ports.[].guid", to("946d:ae03:0000:1")},
		{"port 0", "adapters.[].ports.[].port", to(json.Number("0"))},
		{"unknown link layer", "adapters.[].ports.[].linkLayer", to("Infiniband")},
		{"rate below zero", "adapters.[].ports.[].rateGbps", to(json.Number("-1"))},
	}
	for _, uuid := range []string{"", "zz", "8a61c30200004000800000000000000001", "8a61c302-0000-4000-8000-00000000000g",
		"8a61c302-0000-4000-8000-0000000000011", "8a61c302-000-04000-8000-000000000001", "x8a61c302-0000-4000-8000-000000000001"} {
		broken = append(broken, breakage{"UUID " + uuid, fabric + ".clusterUUID", to(uuid)})
	}
	for _, domain := range []string{"", "N/A", "8a61c302-0000-4000-8000-000000000001", "8a61c302-0000-4000-8000-000000000001.01", "8a61c302-0000-4000-8000-000000000001.-1", "8a61c302-0000-4000-8000-00000000001.1", "None", "none.1"} {
		broken = append(broken, breakage{"domain " + domain, "domain", to(domain)})
	}
	for path, field := range schemaShape(t) {
		switch _, kind, _ := strings.Cut(field, " "); kind {
		case "object":
			broken = append(broken, breakage{"text for " + path, path, to("x")})
		case "array":
			broken = append(broken, breakage{"an object for " + path, path, to(map[string]any{})})
		case "string":
			broken = append(broken, breakage{"a number for " + path, path, to(json.Number("7"))})
		case "boolean":
			broken = append(broken, breakage{"text for " + path, path, to("true")}, breakage{"a number for " + path, path, to(json.Number("1"))})
		case "integer":
			broken = append(broken, breakage{"text for " + path, path, to("7")}, breakage{"a fraction for " + path, path, to(json.Number("1.5"))})
		}
	}
	return broken
}

// unknownKeys add a key that nobody knows at every place. The schema refuses such a report, so that tests find a
// name that was mistyped. The parser leaves the key out, because the writer may be newer.
func unknownKeys(t *testing.T) (added []breakage) {
	t.Helper()
	add := func(v any) any { v.(map[string]any)["color"] = json.Number("1"); return v }
	added = append(added, breakage{"unknown key", "", add})
	for path, field := range schemaShape(t) {
		if _, kind, _ := strings.Cut(field, " "); kind == "object" {
			added = append(added, breakage{"unknown key in " + path, path, add})
		}
	}
	return added
}

// TestSchemaRefuses breaks a report: the schema and the parser refuse the same, but for unknown keys.
func TestSchemaRefuses(t *testing.T) {
	s := compileSchema(t)
	check := func(b breakage, taken bool) {
		t.Run(b.name, func(t *testing.T) {
			doc := edit(document(t, []byte(everything)), b.path, b.change)
			text, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			if s.Validate(doc) == nil {
				t.Errorf("the schema takes %s", text)
			}
			if _, err := topology.ParseReport("r", text); (err == nil) != taken {
				t.Errorf("the parser says %v of %s", err, text)
			}
		})
	}
	for _, b := range breakages(t) {
		check(b, false)
	}
	for _, b := range unknownKeys(t) {
		check(b, true)
	}
}

// TestSchemaTakesEverything holds that the report which the others break is
// whole, and that the schema has every value that the parser takes.
func TestSchemaTakesEverything(t *testing.T) {
	has := shape{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				walk(has.add(path, key, "", false), value)
			}
		case []any:
			walk(has.add(path, "[]", "", false), v[0])
		}
	}
	walk("", document(t, []byte(everything)))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(schemaShape(t))), slices.Sorted(maps.Keys(has))); diff != "" {
		t.Errorf("fields of the report (-schema +report)\n%s", diff)
	}
	s := compileSchema(t)
	number := func(n string) any { return json.Number(n) }
	for path, values := range map[string][]any{
		"domain":                     {"8A61C302-0000-4000-8000-00000000000F.0", "8a61c302-0000-4000-8000-000000000001.4294967295", "none"},
		"gpus.[].minor":              {number("0"), number("1048575")},
		"gpus.[].memoryMiB":          {number("18446744073709551615")},
		"gpus.[].fabric.clusterUUID": {"8A61C302-0000-4000-8000-00000000000F", topology.UUID{}.String()},
		"gpus.[].fabric.cliqueID":    {number("0"), number("4294967295")},
		"gpus.[].fabric.state":       {string(topology.FabricNotSupported), string(topology.FabricNotStarted), string(topology.FabricInProgress), string(topology.FabricCompleted)},
		"gpus.[].fabric.health":      {string(topology.HealthHealthy), string(topology.HealthUnhealthy), string(topology.HealthLimitedCapacity)},
	} {
		for _, value := range values {
			doc := edit(document(t, []byte(everything)), path, func(any) any { return value })
			text, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(doc); err != nil {
				t.Errorf("%s %v: %v", path, value, err)
			}
			if _, err := topology.ParseReport("r", text); err != nil {
				t.Errorf("%s %v: %v", path, value, err)
			}
		}
	}
}
