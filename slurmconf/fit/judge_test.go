package fit

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// judged is how a job lies in units of these sizes. own are its nodes in each unit, and apart those
// in none.
func judged(t *testing.T, kind string, sizes, units, own []int, apart int, segment int, spread bool) Judgement {
	t.Helper()
	of := topology.Topology{Name: "x", Kind: kind, Sizes: sizes}
	var nodes []string
	for i, size := range units {
		var names []string
		for k := range size {
			names = append(names, fmt.Sprintf("n%d-%d", i, k))
		}
		nodes = append(nodes, names[:own[i]]...)
		if kind == topology.KindBlock {
			of.Blocks = append(of.Blocks, topology.Block{Name: fmt.Sprint("b", i), Nodes: names})
		} else {
			of.Switches = append(of.Switches, topology.Switch{Name: fmt.Sprint("s", i), Nodes: names})
		}
	}
	for k := range apart {
		nodes = append(nodes, fmt.Sprint("apart", k))
	}
	all := NewMap([]topology.Topology{of}).Judge(&slurmctld.Job{Nodes: strings.Join(nodes, ","), Segment: segment, Spread: spread}, nil)
	if len(all) == 0 {
		return Judgement{}
	}
	if got := all[0].Total(); got != len(nodes) {
		t.Errorf("%d nodes, want %d", got, len(nodes))
	}
	return all[0]
}

