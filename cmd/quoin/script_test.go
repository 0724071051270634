package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts, and tests that start processes, run this program under
// the name quoin.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quoin": main})
}

// TestScripts runs what users do, and what goes wrong when they do it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "../../testdata/scripts",
		Setup: func(e *testscript.Env) error {
			e.Setenv("NODE_NAME", "")
			return nil
		},
	})
}
