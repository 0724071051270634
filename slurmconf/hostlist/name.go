package hostlist

import (
	"errors"
	"fmt"
	"strings"
)

// maxName is the most characters of a host's name.
const maxName = 64

var errName = fmt.Errorf("want one host's name: letters, digits, '-', '_' and '.', the first a letter or digit, at most %d, not ending in more than %d digits", maxName, MaxDigits)

var errReservedName = errors.New("is a word of Slurm: want another name")

// CheckName returns why a text cannot be the name of one node. As a host list
// it would name other nodes or several, or Slurm's files would read it as several words.
func CheckName(name string) error {
	odd := strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) && r != '-' && r != '_' && r != '.' })
	digits := len(name) - len(strings.TrimRight(name, "0123456789"))
	switch {
	case name == "" || odd || !isNameRune(rune(name[0])) || len(name) > maxName || digits > MaxDigits:
		return fmt.Errorf("%q: %w", Shorten(name), errName)
	case strings.EqualFold(name, "DEFAULT") || strings.EqualFold(name, "ALL"):
		return fmt.Errorf("%q %w", name, errReservedName)
	}
	return nil
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