func TestJudge(t *testing.T) {
	racks, pairs := []int{18}, []int{18, 36}
	for _, tt := range []struct {
		name    string
		sizes   []int
		segment int
		own     []int
		units   []int // nil: 18 nodes each
		apart   int
		want    string
	}{
		{"whole segments", racks, 12, []int{12, 12, 12}, nil, 0, "3 blocks"},
		{"segments that Slurm has split", racks, 12, []int{17, 17, 2}, nil, 0, "3 blocks; segment 12 got 17+17+2"},
		{"two are large enough", racks, 8, []int{8, 8, 8}, nil, 0, "3 blocks, 2 would be large enough"},
		{"small blocks", racks, 8, []int{8, 8, 8}, []int{15, 8, 12}, 0, "3 blocks"},
		{"a large block that is not the job's", racks, 8, []int{8, 8, 0}, []int{8, 8, 18}, 0, "2 blocks"},
		{"one block", racks, 8, []int{0, 16, 0}, nil, 0, "1 block"},
		{"without segments in one block", racks, 0, []int{8, 8}, nil, 0, "2 blocks; segment 16 got 8+8"},
		{"without segments, and larger than a block", racks, 0, []int{10, 10, 0}, nil, 0, "2 blocks"},
		{"in more blocks than Slurm allows", racks, 0, []int{10, 5, 5}, nil, 0, "3 blocks; segment 20 got 10+5+5"},
		{"in two aggregates", pairs, 0, []int{0, 15, 15, 0}, nil, 0, "2 blocks; segment 30 got 15+15"},
		{"in one aggregate", pairs, 0, []int{15, 15, 0, 0}, nil, 0, "2 blocks"},
		{"four of a large aggregate, three are large enough", []int{18, 72}, 0, []int{14, 14, 13, 13}, nil, 0, "4 blocks; segment 54 got 14+14+13+13"},
		{"larger than all sizes, one rack more than it needs", pairs, 0, []int{18, 9, 18, 9}, nil, 0, "4 blocks, 3 would be large enough"},
		{"segments larger than a block", pairs, 30, []int{18, 12, 15, 15, 0, 0}, nil, 0, "4 blocks"},
		{"one of them in two aggregates", pairs, 30, []int{18, 12, 15, 0, 0, 15}, nil, 0, "4 blocks; segment 30 got 18+15+15+12"},
		{"three of an aggregate", []int{18, 36, 72}, 0, []int{14, 14, 13, 9}, nil, 0, "4 blocks, 3 would be large enough"},
		{"no multiple of the segment", racks, 4, []int{5, 5}, nil, 0, "2 blocks"},
		{"nobody knows where two nodes are", racks, 8, []int{8, 6}, nil, 2, "2 blocks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			units := tt.units
			if units == nil {
				units = slices.Repeat([]int{18}, len(tt.own))
			}
			got := judged(t, topology.KindBlock, tt.sizes, units, tt.own, tt.apart, tt.segment, false)
			if diff := cmp.Diff(tt.want, got.Words()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := judged(t, topology.KindBlock, racks, []int{18, 18, 18}, []int{8, 8, 8}, 0, 8, true); got.Fewest != 3 {
		t.Errorf("spread segments: %+v", got)
	}
}

// TestJudgeFinds judges each place that find returns on random sites. All segments are whole.
// If a segment fits in a base block, find finds a place in some so many of the job's own blocks
// while no other job is there, and none in fewer.
func TestJudgeFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(26, 3))
	found, better := 0, 0
	for range 20_000 {
		s := randomSite(rng, 0)
		b := blocks{Sizes: s.sizes}
		var units []int
		for _, nodes := range s.blocks {
			b.Free, units = append(b.Free, rng.IntN(len(nodes)+1)), append(units, len(nodes))
		}
		j := randomJob(rng, siteNodes/2)
		place, fits := b.find(j)
		if fits != yes || len(place.Segments) == 0 {
			continue
		}
		found++
		own := place.taken(len(b.Free))
		got := judged(t, topology.KindBlock, s.sizes, units, own, 0, j.Segment, false)
		what := fmt.Sprintf("%s: sizes %v, free %v, own %v: %+v", j.Command(), b.Sizes, b.Free, own, got)
		if got.Split != 0 || got.Fewest > len(got.Nodes) || got.Fewest < 1 {
			t.Fatal(what)
		}
		if got.Fewest == len(got.Nodes) {
			continue
		}
		better++
		if size := b.Sizes[0]; (j.Segment == 0 || j.Segment > size) && j.Nodes > size {
			continue
		}
		for i := range own {
			if own[i] == 0 {
				units[i] = 0
			}
		}
		if !findsIn(&b, units, j, got.Fewest) || findsIn(&b, units, j, got.Fewest-1) {
			t.Fatalf("so many blocks are not enough, or fewer are: %s", what)
		}
	}
	t.Logf("%d places, fewer blocks are large enough for %d", found, better)
	if found < 3000 || better < 300 {
		t.Errorf("%d places, fewer blocks are large enough for %d: too few", found, better)
	}
}

// findsIn reports whether the job fits in some so many of the units.
func findsIn(b *blocks, units []int, j *Job, count int) bool {
	for set := range uint(1) << len(units) {
		if bits.OnesCount(set) != count {
			continue
		}
		some := blocks{Sizes: b.Sizes, Free: make([]int, len(units))}
		for i := range units {
			if set>>i&1 == 1 {
				some.Free[i] = units[i]
			}
		}
		if _, fits := some.find(j); fits == yes {
			return true
		}
	}
	return false
}

// TestJudgeSplits counts the segments that are not whole, if each is as large as a block.
func TestJudgeSplits(t *testing.T) {
	for own, want := range map[[4]int]int{{4, 4, 0, 0}: 0, {4, 3, 1, 0}: 1, {3, 3, 1, 1}: 2, {2, 2, 2, 2}: 2} {
		if got := judged(t, topology.KindBlock, []int{4}, []int{4, 4, 4, 4}, own[:], 0, 4, false); got.Split != want {
			t.Errorf("%v: %d segments are split, want %d", own, got.Split, want)
		}
	}
	j := Judgement{Unit: UnitBlock, Apart: 14, Segment: 2, Segments: 7, Split: 1}
	if diff := cmp.Diff("0 blocks; segment 2 got 1+1+1+1+1+1+1+1+1+1+1+1 and 2 more", j.Words()); diff != "" {
		t.Error(diff)
	}
}
