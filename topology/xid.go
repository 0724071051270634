package topology

import (
	"cmp"
	"fmt"
	"slices"
)

// ReasonXidError names a GPU that had a critical Xid event of the hardware or
// the driver, not of a job's program.
const ReasonXidError = "XidError"

// ofPrograms are the Xids that a job's program causes by itself, and that say
// nothing of the GPU: graphics engine exception, memory page fault, stopped
// processing, preemptive cleanup, video processor exception, context switch
// timeout.
var ofPrograms = [...]int{13, 31, 43, 45, 68, 109}

// AddXids adds codes of Xid events to those of the GPU, with a problem for each
// that no program causes. The problem stands too where the GPU itself can no
// longer be read.
func (n *Node) AddXids(uuid string, codes ...int) {
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.UUID == uuid {
			all := append(slices.Clone(g.Xids), codes...)
			slices.Sort(all)
			g.Xids = slices.Compact(all)
		}
	}
	for _, code := range codes {
		if !slices.Contains(ofPrograms[:], code) {
			n.addXidError(Problem{Reason: ReasonXidError, Message: fmt.Sprintf("GPU %s: Xid %d since the node's boot; see dmesg", uuid, code)})
		}
	}
}

// addXidError adds a problem that is not there yet. These problems come last,
// in an order that does not depend on when each was seen.
func (n *Node) addXidError(p Problem) {
	if slices.Contains(n.Problems, p) {
		return
	}
	n.Problems = append(n.Problems, p)
	slices.SortStableFunc(n.Problems, func(a, b Problem) int {
		switch aXid, bXid := a.Reason == ReasonXidError, b.Reason == ReasonXidError; {
		case aXid && bXid:
			return cmp.Or(cmp.Compare(len(a.Message), len(b.Message)), cmp.Compare(a.Message, b.Message))
		case aXid:
			return 1
		case bXid:
			return -1
		}
		return 0
	})
}
