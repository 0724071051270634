package e2e_test

import "testing"

// TestBox goes through a cluster's life with Quoin.
func TestBox(t *testing.T) {
	w := newWorld(t)
	w.step("install", install)
	w.step("register", register)
	w.step("job", job)
	w.step("asked", asked)
	w.step("change", change)
	w.step("imex", imex)
	w.step("upgrade", upgrade)
	w.step("uninstall", uninstall)
}
