package fit

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJudge(t *testing.T) {
	job := func(nodes, segment int) Job { return Job{Nodes: nodes, Segment: segment} }
	spread := Job{Nodes: 24, Segment: 8, Spread: true}
	racks, pairs := []int{18}, []int{18, 36}
	for _, tt := range []struct {
		name  string
		sizes []int
		job   Job
		own   []int
		free  []int // beside the job's own nodes; nil: none
		apart int
		want  string
	}{
		{"whole segments", racks, job(36, 12), []int{12, 12, 12}, nil, 0, "3 blocks"},
		{"segments that Slurm has split", racks, job(36, 12), []int{17, 17, 2}, nil, 0, "3 blocks; segment 12 got 17+17+2"},
		{"two in one block would have done", racks, job(24, 8), []int{8, 8, 8}, []int{8, 0, 0}, 0, "3 blocks, 2 would have done"},
		{"what is free is too small", racks, job(24, 8), []int{8, 8, 8}, []int{7, 7, 7}, 0, "3 blocks"},
		{"spread segments are in blocks of their own", racks, spread, []int{8, 8, 8}, []int{10, 10, 10}, 0, "3 blocks"},
		{"one block", racks, job(16, 8), []int{0, 16, 0}, []int{18, 2, 18}, 0, "1 block"},
		{"without segments in one block", racks, job(16, 0), []int{8, 8}, []int{8, 0}, 0, "2 blocks; segment 16 got 8+8"},
		{"without segments, and larger than a block", racks, job(20, 0), []int{10, 10, 0}, nil, 0, "2 blocks"},
		{"in more blocks than Slurm allows", racks, job(20, 0), []int{10, 5, 5}, nil, 0, "3 blocks; segment 20 got 10+5+5"},
		{"in two aggregates", pairs, job(30, 0), []int{0, 15, 15, 0}, nil, 0, "2 blocks; segment 30 got 15+15"},
		{"in one aggregate", pairs, job(30, 0), []int{15, 15, 0, 0}, nil, 0, "2 blocks"},
		{"four of a large aggregate, three would have done", []int{18, 72}, job(54, 0), []int{14, 14, 13, 13}, []int{4, 4, 5, 5}, 0, "4 blocks; segment 54 got 14+14+13+13"},
		{"larger than all sizes, one rack more than it needs", pairs, job(54, 0), []int{18, 9, 18, 9}, []int{0, 9, 0, 0}, 0, "4 blocks, 3 would have done"},
		{"segments larger than a block", pairs, job(60, 30), []int{18, 12, 15, 15, 0, 0}, nil, 0, "4 blocks"},
		{"one of them in two aggregates", pairs, job(60, 30), []int{18, 12, 15, 0, 0, 15}, nil, 0, "4 blocks; segment 30 got 18+15+15+12"},
		{"nobody knows where two nodes are", racks, job(16, 8), []int{8, 6}, nil, 2, "2 blocks"},
		{"in no block", racks, job(4, 0), []int{0, 0}, nil, 4, "0 blocks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := blocks{Sizes: tt.sizes, Free: make([]int, len(tt.own))}
			for i := range tt.own {
				b.Free[i] = tt.own[i]
				if tt.free != nil {
					b.Free[i] += tt.free[i]
				}
			}
			got := b.judge(&tt.job, tt.own, tt.apart)
			if words := got.words("block"); words != tt.want || got.Total() != tt.job.Nodes {
				t.Errorf("%s, want %s: %+v", words, tt.want, got)
			}
		})
	}
}

