package fit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFind(t *testing.T) {
	racks := func(free ...int) blocks { return blocks{Sizes: []int{18}, Free: free} }
	whole := Segment{{Block: 0, Nodes: 18}}
	for _, tt := range []struct {
		name   string
		blocks blocks
		job    Job
		want   *Place // nil: does not fit
	}{
		{"a whole rack", racks(18, 18), Job{Nodes: 18}, &Place{Segments: []Segment{{{Block: 1, Nodes: 18}}}}},
		{"the rack with the least left over", racks(18, 9, 12), Job{Nodes: 9}, &Place{Segments: []Segment{{{Block: 1, Nodes: 9}}}}},
		{"18 nodes are free, and in no rack", racks(9, 9), Job{Nodes: 18}, nil},
		{"segments of 9", racks(9, 9), Job{Nodes: 18, Segment: 9}, &Place{Segments: []Segment{{{Block: 1, Nodes: 9}}, {{Block: 0, Nodes: 9}}}}},
		{"two segments in one rack", racks(18), Job{Nodes: 16, Segment: 8}, &Place{Segments: []Segment{{{Block: 0, Nodes: 8}}, {{Block: 0, Nodes: 8}}}}},
		{"more than the largest size, and one rack is short", racks(18, 17), Job{Nodes: 36}, nil},
		{"nothing is free in blocks", blocks{Sizes: []int{18}, Free: []int{0, 0}, Apart: 4}, Job{Nodes: 4}, &Place{Apart: 4}},
		{"a block is free, so nodes in none are alone", blocks{Sizes: []int{18}, Free: []int{1}, Apart: 4, Alone: true}, Job{Nodes: 4}, nil},
		{"nodes below no switch are alone", blocks{Sizes: anySize, Free: []int{0}, Apart: 4, Alone: true}, Job{Nodes: 4}, nil},
		{"in one block", racks(18), Job{Nodes: 18}, &Place{Segments: []Segment{whole}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.job.Check(); err != nil {
				t.Fatal(err)
			}
			got, fits := tt.blocks.find(&tt.job)
			if want := map[bool]outcome{true: yes, false: no}[tt.want != nil]; fits != want {
				t.Fatalf("fits %d: %v", fits, got)
			}
			if tt.want != nil {
				if diff := cmp.Diff(*tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for want, job := range map[string]Job{
		"-N 0: want 1 node or more":         {},
		"need --segment":                    {Nodes: 4, Spread: true},
		"--segment=-1: want 1 node or more": {Nodes: 4, Segment: -1},
	} {
		if err := job.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", job, err, want)
		}
	}
}

// BenchmarkFind looks for the place of a job of 256 segments. Half of 10,008 nodes are free.
func BenchmarkFind(b *testing.B) {
	racks := blocks{Sizes: []int{18, 36, 72, 144}}
	for i := range 556 {
		racks.Free = append(racks.Free, 1+i*7%18)
	}
	job := &Job{Nodes: 2048, Segment: 8}
	b.ReportAllocs()
	for b.Loop() {
		if _, fits := racks.find(job); fits != yes {
			b.Fatal("does not fit")
		}
	}
}
