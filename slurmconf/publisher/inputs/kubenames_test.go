package inputs

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// FuzzNames compares what is taken as a name with what Kubernetes takes.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"", "a", "a-", "-a", "A", "a.b", "a..b", ".a", "a.", "a_b", "a/b", "a.b/C_d.e", "/b", "a/", "a/b/c", "A/b", "ä", "a\n", "a b",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("a", 253) + "/b", strings.Repeat("a", 254) + "/b",
		"a/" + strings.Repeat("b", 63), "a/" + strings.Repeat("b", 64)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for what, forms := range map[string]struct {
			own  bool
			want []string
		}{
			"namespace": {IsDNSLabel(name), validation.IsDNS1123Label(name)},
			"ConfigMap": {IsDNSName(name), validation.IsDNS1123Subdomain(name)},
			"label key": {isLabelKey(name), validation.IsQualifiedName(name)},
			"label":     {IsLabelValue(name) || name == "", validation.IsValidLabelValue(name)},
		} {
			if forms.own != (len(forms.want) == 0) {
				t.Errorf("%q as a %s: taken %t, Kubernetes says %q", name, what, forms.own, forms.want)
			}
		}
	})
}
