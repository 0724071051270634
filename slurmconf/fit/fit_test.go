package fit

import (
	"strings"
	"testing"
)

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
