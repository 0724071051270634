package manifests

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// TestPolicies compares the table of admission policies in SECURITY.md with the manifests. Each row names
// a test that is there.
func TestPolicies(t *testing.T) {
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	var policies []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.ReplaceAll(line, "`", ""), "|\n"), "|")
		if !strings.HasPrefix(line, "|`quoin-") || len(cells) != 3 {
			continue
		}
		policies = append(policies, cells[0])
		for name := range strings.SplitSeq(cells[2], ", ") {
			if !hasTest(t, name) {
				t.Errorf("SECURITY.md names %s, which is no test: %s", name, line)
			}
		}
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
	if diff := cmp.Diff(slices.Sorted(maps.Keys(named)), policies); diff != "" {
		t.Errorf("policies of the manifests and of SECURITY.md (-manifests +SECURITY.md):\n%s", diff)
	}
}

// TestRights holds that no role of the chart has more than SECURITY.md says, whatever a site asks for.
func TestRights(t *testing.T) {
	written := []string{"computedomains", "configmaps", "events", "leases", "nodereports", "nodes", "nodes/status", "subjectaccessreviews", "tokenreviews"}
	roles := map[string]bool{}
	for _, values := range [][]string{
		{"-f", "chart/presets/slinky.yaml", "--set", "metrics.tlsSecret=certs,metrics.authorize=true"},
		{"--set", "config.publicationDefaults.slurmNames=pod:a=b"},
		{"--set", "config.publicationDefaults.fabricFiles={configmaps:a=b}"},
	} {
		out, err := kuberig.Helm(t, append([]string{"template", "quoin", "chart", "--namespace", "quoin-system", "--api-versions", "resource.nvidia.com/v1beta1", "--set", kuberig.Image}, values...)...)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq("\n"+out, "\n---\n") {
			if !strings.Contains(document, "\nkind: Role\n") && !strings.Contains(document, "\nkind: ClusterRole\n") {
				continue
			}
			var role rbac.ClusterRole
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			roles[role.Name] = true
			for _, rule := range role.Rules {
				all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)
				if slices.ContainsFunc([]string{"*", "secrets", "pods/exec", "pods/log"}, func(word string) bool { return slices.Contains(all, word) }) {
					t.Errorf("%s may too much: %v", role.Name, rule)
				}
				for _, verb := range rule.Verbs {
					switch verb {
					case "get", "list", "watch", "publish": // publish is a mark for the admission policies
					case "create", "update", "patch":
						for _, resource := range rule.Resources {
							if !slices.Contains(written, resource) || role.Name == "quoin-viewer" {
								t.Errorf("%s may %s %s", role.Name, verb, resource)
							}
						}
					default:
						t.Errorf("%s may %s %v", role.Name, verb, rule.Resources)
					}
				}
			}
		}
	}
	if len(roles) < 8 {
		t.Errorf("roles %v, want 8 or more", slices.Sorted(maps.Keys(roles)))
	}
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
