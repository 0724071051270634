// Package dcgm builds a library that stands in for NVIDIA's libdcgm and reads its
// GPUs from a text file, so that the real go-dcgm can be tested on it. README.md
// describes the file.
package dcgm

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Variable names the file of GPUs in a process's environment.
const Variable = "FAKE_DCGM"

//go:embed dcgm.c
var source string

// Environment builds the library, with these macros defined, and returns what a
// process needs to load it and to find the statements. Without gcc the test
// fails; in short mode it is skipped.
func Environment(t testing.TB, statements string, macros ...string) []string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil && testing.Short() {
		t.Skip("needs gcc")
	}
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-dcgm").Output()
	if err != nil {
		t.Fatalf("find dcgm_agent.h: %v", err)
	}
	dir := t.TempDir()
	args := []string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-I" + filepath.Join(strings.TrimSpace(string(module)), "pkg", "dcgm")}
	for _, m := range macros {
		args = append(args, "-D"+m)
	}
	gcc := exec.CommandContext(t.Context(), "gcc", append(args, "-o", filepath.Join(dir, "libdcgm.so.4"), "-x", "c", "-")...)
	gcc.Stdin = strings.NewReader(source)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("build the library: %v\n%s", err, out)
	}
	file := filepath.Join(dir, "gpus.txt")
	if err := os.WriteFile(file, []byte(statements), 0o600); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "LD_LIBRARY_PATH="+dir, Variable+"="+file)
}
