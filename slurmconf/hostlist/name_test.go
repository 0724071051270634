package hostlist

import (
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{"n1", "gb200-001", "gb200_001.example.com", "A", "7", "n123456789012345678", strings.Repeat("a", 64), "default1"} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v, want none", name, err)
		}
		if hosts, err := Expand(name); err != nil || len(hosts) != 1 || hosts[0] != name {
			t.Errorf("%q is %q as a host list, %v", name, hosts, err)
		}
	}
	for _, name := range []string{"", "x[1-5],gb200-003", "a,b", "a b", "k#1", "a\nb", "a\tb", "DEFAULT", "default", "All", "a=b", "a{b}", "a:b", "a/b", "a\"", "ü1", "\xff", "-a", ".a", "_a",
		strings.Repeat("a", 65), strings.Repeat("a", 300), "n1234567890123456789", "1234567890123456789"} {
		if err := CheckName(name); err == nil || len(err.Error()) > 300 {
			t.Errorf("%q: error %v, want a short one", name, err)
		}
	}
}
