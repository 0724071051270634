package manifests

import (
	"bytes"
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// role is a Role or a ClusterRole.
type role struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Rules    []rbac.PolicyRule
}

// rights returns a line for each right in YAML documents: role, objects, verbs, namespace.
func rights(t *testing.T, documents string) []string {
	t.Helper()
	out := map[string]bool{}
	for doc := range strings.SplitSeq(documents, "\n---\n") {
		var r role
		if err := yaml.Unmarshal([]byte(doc), &r); err != nil {
			t.Fatal(err)
		}
		for _, rule := range r.Rules {
			for _, resource := range slices.Concat(rule.Resources, rule.NonResourceURLs) {
				what := strings.Join(append([]string{resource}, rule.ResourceNames...), " ")
				where := cmp.Or(r.Metadata.Namespace, "all")
				out[strings.Join([]string{r.Metadata.Name, what, strings.Join(rule.Verbs, ", "), where}, " | ")] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// rendered returns the roles that the chart renders with the values, apart from its CRD.
func rendered(t *testing.T, values ...string) string {
	t.Helper()
	args := append([]string{"template", "quoin", "chart", "--namespace", "quoin-system", "--api-versions", "resource.nvidia.com/v1beta1", "--set", kuberig.Image}, values...)
	out, err := kuberig.Helm(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	var roles []string
	for doc := range strings.SplitSeq("\n"+out, "\n---\n") {
		if strings.Contains(doc, "\nkind: Role\n") || strings.Contains(doc, "\nkind: ClusterRole\n") {
			roles = append(roles, doc)
		}
	}
	return strings.Join(roles, "\n---\n")
}

// TestSecurityTable compares the tables of rights in SECURITY.md with the chart, row by
// row. Each row, and each row of the table of policies, names a test that is there.
func TestSecurityTable(t *testing.T) {
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	var stated, chosen, policies []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.ReplaceAll(line, "`", ""), "|\n"), "|")
		switch {
		case strings.HasPrefix(line, "|`quoin-") && len(cells) == 5:
			stated = append(stated, rightsOf(cells[:4])...)
		case strings.HasPrefix(line, "|`quoin-") && len(cells) == 6:
			chosen = append(chosen, rightsOf(cells[:4])...)
		case strings.HasPrefix(line, "|`quoin-") && len(cells) == 3:
			policies = append(policies, cells[0])
		default:
			continue
		}
		for name := range strings.SplitSeq(cells[len(cells)-1], ", ") {
			if !hasTest(t, name) {
				t.Errorf("SECURITY.md names %s, which is no test: %s", name, line)
			}
		}
	}
	slices.Sort(stated)
	plain := rights(t, rendered(t))
	if diff := gocmp.Diff(plain, stated); diff != "" {
		t.Errorf("rights of the manifests and of SECURITY.md (-manifests +SECURITY.md):\n%s", diff)
	}
	all := rights(t, rendered(t, "-f", "chart/presets/slinky.yaml", "--set", "metrics.tlsSecret=certs,metrics.authorize=true"))
	all = append(all, rights(t, rendered(t, "--set", "config.publicationDefaults.slurmNames=pod:a=b"))...)
	all = append(all, rights(t, rendered(t, "--set", "config.publicationDefaults.fabricFiles={configmaps:a=b}"))...)
	slices.Sort(all)
	all = slices.Compact(all)
	slices.Sort(chosen)
	if diff := gocmp.Diff(slices.DeleteFunc(all, func(right string) bool { return slices.Contains(plain, right) }), chosen); diff != "" {
		t.Errorf("rights that a site chooses, and those of SECURITY.md (-manifests +SECURITY.md):\n%s", diff)
	}
	admission, err := os.ReadFile("plain/base/30-admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^kind: ValidatingAdmissionPolicy\nmetadata:\n  name: (\S+)$`).FindAllSubmatch(admission, -1) {
		named[string(m[1])] = true
	}
	slices.Sort(policies)
	if diff := gocmp.Diff(slices.Sorted(maps.Keys(named)), policies); diff != "" {
		t.Errorf("policies of the manifests and of SECURITY.md (-manifests +SECURITY.md):\n%s", diff)
	}
}

// rightsOf returns a line for each object that a row names.
func rightsOf(row []string) (lines []string) {
	for object := range strings.SplitSeq(row[1], ", ") {
		lines = append(lines, strings.Join([]string{row[0], object, row[2], row[3]}, " | "))
	}
	return lines
}

// TestThreats holds that each row of the threat model in SECURITY.md names tests that are there, and that
// each attacker has one.
func TestThreats(t *testing.T) {
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, is := strings.Cut(string(text), "\n| attacker | what Quoin holds | test |\n|---|---|---|\n")
	table, _, ends := strings.Cut(table, "\n\n")
	if !is || !ends {
		t.Fatal("SECURITY.md has no table of threats")
	}
	for row := range strings.Lines(table + "\n") {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|\n"), "|")
		if len(cells) != 3 || !strings.HasSuffix(strings.TrimSpace(cells[1]), ".") {
			t.Errorf("want an attacker, a sentence and its tests: %s", row)
			continue
		}
		for name := range strings.SplitSeq(strings.TrimSpace(cells[2]), ", ") {
			if !hasTest(t, name) {
				t.Errorf("SECURITY.md names %q, which is no test: %s", name, row)
			}
		}
	}
}

// hasTest reports whether the repository has a test of that name, which may be TEST/SUBTEST.
func hasTest(t *testing.T, name string) bool {
	t.Helper()
	name, part, _ := strings.Cut(name, "/")
	for _, pattern := range []string{"*_test.go", "../*/*_test.go", "../*/*/*_test.go", "../*/*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte("func "+name+"(t *testing.T)")) {
				return part == "" || bytes.Contains(text, []byte("t.Run(\""+part+"\", "))
			}
		}
	}
	return false
}
