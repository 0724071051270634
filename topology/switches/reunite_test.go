package switches

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReunite is about spines a, b and c, which were one group above leaves 0, 1 and 2, and another
// spine d.
func TestReunite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		sets     [4][]int32
		of, want []int32
	}{
		{"most cables of c are missing", [4][]int32{{1, 2}, {1, 2}, {0, 2}}, []int32{0, 0, 2, 3}, []int32{0, 0, 0, 3}},
		{"most cables of a are missing", [4][]int32{{0, 2}, {1, 2}, {1, 2}}, []int32{0, 1, 1, 3}, []int32{0, 0, 0, 3}},
		{"c joins a leaf that a and b do not join", [4][]int32{{1, 2}, {1, 2}, {0}}, []int32{0, 0, 2, 3}, []int32{0, 0, 2, 3}},
		{"c is a group with d", [4][]int32{{1, 2}, {1, 2}, {2, 3}, {2, 3}}, []int32{0, 0, 2, 2}, []int32{0, 0, 2, 2}},
		{"c has no cable", [4][]int32{{1, 2}, {1, 2}}, []int32{0, 0, 2, 3}, []int32{0, 0, 2, 3}},
		{"all are together", [4][]int32{{1, 2}, {1, 2}, {1, 2}, {3}}, []int32{0, 0, 0, 3}, []int32{0, 0, 0, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := &graph{ids: []string{"a", "b", "c", "d"}}
			g.reunite(Group{Name: "spine", Tier: 1, Switches: []string{"a", "b", "c", "gone"}}, tt.sets[:], tt.of)
			if diff := cmp.Diff(tt.want, tt.of); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}
