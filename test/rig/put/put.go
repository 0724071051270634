// Package put writes files for tests.
package put

import (
	"os"
	"path/filepath"
	"testing"
)

// File writes a file, and makes the folders above it. It puts the file in place by rename: who reads
// the path finds a whole file, and a program can run at once.
func File(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
