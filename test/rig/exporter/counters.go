package exporter

import (
	"fmt"
	"strings"
)

// Counter is a row of a counters CSV.
type Counter struct {
	Field string
	// Type is gauge, counter or label.
	Type, Help string
}

// ParseCounters reads a counters CSV: field, type, help; lines that start with #
// are comments.
func ParseCounters(text string) ([]Counter, error) {
	var counters []Counter
	seen := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(line, ",", 3)
		if len(parts) != 3 {
			return nil, fmt.Errorf("counters line %d: %q is not field, type, help", i+1, line)
		}
		c := Counter{strings.TrimSpace(parts[0]), strings.TrimSpace(parts[1]), strings.TrimSpace(parts[2])}
		if c.Field == "" {
			return nil, fmt.Errorf("counters line %d: no field", i+1)
		}
		if c.Type != "gauge" && c.Type != "counter" && c.Type != "label" {
			return nil, fmt.Errorf("counters line %d: type %q is none of gauge, counter and label", i+1, c.Type)
		}
		if seen[c.Field] {
			return nil, fmt.Errorf("counters line %d: field %s is there twice", i+1, c.Field)
		}
		seen[c.Field] = true
		counters = append(counters, c)
	}
	return counters, nil
}
