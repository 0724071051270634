package main

import (
	"path/filepath"
	"testing"

	"github.com/quoin-hpc/quoin/nodeagent/hook"
	"github.com/quoin-hpc/quoin/test/rig/pages"
)

// TestPages holds that each call of the hook in the pages for users has a right command line.
func TestPages(t *testing.T) {
	paths, err := filepath.Glob("../../manifests/docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, path := range paths {
		blocks, err := pages.Read(path)
		if err != nil {
			t.Error(err)
		}
		for _, b := range blocks {
			if b.Language != "sh" {
				continue
			}
			calls, err := b.CallsOf("quoin-hook")
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			for _, call := range calls {
				if _, err := parse(new(hook.Options), call); err != nil {
					t.Errorf("%s:%d: %q: %v", path, b.Line, call, err)
				}
			}
		}
	}
}
