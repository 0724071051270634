package e2e_test

import "testing"

// TestBox goes through the life of a cluster of Slinky's with Quoin, from the first command of its page to
// the last.
func TestBox(t *testing.T) {
	w := newWorld(t)
	w.step("install", install)
	w.step("look", look)
	w.step("register", register)
	w.step("job", job)
	w.step("asked", asked)
	w.step("change", change)
	w.step("hosts", hosts)
	w.step("imex", imex)
	w.step("adopt", adopt)
	w.step("paused", paused)
	w.step("upgrade", upgrade)
	w.step("uninstall", uninstall)
}
