package placement_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology/placement"
)

func TestImpossibleJobs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sizes  []int
		blocks []int
		want   string
	}{
		{"no base", nil, []int{4}, ""},
		{"no block", []int{4}, nil, ""},
		{"equal racks", []int{18}, []int{18, 18, 18}, ""},
		{"large and small racks", []int{18}, []int{18, 9, 18, 9, 18, 9, 9}, "64-90"},
		{"the small racks alone", []int{18}, []int{9, 9, 9, 9}, "10-36"},
		{"a node is missing in each of three", []int{18}, []int{18, 17, 17, 17}, "36,53-54"},
		{"placeholders", []int{18}, []int{0, 18, 0}, ""},
		{"blocks above the base", []int{4}, []int{9, 9}, ""},
		{"further sizes", []int{4, 8}, []int{4, 4, 4, 4, 4}, "17-20"},
		{"an aggregate stands for its blocks", []int{8, 16}, []int{7, 1, 1, 1, 9, 5}, "15-16,23-24"},
		{"many ranges", []int{30}, slices.Repeat([]int{29}, 12), "30,59-60,88-90,117-120,146-150,175-180,204-210,233-240,262-270,291-300 and more, up to 330"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, placement.ImpossibleJobs(tt.sizes, tt.blocks).String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestImpossibleJobsAtRandom compares the ranges with the rule, size by size.
func TestImpossibleJobsAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		base, blocks := 1+rng.IntN(9), make([]int, rng.IntN(9))
		total := 0
		for i := range blocks {
			blocks[i] = rng.IntN(10)
			total += blocks[i]
		}
		got := placement.ImpossibleJobs([]int{base}, blocks)
		largest := slices.Clone(blocks)
		slices.Sort(largest)
		slices.Reverse(largest)
		for size := 1; size <= total+1; size++ {
			held := 0
			for _, n := range largest[:min((size+base-1)/base, len(largest))] {
				held += n
			}
			if want := held < size && size <= total; got.Has(size) != want {
				t.Fatalf("base %d, blocks %v: size %d is impossible: %t, want %t", base, blocks, size, got.Has(size), want)
			}
		}
	}
}
