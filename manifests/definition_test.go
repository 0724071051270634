package manifests_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

const definitionFile = "chart/files/nodereports.yaml"

// structural is a part of a structural schema of Kubernetes, in the order of its file.
type structural struct {
	Description string                 `yaml:"description,omitempty"`
	Type        string                 `yaml:"type"`
	Format      string                 `yaml:"format,omitempty"`
	Enum        []string               `yaml:"enum,omitempty,flow"`
	Pattern     string                 `yaml:"pattern,omitempty"`
	Minimum     *int64                 `yaml:"minimum,omitempty"`
	Maximum     *int64                 `yaml:"maximum,omitempty"`
	MinLength   *int                   `yaml:"minLength,omitempty"`
	MaxLength   *int                   `yaml:"maxLength,omitempty"`
	MaxItems    *int                   `yaml:"maxItems,omitempty"`
	Items       *structural            `yaml:"items,omitempty"`
	Required    []string               `yaml:"required,omitempty,flow"`
	Properties  map[string]*structural `yaml:"properties,omitempty"`
	Rules       []map[string]string    `yaml:"x-kubernetes-validations,omitempty"`
}

// written is what the definition takes from the report's JSON Schema: words and values.
// The Go type says form and sizes.
type written struct {
	Description string
	Enum        []string
	Pattern     string
	Minimum     *int64
	Maximum     *int64
	MinLength   *int
	Properties  map[string]*written
	Items       *written
}

// structuralOf returns the schema of a Go type. limit is the tag max of its field.
func structuralOf(of reflect.Type, limit string, words *written) *structural {
	if words == nil {
		words = &written{}
	}
	s := &structural{Description: words.Description, Type: kindOf(of), Enum: words.Enum, Pattern: words.Pattern, Minimum: words.Minimum, Maximum: words.Maximum, MinLength: words.MinLength}
	most, err := strconv.Atoi(cmp.Or(limit, strconv.Itoa(topology.MaxText)))
	if err != nil {
		panic(err)
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch s.Type {
	case "string":
		s.MaxLength = &most
	case "integer":
		s.Format = "int64"
	case "array":
		s.MaxItems = &most
		s.Items = structuralOf(of.Elem(), "", words.Items)
	case "object":
		s.Properties = map[string]*structural{}
		for _, f := range reflect.VisibleFields(of) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "-" {
				continue
			}
			if options == "" {
				s.Required = append(s.Required, name)
			}
			s.Properties[name] = structuralOf(f.Type, f.Tag.Get("max"), words.Properties[name])
		}
	}
	return s
}

// reportSchema returns the schema of a report's own keys.
func reportSchema(t *testing.T) *structural {
	t.Helper()
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var words written
	if err := json.Unmarshal(data, &words); err != nil {
		t.Fatal(err)
	}
	return structuralOf(reflect.TypeFor[topology.Node](), "", &words)
}

// definition returns the CustomResourceDefinition of reports.
func definition(t *testing.T) []byte {
	t.Helper()
	root := reportSchema(t)
	for _, name := range []string{"apiVersion", "kind"} {
		root.Properties[name] = &structural{Type: "string"}
	}
	root.Properties["metadata"] = &structural{Type: "object"}
	root.Properties["summary"] = structuralOf(reflect.TypeFor[nodereport.Summary](), "", &written{Description: "What kubectl get shows. Quoin never reads it."})
	root.Rules = []map[string]string{{"rule": "self.node == self.metadata.name", "message": "a NodeReport is named as its node"}}
	group, version, _ := strings.Cut(topology.APIVersion, "/")
	column := func(name, kind, path, description string) map[string]any {
		return map[string]any{"name": name, "type": kind, "jsonPath": path, "description": description}
	}
	wide := func(column map[string]any) map[string]any {
		column["priority"] = 1
		return column
	}
	var out bytes.Buffer
	out.WriteString("# One report per node, written by its agent. Made from the Go type topology.Node by go generate ./manifests.\n")
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": nodereport.Definition,
			// Without the definition all reports would be deleted.
			"annotations": map[string]string{"helm.sh/resource-policy": "keep"},
			"labels":      map[string]string{keep: "true"},
		},
		"spec": map[string]any{
			"group": group,
			"scope": "Cluster",
			"names": map[string]any{"kind": topology.ReportKind, "listKind": topology.ReportKind + "List", "plural": nodereport.Resource, "singular": "nodereport"},
			"versions": []any{map[string]any{
				"name": version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": root},
				"additionalPrinterColumns": []any{
					column("GPUs", "integer", ".summary.gpus", "GPUs of the node"),
					column("Clique", "string", ".domain", "confirmed NVLink domain"),
					column("Fabric", "string", ".summary.fabric", "fabric of the GPU with the worst one"),
					column("IMEX", "string", ".imex.daemonState", "state of the node's IMEX daemon"),
					wide(column("Adapters", "integer", ".summary.adapters", "RDMA network adapters of the node")),
					column("Problems", "integer", ".summary.problems", "what is wrong or could not be read"),
					column("Age", "date", ".metadata.creationTimestamp", "since the first report"),
				},
			}},
		},
	}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestDefinition holds the definition against the Go type. -update writes it.
func TestDefinition(t *testing.T) {
	want := definition(t)
	if *update {
		if err := os.WriteFile(definitionFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(definitionFile); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from topology.Node (%v): go generate ./manifests", definitionFile, err)
	}
}
