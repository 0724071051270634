package nodestatus

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestWriteEach writes each Node once, eight at a time, and begins none after the end.
func TestWriteEach(t *testing.T) {
	refused := errors.New("refused")
	for _, n := range []int{0, 1, writers, 50} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			written, now, most := map[int]int{}, 0, 0
			errs := WriteEach(t.Context(), n, func(i int) error {
				mu.Lock()
				written[i]++
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second) // as long as all others
				mu.Lock()
				now--
				mu.Unlock()
				if i == 3 {
					return refused
				}
				return nil
			})
			if len(errs) != n || len(written) != n || most != min(n, writers) {
				t.Fatalf("%d errors, %d written, %d at a time: want %d, %d, %d", len(errs), len(written), most, n, n, min(n, writers))
			}
			for i, err := range errs {
				if written[i] != 1 || (i == 3) != errors.Is(err, refused) {
					t.Errorf("%d was written %d times: %v", i, written[i], err)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		begun := 0
		var mu sync.Mutex
		errs := WriteEach(ctx, 50, func(int) error {
			mu.Lock()
			begun++
			mu.Unlock()
			time.Sleep(time.Second) // all that can begin have begun then
			end()
			return nil
		})
		if begun != writers {
			t.Errorf("%d begun: want the %d that had begun at the end", begun, writers)
		}
		for i, err := range errs {
			if errors.Is(err, context.Canceled) != (i >= writers) {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}
