package manifests_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// differences names the fields of want that got has not, or has with another value. Fields that
// only got has are defaults and status.
func differences(path string, want, got any) []string {
	var out []string
	switch want := want.(type) {
	case map[string]any:
		has, _ := got.(map[string]any)
		for key, value := range want {
			out = append(out, differences(path+"."+key, value, has[key])...)
		}
	case []any:
		has, _ := got.([]any)
		if len(has) != len(want) {
			return []string{fmt.Sprintf("%s: want %d items, got %d", path, len(want), len(has))}
		}
		for i, value := range want {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), value, has[i])...)
		}
	case nil:
	default:
		if fmt.Sprint(want) != fmt.Sprint(got) {
			out = append(out, fmt.Sprintf("%s: want %v, got %v", path, want, got))
		}
	}
	slices.Sort(out)
	return out
}

// TestRealNoDifferences holds what Argo CD sees: the API server keeps each field of each object as
// the chart has it, and no role lets a program write an object of the chart by
// name.
func TestRealNoDifferences(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	if err := c.ApplyCRDs(t.Context(), kuberig.Monitoring); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"quoin", "chart", "--namespace", "quoin-system", "--set", kuberig.Image, "-f", "chart/presets/slinky.yaml", "-f", "chart/presets/gpu-operator.yaml"}, monitored...)
	if out, err := kuberig.Helm(t, append([]string{"install", "--create-namespace", "--kubeconfig", c.Kubeconfig()}, args...)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rendered, err := kuberig.Helm(t, append([]string{"template"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	objects, writable := map[string]bool{}, map[string]string{}
	for document := range strings.SplitSeq("\n"+rendered, "\n---\n") {
		var o chartObject
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind == "" {
			continue
		}
		objects[strings.ToLower(o.Kind)+"s "+o.Metadata.Name] = true
		for _, rule := range o.Rules {
			for _, name := range rule.ResourceNames {
				if slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb != "get" && verb != "list" && verb != "watch" }) {
					writable[rule.Resources[0]+" "+name] = o.Metadata.Name
				}
			}
		}
		now, err := c.Objects().Now(t.Context(), document)
		if err != nil {
			t.Fatal(err)
		}
		out, err := now.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, difference := range differences("", readValues(t, document), readValues(t, string(out))) {
			t.Errorf("%s %s%s", o.Kind, o.Metadata.Name, difference)
		}
	}
	if len(objects) < 30 || len(writable) < 3 {
		t.Errorf("the chart renders %d objects, and lets its programs write %v", len(objects), writable)
	}
	for name, role := range writable {
		if objects[name] {
			t.Errorf("role %s lets its subject write %s, which is an object of the chart", role, name)
		}
	}
}

// chartObject is what is read of any object.
type chartObject struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Rules    []struct {
		Resources, Verbs []string
		ResourceNames    []string `yaml:"resourceNames"`
	}
}

// readValues reads YAML or JSON. A number has the same form from both.
func readValues(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
