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

func TestShortName(t *testing.T) {
	for name, want := range map[string]string{
		"n1": "n1", "n1.example.com": "n1", "": "", ".n1": "",
		"10.140.71.100": "10.140.71.100", "10.5": "10.5", "10.140.71.100.nip.io": "10.140.71.100.nip.io", // addresses
		"4711": "4711", "4711.example.com": "4711", "10.example.5": "10", "10.": "10", "ip-10-0-7-20.us-east-2.compute.internal": "ip-10-0-7-20",
	} {
		if got := ShortName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
