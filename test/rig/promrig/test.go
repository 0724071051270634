package promrig

import (
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/need"
)

// StartTest starts a Prometheus that ends with the test. A short run skips the
// test; a server that does not start fails it.
func StartTest(t testing.TB, config string) *Server {
	t.Helper()
	NeedTest(t)
	s, err := Start(t.Context(), t.TempDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// NeedTest fails a test that needs the programs when they are not installed. A short
// run skips it.
func NeedTest(t testing.TB) {
	t.Helper()
	need.Rig(t, "Prometheus", Build)
}
