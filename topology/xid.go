package topology

import (
	"cmp"
	"fmt"
	"slices"
)

// ReasonXidError is the problem of a GPU with a critical Xid event that no program
// causes.
const ReasonXidError = "XidError"

// ofPrograms are the Xids that a job's program causes. They are no fault of the
// GPU: graphics engine exception, memory page fault, stopped processing, preemptive
// cleanup, video processor exception, context switch timeout.
var ofPrograms = [...]int{13, 31, 43, 45, 68, 109}

// AddXids adds codes of Xid events to the GPU's codes, and a problem for each code
// that no program causes. The problem is added even if the GPU itself can no longer
// be read.
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
			n.addXidError(Finding{Reason: ReasonXidError, Message: fmt.Sprintf("GPU %s: Xid %d since the node's boot; see dmesg", uuid, code)})
		}
	}
}

// addXidError adds a problem unless it is there already. These problems come last,
// in an order that does not depend on time.
func (n *Node) addXidError(p Finding) {
	if slices.Contains(n.Problems, p) {
		return
	}
	n.Problems = append(n.Problems, p)
	place := func(p Finding) int {
		if p.Reason != ReasonXidError {
			return 0
		}
		return len(p.Message)
	}
	slices.SortStableFunc(n.Problems, func(a, b Finding) int {
		if place(a) == 0 || place(a) != place(b) {
			return cmp.Compare(place(a), place(b))
		}
		return cmp.Compare(a.Message, b.Message)
	})
}
