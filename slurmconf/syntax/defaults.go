package syntax

import (
	"maps"
	"strings"
)

// Defaults are what lines such as NodeName=DEFAULT say of the lines of one key that follow, by key in lower case.
type Defaults map[string]string

// Values returns the values of a line with the defaults before it, by key in lower case. Of a line DEFAULT it
// takes them for the lines that follow, and returns nil.
func (d Defaults) Values(l *Line) map[string]string {
	isDefault, values := strings.EqualFold(l.Value, "DEFAULT"), d
	if !isDefault {
		values = maps.Clone(d)
	}
	for _, a := range l.Attrs {
		values[strings.ToLower(a.Key)] = a.Value
	}
	if isDefault {
		return nil
	}
	return values
}
