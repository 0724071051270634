package slurmconf

import (
	"errors"
	"fmt"
	"strings"
)

// maxNodeName is the most characters of a host's name.
const maxNodeName = 64

var errNodeName = fmt.Errorf("want one host's name: letters, digits, '-', '_' and '.', the first a letter or digit, at most %d, not ending in more than %d digits", maxNodeName, maxDigits)

var errReservedName = errors.New("has a meaning of its own in Slurm: want another name")

// CheckNodeName says why a text cannot be the name of one node: as a host list
// it would be others or several, as a word of a file more than one word.
func CheckNodeName(name string) error {
	odd := strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) && r != '-' && r != '_' && r != '.' })
	digits := len(name) - len(strings.TrimRight(name, "0123456789"))
	switch {
	case name == "" || odd || !isNameRune(rune(name[0])) || len(name) > maxNodeName || digits > maxDigits:
		return fmt.Errorf("%q: %w", shorten(name), errNodeName)
	case strings.EqualFold(name, "DEFAULT") || strings.EqualFold(name, "ALL"):
		return fmt.Errorf("%q %w", name, errReservedName)
	}
	return nil
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
