package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSelector chooses objects by their labels.
func TestSelector(t *testing.T) {
	tests := []struct {
		text     string
		keys     []string
		yes, not map[string]string
	}{
		{"pool in (a,b),!spare", []string{"pool", "spare"}, map[string]string{"pool": "b", "rack": "1"}, map[string]string{"pool": "b", "spare": ""}},
		{"pool!=a", []string{"pool"}, nil, map[string]string{"pool": "a"}},
		{"rack>3", []string{"rack"}, map[string]string{"rack": "4"}, map[string]string{"rack": "3"}},
	}
	for _, tt := range tests {
		s, err := ParseSelector(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.keys, s.Keys()); diff != "" || !s.Matches(tt.yes) || s.Matches(tt.not) {
			t.Errorf("%s chooses %v: %t, %v: %t; keys (-want +got):\n%s", tt.text, tt.yes, s.Matches(tt.yes), tt.not, s.Matches(tt.not), diff)
		}
	}
	if s, err := ParseSelector("a in ("); s != nil || err == nil {
		t.Errorf("%v, %v: want an error", s, err)
	}
}
