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
