package manifests_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// The plain YAML has the definition in it.
//
//go:generate go test -run ^TestDefinition$ . -update
//go:generate go test -run ^TestPlain$ . -update

// keep is the label of what stays when Quoin is uninstalled, for whoever uninstalls without Helm.
const keep = "quoin.dev/keep"

// monitored are the values that bring scraping, rules and dashboards.
var monitored = []string{"--set", "podMonitor.enabled=true,prometheusRule.enabled=true,dashboards.enabled=true"}

// kustomizations are the folders of plain/ that the chart's presets give, and the presets of each.
func kustomizations(t *testing.T) map[string][]string {
	t.Helper()
	// The site that most often has two.
	folders := map[string][]string{"slinky-gpu-operator": {"chart/presets/slinky.yaml", "chart/presets/gpu-operator.yaml"}}
	for _, preset := range presets(t) {
		folders[strings.TrimSuffix(filepath.Base(preset), ".yaml")] = []string{preset}
	}
	return folders
}

// rendered is what Helm renders with presets, for a cluster with NVIDIA's DRA driver or without.
func rendered(t *testing.T, presets []string, args ...string) string {
	t.Helper()
	args = append([]string{"template", "quoin", "chart", "--namespace", "quoin-system"}, args...)
	for _, preset := range presets {
		args = append(args, "-f", preset)
	}
	out, err := kuberig.Helm(t, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// plain returns the plain YAML, by the name of the file: what the chart renders with its own values, by template, and
// a kustomization for each preset with what the preset changes. What is for the Prometheus Operator is in the folder
// rules, and dashboards are not plain files.
func plain(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	all := rendered(t, nil, append([]string{"--api-versions", driverAPI, "--set", kuberig.Image + ",prometheusRule.allAlerts=true"}, monitored...)...)
	for document := range strings.SplitSeq("\n"+all, "\n---\n") {
		source, text, ok := strings.Cut(strings.TrimSpace(document), "\n")
		template, found := strings.CutPrefix(source, "# Source: quoin/templates/")
		if !ok || !found || template == "62-dashboards.yaml" {
			continue
		}
		name := "plain/base/" + template
		if number, rest, _ := strings.Cut(template, "-"); number == "63" { // which a site chooses
			name = "rules/more/" + rest
		} else if number >= "60" {
			name = "rules/" + rest
		} else if number == "42" { // a cluster without NVIDIA's DRA driver has none
			name = "plain/imex/" + template
		}
		if files[name] == "" {
			files[name] = "# Rendered from chart/templates/" + template + " by make generate. Do not edit.\n"
		} else {
			files[name] += "---\n"
		}
		files[name] += strings.TrimSpace(text) + "\n"
	}
	var names []string
	for name := range files {
		if name, ok := strings.CutPrefix(name, "plain/base/"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	files["plain/base/kustomization.yaml"] = kustomization{Resources: names}.text(t, "Quoin with the chart's own values.")
	files["plain/imex/kustomization.yaml"] = kustomization{Resources: []string{"42-imex.yaml"}}.text(t, "The pods that hold each node's IMEX channel: for a cluster with NVIDIA's DRA driver.")
	base := objects(t, rendered(t, nil, "--set", kuberig.Image))
	for folder, presets := range kustomizations(t) {
		k, added := changes(t, base, objects(t, rendered(t, presets, "--set", kuberig.Image)))
		if added != "" {
			files["plain/"+folder+"/added.yaml"] = "# Rendered from the chart by make generate. Do not edit.\n" + added
		}
		files["plain/"+folder+"/kustomization.yaml"] = k.text(t, "What "+strings.Join(presets, " and ")+" change"+map[bool]string{true: "s"}[len(presets) == 1]+".")
	}
	return files
}

// TestPlain holds that the plain YAML is what the chart renders. -update writes it.
func TestPlain(t *testing.T) {
	files := plain(t)
	kept := 0
	for id, o := range objects(t, rendered(t, nil, "--api-versions", driverAPI, "--set", kuberig.Image)) {
		byHelm, byLabel := o.has("annotations", "helm.sh/resource-policy", "keep"), o.has("labels", keep, "true")
		if byHelm != byLabel {
			t.Errorf("%s: Helm keeps it: %t, and a user of kubectl does: %t", id, byHelm, byLabel)
		}
		if byHelm {
			kept++
		}
	}
	if kept < 7 {
		t.Errorf("%d objects stay", kept)
	}
	err := filepath.WalkDir("plain", func(name string, d fs.DirEntry, err error) error {
		if _, ok := files[name]; !ok && err == nil && !d.IsDir() {
			t.Errorf("%s: the chart renders no such file: remove it", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if *update {
			err := os.MkdirAll(filepath.Dir(name), 0o755)
			if err == nil {
				err = os.WriteFile(name, []byte(want), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(got), want); diff != "" {
			t.Errorf("%s differs from the chart (-file +chart); run go generate ./manifests\n%s", name, diff)
		}
	}
}

// TestRealPlain holds that each kustomization gives the objects that Helm makes with the same
// presets and the same image, on a cluster without NVIDIA's DRA driver and with it.
func TestRealPlain(t *testing.T) {
	t.Parallel()
	kuberig.NeedTest(t)
	bin, err := kuberig.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	folders := kustomizations(t)
	folders["base"] = nil
	for folder, presets := range folders {
		for _, driver := range []string{"", driverAPI} {
			t.Run(folder+" "+driver, func(t *testing.T) {
				t.Parallel()
				args, resources := []string{"--set", "image.repository=" + siteImage}, []string{folder}
				if driver != "" {
					args = append(args, "--api-versions", driver)
				}
				if driver != "" && folder != "vcluster" { // where no node joins
					resources = append(resources, "imex")
				}
				out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "kubectl"), "kustomize", overlay(t, resources...)).Output()
				if err != nil {
					t.Fatal(err)
				}
				got, want := map[string]any{}, map[string]any{}
				for id, o := range objects(t, string(out)) {
					got[id] = o.content
				}
				for id, o := range objects(t, rendered(t, presets, args...)) {
					want[id] = o.content
				}
				if diff := cmp.Diff(want, got); diff != "" || len(want) < 20 {
					t.Errorf("%d objects (-helm +kustomize):\n%s", len(want), diff)
				}
			})
		}
	}
}

// siteImage is the name of the image in a site's registry.
const siteImage = "registry.site.example:5000/hpc/quoin"

// overlay is a site's own kustomization of folders of plain/, in a folder of its own.
func overlay(t *testing.T, resources ...string) string {
	t.Helper()
	here, err := filepath.Abs("plain")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	k := kustomization{Images: []map[string]any{{"name": "registry.example/quoin", "newName": siteImage}}}
	for _, name := range resources {
		path, err := filepath.Rel(dir, filepath.Join(here, name))
		if err != nil {
			t.Fatal(err)
		}
		k.Resources = append(k.Resources, path)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(encode(t, k)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// object is an object of Kubernetes: its text, and what it says.
type object struct {
	text    string
	content map[string]any
}

// at is a field of the object's metadata, or its kind or apiVersion.
func (o object) at(key string) string {
	if text, ok := o.content[key].(string); ok {
		return text
	}
	metadata, _ := o.content["metadata"].(map[string]any)
	text, _ := metadata[key].(string)
	return text
}

// has says whether the object has a label or an annotation.
func (o object) has(where, key, value string) bool {
	metadata, _ := o.content["metadata"].(map[string]any)
	all, _ := metadata[where].(map[string]any)
	return all[key] == value
}

// objects are the objects of YAML, by apiVersion, kind, namespace and name.
func objects(t *testing.T, text string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		o := object{text: strings.TrimSpace(document) + "\n"}
		if source, rest, ok := strings.Cut(o.text, "\n"); ok && strings.HasPrefix(source, "# Source: ") {
			o.text = rest
		}
		if err := yaml.NewDecoder(strings.NewReader(o.text)).Decode(&o.content); errors.Is(err, io.EOF) {
			continue
		} else if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		id := strings.Join([]string{o.at("apiVersion"), o.at("kind"), o.at("namespace"), o.at("name")}, " ")
		if _, ok := all[id]; ok || o.at("name") == "" {
			t.Fatalf("%s is there twice, or has no name:\n%s", id, document)
		}
		all[id] = o
	}
	return all
}

// kustomization is what a file kustomization.yaml says.
type kustomization struct {
	APIVersion string           `yaml:"apiVersion,omitempty"`
	Kind       string           `yaml:"kind,omitempty"`
	Resources  []string         `yaml:"resources"`
	Images     []map[string]any `yaml:"images"`
	Patches    []patch          `yaml:"patches,omitempty"`
}

// patch changes an object. Without a target its text names the object.
type patch struct {
	Target *patched `yaml:"target,omitempty"`
	Patch  string   `yaml:"patch"`
}

type patched struct {
	Kind      string `yaml:"kind"`
	Namespace string `yaml:"namespace,omitempty"`
	Name      string `yaml:"name"`
}

// text is the file. The image is named in it, for a user to change.
func (k kustomization) text(t *testing.T, what string) string {
	t.Helper()
	var chart struct {
		AppVersion string `yaml:"appVersion"`
	}
	data, err := os.ReadFile("chart/Chart.yaml")
	if err == nil {
		err = yaml.Unmarshal(data, &chart)
	}
	if err != nil {
		t.Fatal(err)
	}
	image := strings.TrimPrefix(kuberig.Image, "image.repository=")
	k.APIVersion, k.Kind = "kustomize.config.k8s.io/v1beta1", "Kustomization"
	k.Images = []map[string]any{{"name": image, "newName": image, "newTag": chart.AppVersion}}
	return "# " + what + " Rendered from the chart by make generate.\n" +
		"# A site's own kustomization names this folder below resources, and its image below images: docs/install.md.\n" + encode(t, k)
}

func encode(t *testing.T, value any) string {
	t.Helper()
	var text bytes.Buffer
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	if err := enc.Encode(value); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// changes says how to get from one set of objects to another one: a kustomization on top of the base,
// and the text of the objects that the base does not have.
func changes(t *testing.T, from, to map[string]object) (kustomization, string) {
	t.Helper()
	k := kustomization{Resources: []string{"../base"}}
	var added []string
	for _, id := range slices.Sorted(maps.Keys(to)) {
		o := to[id]
		before, ok := from[id]
		if !ok {
			added = append(added, o.text)
		} else if ops := difference("", before.content, o.content); len(ops) > 0 {
			k.Patches = append(k.Patches, patch{&patched{Kind: o.at("kind"), Namespace: o.at("namespace"), Name: o.at("name")}, encode(t, ops)})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(from)) {
		if _, ok := to[id]; ok {
			continue
		}
		o := from[id]
		metadata := "{name: " + o.at("name") + "}"
		if namespace := o.at("namespace"); namespace != "" {
			metadata = "{name: " + o.at("name") + ", namespace: " + namespace + "}"
		}
		k.Patches = append(k.Patches, patch{Patch: fmt.Sprintf("$patch: delete\napiVersion: %s\nkind: %s\nmetadata: %s\n", o.at("apiVersion"), o.at("kind"), metadata)})
	}
	if len(added) > 0 {
		k.Resources = append(k.Resources, "added.yaml")
	}
	return k, strings.Join(added, "---\n")
}

// operation is one step of a JSON patch (RFC 6902). The value is not last, because kustomize cuts the
// last line break of a patch, which may be one of the value.
type operation struct {
	Op    string `yaml:"op"`
	Value any    `yaml:"value,omitempty"`
	Path  string `yaml:"path"`
}

// difference are the steps from one value to another one.
func difference(path string, from, to any) []operation {
	if cmp.Equal(from, to) {
		return nil
	}
	switch from := from.(type) {
	case map[string]any:
		to, ok := to.(map[string]any)
		if !ok {
			break
		}
		var ops []operation
		keys := maps.Clone(from)
		maps.Copy(keys, to)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			at := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
			before, had := from[key]
			after, has := to[key]
			switch {
			case !has:
				ops = append(ops, operation{"remove", nil, at})
			case !had:
				ops = append(ops, operation{"add", after, at})
			default:
				ops = append(ops, difference(at, before, after)...)
			}
		}
		return ops
	case []any:
		if to, ok := to.([]any); ok {
			return differenceOfLists(path, from, to)
		}
	}
	return []operation{{"replace", to, path}}
}

// differenceOfLists keeps the longest common sublist. What is between two kept elements is changed in
// place as far as both lists have elements there, and then removed or added.
func differenceOfLists(path string, from, to []any) (ops []operation) {
	common := make([][]int, len(from)+1) // of from[i:] and to[j:]
	for i := len(from); i >= 0; i-- {
		common[i] = make([]int, len(to)+1)
		for j := len(to) - 1; j >= 0 && i < len(from); j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); cmp.Equal(from[i], to[j]) {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	index, at := 0, func(n int) string { return path + "/" + strconv.Itoa(n) }
	for i, j := 0, 0; i < len(from) || j < len(to); {
		i0, j0 := i, j
		for (i < len(from) || j < len(to)) && (i == len(from) || j == len(to) || !cmp.Equal(from[i], to[j])) {
			if j == len(to) || i < len(from) && common[i+1][j] >= common[i][j+1] {
				i++
			} else {
				j++
			}
		}
		for ; i0 < i && j0 < j; i0, j0, index = i0+1, j0+1, index+1 {
			ops = append(ops, difference(at(index), from[i0], to[j0])...)
		}
		for ; i0 < i; i0++ {
			ops = append(ops, operation{"remove", nil, at(index)})
		}
		for ; j0 < j; j0, index = j0+1, index+1 {
			ops = append(ops, operation{"add", to[j0], at(index)})
		}
		if i < len(from) { // both lists have it
			i, j, index = i+1, j+1, index+1
		}
	}
	return ops
}
