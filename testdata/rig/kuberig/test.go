package kuberig

import "testing"

// StartTest starts a cluster that ends with the test. A short run skips the
// test; a cluster that does not start fails it.
func StartTest(t testing.TB) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real API server")
	}
	c, err := Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}
