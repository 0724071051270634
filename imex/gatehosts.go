package imex

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxJobNodes is how many names a job's host list may have, and maxNameSize how
	// long one may be.
	maxJobNodes = 1 << 16
	maxNameSize = 256
)

// hostNames returns the names of a host list as Slurm gives it to a Prolog, such
// as n[001-018],rack[1-2]n[01-16]. The order is not Slurm's where a name has
// several brackets.
func hostNames(list string) (names []string, err error) {
	for rest := list; rest != ""; {
		var word string
		word, rest = cutHosts(rest)
		if names, err = appendHosts(names, "", word); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// cutHosts cuts a host list at its first comma outside of brackets.
func cutHosts(list string) (word, rest string) {
	inside := false
	for i := range len(list) {
		switch c := list[i]; {
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case c == ',' && !inside:
			return list[:i], list[i+1:]
		}
	}
	return list, ""
}

// appendHosts appends the names that begin with head and go on as word says.
func appendHosts(names []string, head, word string) ([]string, error) {
	text, rest, bracket := strings.Cut(word, "[")
	ranges, tail, closed := strings.Cut(rest, "]")
	head += text
	switch {
	case bracket != closed || strings.Contains(text, "]") || strings.Contains(ranges, "["):
		return nil, fmt.Errorf("host list: brackets of %q do not pair", word[:min(len(word), maxNameSize)])
	case len(head) > maxNameSize:
		return nil, fmt.Errorf("host list: a name of more than %d bytes", maxNameSize)
	case !bracket && head == "":
		return names, nil
	case !bracket && len(names) == maxJobNodes:
		return nil, fmt.Errorf("host list: more than %d names", maxJobNodes)
	case !bracket:
		return append(names, head), nil
	}
	for r := range strings.SplitSeq(ranges, ",") {
		first, last, err := parseRange(r)
		if err != nil {
			return nil, err
		}
		width, _, _ := strings.Cut(r, "-")
		for n := first; n <= last; n++ {
			if names, err = appendHosts(names, fmt.Sprintf("%s%0*d", head, len(width), n), tail); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// parseRange parses 7 or 007-012.
func parseRange(s string) (first, last uint64, err error) {
	low, high, is := strings.Cut(s, "-")
	if !is {
		high = low
	}
	first, err = strconv.ParseUint(low, 10, 32)
	if err == nil {
		last, err = strconv.ParseUint(high, 10, 32)
	}
	if err != nil || last < first || len(low) > maxNameSize {
		return 0, 0, fmt.Errorf("host list: range %q: want such as 7 or 001-018", s[:min(len(s), maxNameSize)])
	}
	return first, last, nil
}