func TestJudgeLeaves(t *testing.T) {
	tree := leaves{Free: []int{8, 4, 8, 16}, Roots: []int{0, 0, 0, 1}}
	for want, own := range map[string][]int{
		"3 leaf switches, 2 would have done": {4, 4, 4, 0},
		"2 leaf switches, 1 would have done": {4, 4, 0, 0},
		"2 leaf switches":                    {8, 2, 0, 0},
		"1 leaf switch":                      {0, 4, 0, 0},
	} {
		if want == "2 leaf switches" {
			tree.Roots, tree.Free = []int{0, 0, 1, 2}, []int{8, 2, 0, 9}
		} else {
			tree.Roots, tree.Free = []int{0, 0, 0, 1}, []int{8, 4, 8, 7}
		}
		if got := tree.judge(own, 0); got.words("leaf switch") != want {
			t.Errorf("%v: %s, want %s", own, got.words("leaf switch"), want)
		}
	}
}

// TestJudgeFinds judges each place that find returns on random sites. All segments are whole.
// The fewest blocks do: find finds a place in some so many of them. If a segment fits in a base
// block, it finds none in fewer.
func TestJudgeFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(26, 3))
	found, better := 0, 0
	for range 20_000 {
		s := randomSite(rng, 0)
		b := blocks{Sizes: s.sizes}
		for _, nodes := range s.blocks {
			b.Free = append(b.Free, rng.IntN(len(nodes)+1))
		}
		j := randomJob(rng, siteNodes/2)
		place, fits := b.find(&j.Job)
		if fits != yes || len(place.Segments) == 0 {
			continue
		}
		found++
		own := make([]int, len(b.Free))
		for _, segment := range place.Segments {
			for _, taken := range segment {
				own[taken.Block] += taken.Nodes
			}
		}
		got := b.judge(&j.Job, own, 0)
		what := fmt.Sprintf("%s: sizes %v, free %v, own %v: %+v", words(j), b.Sizes, b.Free, own, got)
		if got.Split != 0 || got.Fewest > len(got.Nodes) || got.Fewest < 1 {
			t.Fatal(what)
		}
		if got.Fewest == len(got.Nodes) {
			continue
		}
		better++
		if !findsIn(&b, &j.Job, got.Fewest) {
			t.Fatalf("so few blocks do not do: %s", what)
		}
		if size := b.Sizes[0]; (j.Segment > 0 && j.Segment <= size || j.Nodes <= size) && findsIn(&b, &j.Job, got.Fewest-1) {
			t.Fatalf("fewer blocks do: %s", what)
		}
	}
	t.Logf("%d places, fewer blocks would do for %d", found, better)
	if found < 3000 || better < 300 {
		t.Errorf("%d places, fewer blocks would do for %d: too few", found, better)
	}
}

// findsIn reports whether the job fits in some so many blocks.
func findsIn(b *blocks, j *Job, count int) bool {
	for set := range uint(1) << len(b.Free) {
		if bits.OnesCount(set) != count {
			continue
		}
		some := blocks{Sizes: b.Sizes, Free: make([]int, len(b.Free))}
		for i := range b.Free {
			if set>>i&1 == 1 {
				some.Free[i] = b.Free[i]
			}
		}
		if _, fits := some.find(j); fits == yes {
			return true
		}
	}
	return false
}

// TestJudgeSplits moves nodes of places that find returns to other blocks, so that at least one
// segment cannot be whole, and looks whether that is seen if each segment is as large as a block.
func TestJudgeSplits(t *testing.T) {
	b := blocks{Sizes: []int{4}, Free: []int{4, 4, 4, 4}}
	for own, want := range map[[4]int]int{{4, 4, 0, 0}: 0, {4, 3, 1, 0}: 1, {3, 3, 1, 1}: 2, {2, 2, 2, 2}: 2} {
		if got := b.judge(&Job{Nodes: 8, Segment: 4}, own[:], 0); got.Split != want {
			t.Errorf("%v: %d segments are split, want %d", own, got.Split, want)
		}
	}
	l := Layout{Nodes: []Taken{}, Apart: 14, Fewest: 14, Segment: 2, Segments: 7, Split: 1}
	if diff := cmp.Diff("0 blocks; segment 2 got 1+1+1+1+1+1+1+1+1+1+1+1 and 2 more", l.words("block")); diff != "" {
		t.Error(diff)
	}
}
