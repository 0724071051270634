package switches

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTogether(t *testing.T) {
	for _, test := range []struct {
		name string
		sets [][]int32
		want []int32
	}{
		{"nothing", nil, []int32{}},
		{"alike", [][]int32{{0, 1}, {0, 1}, {2}}, []int32{0, 0, 2}},
		{"a set without members", [][]int32{nil, {0}, nil, {0}}, []int32{0, 1, 2, 1}},
		{"most of the smaller one", [][]int32{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 8}}, []int32{0, 0}},
		{"half of the smaller one", [][]int32{{0, 1, 2, 3}, {0, 8}}, []int32{0, 1}},
		{"one that two others share", [][]int32{{0, 1}, {2, 3}, {0, 1, 2, 3}}, []int32{0, 1, 0}},
		{"one that two groups share", [][]int32{{0, 1}, {0, 1}, {2, 3}, {2, 3}, {0, 1, 2, 3}}, []int32{0, 0, 2, 2, 0}},
		{"one member that is in all", [][]int32{{0, 1, 2, 9}, {3, 4, 5, 9}, {9}}, []int32{0, 1, 0}},
		{"a chain", [][]int32{{0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 5}}, []int32{0, 0, 2, 2}},
		{"swapped cables: a set of each group shares most members with the other", [][]int32{{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}, {0, 1, 2, 5, 6}, {0, 1, 3, 4, 9},
			{5, 6, 7, 8, 9}, {5, 6, 7, 8, 9}, {3, 4, 7, 8, 9}, {2, 5, 6, 7, 8}}, []int32{0, 0, 0, 0, 4, 4, 4, 4}},
		{"sets of several sizes, the larger first", [][]int32{{0, 1, 2, 3, 4}, {0, 1, 2}, {1, 2, 8, 9}}, []int32{0, 0, 0}},
		{"half of many", [][]int32{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 8, 9}}, []int32{0, 0, 0, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, together(test.sets, 10)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
