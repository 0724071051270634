package nodestatus

import (
	"context"
	"sync"
	"sync/atomic"
)

// writers is how many Nodes are written at a time.
const writers = 8

// WriteEach calls write for each of n Nodes, for eight at a time, and returns the errors. It
// begins none after ctx ended.
func WriteEach(ctx context.Context, n int, write func(i int) error) []error {
	errs := make([]error, n)
	var begun atomic.Int64
	var all sync.WaitGroup
	for range min(n, writers) {
		all.Go(func() {
			for i := int(begun.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(begun.Add(1)) - 1 {
				errs[i] = write(i)
			}
		})
	}
	all.Wait()
	return errs
}
