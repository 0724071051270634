// Package need ends a test at once that lacks what it needs: a rig that is not installed, or root's rights.
package need

import (
	"context"
	"os"
	"testing"
)

// Rig skips a short run. It fails a test on real parts that are not installed, before the test
// has worked or waited for anything.
func Rig(t testing.TB, what string, find func(context.Context) (string, error)) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real " + what)
	}
	if _, err := find(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Root fails a test that makes namespaces or mounts without root's rights.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this user is not root, and the test makes namespaces and mounts: run it as root. Tests with -short need no root")
	}
}
