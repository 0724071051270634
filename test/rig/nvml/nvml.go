// Package nvml builds a library that stands in for NVIDIA's libnvidia-ml and
// reads its machine from a text file, so that everything above the hardware can
// be tested as it is. README.md describes the file.
package nvml

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/cache"
	"github.com/quoin-hpc/quoin/test/rig/put"
)

// Variable names the machine's file in a process's environment.
const Variable = "FAKE_NVML"

//go:embed nvml.c
var source []byte

//go:embed *.txt
var machines embed.FS

// findHeaders returns the folder of go-nvml's nvml.h.
var findHeaders = sync.OnceValues(func() (string, error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	if err != nil {
		return "", fmt.Errorf("find nvml.h: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(module)), "pkg", "nvml"), nil
})

// Library builds the library with the symbols of a driver release, such as 550,
// once, and keeps it in the user's cache. Without gcc the test fails; in short
// mode it is skipped.
func Library(t testing.TB, driver int) string { return LibraryBy(t, driver, "gcc") }

// LibraryBy is Library by another compiler, such as aarch64-linux-gnu-gcc.
func LibraryBy(t testing.TB, driver int, compiler string) string {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil && testing.Short() {
		t.Skip("needs " + compiler)
	}
	headers, err := findHeaders()
	if err != nil {
		t.Fatal(err)
	}
	dir := cacheFolder("nvml-", string(source)+headers+compiler)
	path := filepath.Join(dir, "libnvidia-ml-"+strconv.Itoa(driver)+".so.1")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	staging, err := os.MkdirTemp(dir, "") //nolint:usetesting // in the cache, for the rename
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(staging) //nolint:errcheck // a folder in the cache
	built := filepath.Join(staging, "nvml.so")
	gcc := exec.CommandContext(t.Context(), compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", "-O1", "-shared", "-fPIC",
		"-DDRIVER="+strconv.Itoa(driver), "-I"+headers, "-o", built, "-x", "c", "-")
	gcc.Stdin = strings.NewReader(string(source))
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("build the library: %v\n%s", err, out)
	}
	if err := os.Rename(built, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// cacheFolder is the folder in the user's cache of what is made from a text.
func cacheFolder(kind, from string) string {
	sum := sha256.Sum256([]byte(from))
	return cache.Path(kind + hex.EncodeToString(sum[:6]))
}

// Reader builds a program that reads the machine's file as the library does, with
// checks of every access to memory and every sum: its exit status is 0, or 3 for a
// file that is refused.
func Reader(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil && testing.Short() {
		t.Skip("needs gcc")
	}
	headers, err := findHeaders()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "reader")
	gcc := exec.CommandContext(t.Context(), "gcc", "-std=gnu11", "-Wno-deprecated-declarations", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
		"-I"+headers, "-o", path, "-x", "c", "-")
	gcc.Stdin = strings.NewReader(string(source) + "\nint main(void) {\n\trefresh();\n\treturn 0;\n}\n")
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("build the reader: %v\n%s", err, out)
	}
	return path
}

// Functions returns the names of NVML's functions that the library has.
func Functions(t testing.TB, library string) []string {
	t.Helper()
	f, err := elf.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // of what was only read
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && strings.HasPrefix(s.Name, "nvml") {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Without returns a copy of a library that lacks a function: the loader finds it
// under another name only.
func Without(t testing.TB, library, function string) string {
	t.Helper()
	data, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	name := []byte("\x00" + function + "\x00")
	if bytes.Count(data, name) < 1 {
		t.Fatalf("%s has no %s", library, function)
	}
	other := slices.Clone(name)
	other[1] = 'x'
	path := filepath.Join(t.TempDir(), filepath.Base(library))
	if err := os.WriteFile(path, bytes.ReplaceAll(data, name, other), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// Machine is a machine's file, which may change while it is read.
type Machine struct {
	// File is the machine's file.
	File  string
	root  string            // made by Root
	files map[string]string // below it
	// devicesLinked says that the root's sys/devices is a link to a folder of all tests.
	devicesLinked bool
	t             testing.TB
	text          string
}

// New returns a copy of one of the machines beside this file, such as gb200,
// with more statements.
func New(t testing.TB, name string, more ...string) *Machine {
	t.Helper()
	text, err := machines.ReadFile(name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{File: filepath.Join(t.TempDir(), name+".txt"), t: t, text: string(text)}
	m.Change(more...)
	return m
}

// Environment is what a process that loads the library needs.
func (m *Machine) Environment() string { return Variable + "=" + m.File }

// Hung reports whether a call has hung since the machine was made.
func (m *Machine) Hung() bool {
	_, err := os.Stat(m.File + ".hung")
	return err == nil
}

// Registrations is how often a GPU was registered for events since the machine was
// made.
func (m *Machine) Registrations() int {
	info, err := os.Stat(m.File + ".registered")
	if err != nil {
		return 0
	}
	return int(info.Size())
}

// Reset makes the machine what it was at first with more statements, as a reset of its GPUs
// does. Like the driver it refuses while a process has NVML initialised.
func (m *Machine) Reset(more ...string) error {
	m.t.Helper()
	held, err := os.OpenFile(m.File+".held", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer held.Close()                                                                     //nolint:errcheck // it only holds the lock
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { //nolint:gosec // a descriptor
		return fmt.Errorf("reset: in use by another client: %w", err)
	}
	m.Change(more...)
	return nil
}

// Change makes the machine what it was at first with more statements.
func (m *Machine) Change(more ...string) {
	m.t.Helper()
	text := m.text + "\ngpu *\n" + strings.Join(more, "\n") + "\n"
	put.File(m.t, m.File, text, 0o600)
	if m.root != "" {
		m.makeRoot()
	}
}
