package publisher

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadNodes(t *testing.T) {
	list := func(names ...string) string {
		var items []string
		for _, n := range names {
			items = append(items, `{"kind":"Node","metadata":{"name":"`+n+`"}}`)
		}
		return `{"kind":"List","items":[` + strings.Join(items, ",") + "]}\n"
	}
	one := `{"kind":"Node","metadata":{"name":"c"}}`
	for _, tt := range []struct{ name, text, want string }{
		{"one list", list("a", "b"), "a b"},
		{"two lists", list("a", "b") + list("c"), "a b c"},
		{"lists and a node", list("a") + one + list("b"), "a c b"},
		{"blanks at the end", list("a") + " \n\n", "a"},
		{"byte order mark", "\xef\xbb\xbf" + list("a"), "a"},
		{"no node", list(), ""},
	} {
		nodes, err := ReadNodes("test", strings.NewReader(tt.text))
		var got []string
		for _, n := range nodes {
			got = append(got, n.Name)
		}
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "test: byte 0: the text ends early"},
		{"only a byte order mark", "\xef\xbb\xbf", "test: byte 0: the text ends early"},
		{"cut", list("a")[:30], "the text ends early"},
		{"second cut", list("a") + list("b")[:30], "the text ends early"},
		{"second of another kind", list("a") + "{}", "kind \"\" without items"},
		{"second with a Pod", list("a") + `{"items":[{"kind":"Pod"}]}`, "items[0] is a Pod"},
		{"something after it", list("a") + "error: timeout", "not JSON"},
		{"a node in both", list("a") + list("a"), `two nodes are named "a"`},
		{"UTF-16", "\xff\xfe{\x00}\x00", "test: text in UTF-16: want UTF-8, in PowerShell with | Out-File -Encoding utf8"},
		{"UTF-16, the other way", "\xfe\xff\x00{\x00}", "text in UTF-16"},
	} {
		if nodes, err := ReadNodes("test", strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %d nodes, error %v, want %q", tt.name, len(nodes), err, tt.want)
		}
	}
	if _, err := ReadNodes("test", iotest.ErrReader(errors.New("disk on fire"))); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("error %v, want that of the reader", err)
	}
}
