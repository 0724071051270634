package hostlist

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks text into lines of at most width columns, at spaces. A word that is longer, such as a host list,
// is broken after a comma, or where it has to be. There is one line at least.
func Wrap(text string, width int) (lines []string) {
	width = max(width, 1)
	line := ""
	for word := range strings.FieldsSeq(text) {
		for {
			room := width - utf8.RuneCountInString(line)
			if line != "" {
				room-- // for the space
			}
			if utf8.RuneCountInString(word) <= room {
				line = strings.TrimPrefix(line+" "+word, " ")
				break
			}
			if line == "" {
				at := len(string([]rune(word)[:width]))
				if comma := strings.LastIndexByte(word[:at], ','); comma > 0 {
					at = comma + 1
				}
				line, word = word[:at], word[at:]
			}
			lines, line = append(lines, line), ""
		}
	}
	return append(lines, line)
}
