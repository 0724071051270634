package slots

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestTake lets more tests wait than there are slots. No more than the slots allow run at once,
// and a subtest of a test that has a slot waits for none.
func TestTake(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	all := int64(perCore * runtime.GOMAXPROCS(0))
	var now, most atomic.Int64
	t.Run("all", func(t *testing.T) {
		for range 3 * all {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				Take(t, APIServer)
				defer now.Add(-1)
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				for range all {
					t.Run("sub", func(t *testing.T) { Take(t, APIServer) })
				}
			})
		}
	})
	if most.Load() > all {
		t.Errorf("%d tests had slots at once, want at most %d", most.Load(), all)
	}
}
