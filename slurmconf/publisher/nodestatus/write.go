package nodestatus

import (
	"context"
	"sync"
	"sync/atomic"
)

// NodesATurn is the most Nodes that are written before the loop turns to other work, so that the
// next file waits for half a second.
const NodesATurn = 50

// writers is how many Nodes are written at a time.
const writers = 8

// WriteEach calls write for each of n Nodes, for eight at a time, and returns the errors. After
// ctx has ended it calls write for no further Node: their errors are that of ctx.
func WriteEach(ctx context.Context, n int, write func(i int) error) []error {
	errs := make([]error, n)
	var begun atomic.Int64
	var all sync.WaitGroup
	for range min(n, writers) {
		all.Go(func() {
			for i := int(begun.Add(1)) - 1; i < n; i = int(begun.Add(1)) - 1 {
				if errs[i] = ctx.Err(); errs[i] == nil {
					errs[i] = write(i)
				}
			}
		})
	}
	all.Wait()
	return errs
}
