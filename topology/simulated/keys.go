package simulated

import (
	"maps"
	"reflect"
	"slices"
)

// keysOf lists the YAML keys of the struct that p points to.
func keysOf(p any) map[string]bool {
	t := reflect.TypeOf(p).Elem()
	keys := make(map[string]bool, t.NumField())
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("yaml"); tag != "" {
			keys[tag] = true
		}
	}
	return keys
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
