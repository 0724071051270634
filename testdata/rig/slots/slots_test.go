package slots

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestTake lets more tests wait than there are slots for. No more than the slots allow run at
// once, and a subtest of a test that has slots waits for none.
func TestTake(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	all := int64(perCore * runtime.GOMAXPROCS(0))
	var now, most atomic.Int64
	t.Run("all", func(t *testing.T) {
		for range 3 * all {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				Take(t, APIServer)
				defer now.Add(-APIServer)
				if n := now.Add(APIServer); n > most.Load() {
					most.Store(n)
				}
				t.Run("sub", func(t *testing.T) { Take(t, int(all)) })
			})
		}
	})
	if most.Load() > all {
		t.Errorf("%d slots were taken at once, want at most %d", most.Load(), all)
	}
	Take(t, 100*int(all)) // all that there are
}
