package e2e_test

import "testing"

// TestShows holds when an output shows what a page does.
func TestShows(t *testing.T) {
	t.Parallel()
	const text = "NAME  AGE\nnode1   ...\n...\nall [5] are well\n"
	for name, c := range map[string]struct {
		out  string
		want bool
	}{
		"as on the page":        {"NAME AGE\nnode1 3s\nall [5] are well\n", true},
		"more lines":            {"first\n  NAME    AGE\nnode0 1s\nnode1  3s  \nnode2 3s\nall [5] are well\nlast\n", true},
		"a line is missing":     {"NAME AGE\nall [5] are well\n", false},
		"another order":         {"node1 3s\nNAME AGE\nall [5] are well\n", false},
		"more on a line":        {"NAME AGE\nnode1 3s\nnot all [5] are well\n", false},
		"part of a line":        {"NAME AGE\nnode1 3s\nall [5] are\n", false},
		"a pattern is no match": {"NAME AGE\nnode1 3s\nall 5 are well\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := shows(text).MatchString(c.out); got != c.want {
				t.Errorf("shows(%q) of %q: %v", text, c.out, got)
			}
		})
	}
}
