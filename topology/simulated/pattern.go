package simulated

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// number matches a number in a pattern, such as {node:03} or {rack/4}.
var number = regexp.MustCompile(`\{(rack|tray|node)(?:/([1-9][0-9]{0,5}))?(?::0?([1-9]))?\}`)

// expand writes numbers into a pattern such as gb200-{node:03}. {rack}, {tray} and
// {node} are numbers from 1, {rack/4} is the same for four racks, {node:03} has at
// least three digits.
func expand(pattern string, numbers map[string]int) (string, error) {
	name := number.ReplaceAllStringFunc(pattern, func(found string) string {
		m := number.FindStringSubmatch(found)
		n := numbers[m[1]]
		if per, err := strconv.Atoi(m[2]); err == nil {
			n = (n-1)/per + 1
		}
		width, _ := strconv.Atoi(m[3]) // 0 without a width
		return fmt.Sprintf("%0*d", width, n)
	})
	if strings.ContainsAny(name, "{}") {
		return "", fmt.Errorf("pattern %q: want {rack}, {tray} or {node}, as {rack/4} or {node:03} too", pattern)
	}
	return name, nil
}
