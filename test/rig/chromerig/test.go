package chromerig

import (
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/need"
	"github.com/quoin-hpc/quoin/test/rig/slots"
)

// StartTest starts a browser that ends with the test. A short run skips the test; a browser
// that does not start fails it.
func StartTest(t testing.TB, o Options) *Browser {
	t.Helper()
	need.Rig(t, "Chromium", find)
	slots.Take(t, slots.Browser)
	b, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return b
}
