package plandoc

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBound cuts what the publisher writes, the list of nodes that are left out first.
func TestBound(t *testing.T) {
	long := strings.Repeat("x", 900<<10)
	for _, tt := range []struct {
		name string
		give map[string]string
		cut  []string
	}{
		{"nothing", nil, nil},
		{"as usual", map[string]string{AnnotationDigest: "d", AnnotationLeftOut: strings.Repeat("x", 9<<10), AnnotationHeldReason: strings.Repeat("r", 1<<10)}, nil},
		{"a long list", map[string]string{AnnotationDigest: "d", AnnotationLeftOut: long, AnnotationHeldReason: "r"}, []string{AnnotationLeftOut}},
		{"a long reason", map[string]string{AnnotationDigest: "d", AnnotationHeldReason: long}, []string{AnnotationHeldReason}},
		{"a long reason and a list", map[string]string{AnnotationDigest: "d", AnnotationLeftOut: "nodes", AnnotationHeldReason: long}, []string{AnnotationHeldReason, AnnotationLeftOut}},
		{"others' annotations", map[string]string{"example.com/note": long, AnnotationDigest: "d"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Published{Annotations: maps.Clone(tt.give)}
			s.Bound()
			size := 0
			for _, key := range written {
				if value, is := s.Annotations[key]; is {
					size += len(key) + len(value)
				}
			}
			if size > maxAnnotations+len(AnnotationLeftOut)+len("...") {
				t.Errorf("%d bytes", size)
			}
			for _, key := range tt.cut {
				if !strings.HasSuffix(s.Annotations[key], "...") {
					t.Errorf("%s is not cut", key)
				}
				s.Annotations[key] = tt.give[key]
			}
			if diff := cmp.Diff(tt.give, s.Annotations); diff != "" {
				t.Errorf("changed too (-before +after):\n%s", diff)
			}
			again := &Published{Annotations: maps.Clone(tt.give)}
			again.Bound()
			once := maps.Clone(again.Annotations)
			if again.Bound(); !maps.Equal(once, again.Annotations) {
				t.Error("bounding twice changes more")
			}
		})
	}
}
