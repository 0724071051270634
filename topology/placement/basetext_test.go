package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBaseChangeText says what a change means for jobs.
func TestBaseChangeText(t *testing.T) {
	for _, tt := range []struct {
		from, to int
		racks    []int
		want     string
	}{
		{9, 18, []int{18, 18, 18}, "the domains of topology nvl give base block size 18, and 9 is published. With 18, jobs of 10-18 nodes stay in one rack, and now they may use two racks. " +
			"What to do: approve, or set baseBlockSize to the published size"},
		{2, 18, []int{18, 17, 17, 17}, "the domains of topology nvl give base block size 18, and 2 is published. With 18, jobs of 3-18 nodes stay in one rack, and now they may use up to 9 racks; " +
			"then jobs of 36,53-54 nodes cannot run. What to do: approve, or set baseBlockSize to the published size"},
		{18, 17, []int{18, 17, 17, 17}, "the domains of topology nvl give base block size 17, and 18 is published. With 17, jobs of 18 nodes may use two racks; " +
			"now jobs of 36,53-54 nodes cannot run. What to do: approve, or set baseBlockSize to the published size"},
	} {
		if diff := cmp.Diff(tt.want, new(Policy).baseChangeText("nvl", tt.from, tt.to, tt.racks)); diff != "" {
			t.Errorf("%d to %d (-want +got):\n%s", tt.from, tt.to, diff)
		}
	}
}
