package manifests_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// TestPublications gives each preset a site's file that adds publications. The publisher may write
// the ConfigMaps that its configuration has, with what the preset says of all of them.
func TestPublications(t *testing.T) {
	site := filepath.Join(t.TempDir(), "site.yaml")
	const more = `config:
  publications:
    hgx: {nodes: {selector: pool=hgx}, annotate: false}
    nvl: {namespace: slurm-nvl, configMap: files, slurmVersion: "25.11"}
    default: {slurmNames: short}
`
	if err := os.WriteFile(site, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, preset := range presets(t) {
		for name, values := range map[string][]string{"alone": {"-f", preset}, "with a site's file": {"-f", preset, "-f", site}} {
			t.Run(filepath.Base(preset)+" "+name, func(t *testing.T) {
				out, err := kuberig.Helm(t, append([]string{"template", "quoin", "chart", "--namespace", "quoin-system", "--set", kuberig.Image}, values...)...)
				if err != nil {
					t.Fatal(err)
				}
				var conf *config.Config
				var mayWrite, want []string
				for doc := range strings.SplitSeq("\n"+out, "\n---\n") {
					switch {
					case strings.Contains(doc, "\nkind: ConfigMap\n") && strings.Contains(doc, "\n  name: quoin-config\n  namespace: quoin-system\n"):
						var cm corev1.ConfigMap
						if err := yaml.Unmarshal([]byte(doc), &cm); err != nil {
							t.Fatal(err)
						}
						if conf, err = config.Parse(config.Default(), "quoin.yaml", []byte(cm.Data["quoin.yaml"]), nil); err != nil {
							t.Fatal(err)
						}
					case strings.Contains(doc, "\nkind: Role\n") && strings.Contains(doc, "\n  name: quoin-publication-"):
						var r rbac.Role
						if err := yaml.Unmarshal([]byte(doc), &r); err != nil {
							t.Fatal(err)
						}
						mayWrite = append(mayWrite, strings.TrimPrefix(r.Name, "quoin-publication-")+" "+r.Namespace+"/"+r.Rules[1].ResourceNames[0])
					}
				}
				for _, p := range conf.Clusters() {
					want = append(want, p.Name+" "+p.Place().String())
				}
				slices.Sort(mayWrite)
				if diff := cmp.Diff(want, mayWrite); diff != "" {
					t.Errorf("ConfigMaps of the configuration, and those that the publisher may write (-configuration +roles):\n%s", diff)
				}
				if n := len(conf.Clusters()); n != 1 && n != 3 || (n == 3) != (name != "alone") {
					t.Errorf("%d publications", n)
				}
			})
		}
	}
}
