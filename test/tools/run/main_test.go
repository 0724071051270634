package main

import (
	"strings"
	"testing"
)

// TestNothingInstalled shows that a test on real parts builds and fetches nothing: each rig says at once
// which command installs what is missing.
func TestNothingInstalled(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, p := range parts() {
		if _, err := p.build(t.Context()); err == nil || !strings.Contains(err.Error(), "run make setup") {
			t.Errorf("%s: error %v, want the command", p.name, err)
		}
	}
}
