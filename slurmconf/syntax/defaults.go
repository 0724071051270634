package syntax

import (
	"maps"
	"strings"
)

// Defaults are what lines such as NodeName=DEFAULT say of the lines of one key that follow, by key in lower case.
type Defaults map[string]string

// IsDefault reports whether the line is for the lines that follow.
func (l *Line) IsDefault() bool { return strings.EqualFold(l.Value, "DEFAULT") }

// Values returns the values of a line with the defaults before it, by key in lower case. It takes the values
// of a line DEFAULT for the lines that follow.
func (d Defaults) Values(l *Line) map[string]string {
	values := d
	if !l.IsDefault() {
		values = maps.Clone(d)
	}
	for _, a := range l.Attrs {
		values[strings.ToLower(a.Key)] = a.Value
	}
	return values
}
