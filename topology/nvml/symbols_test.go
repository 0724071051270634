//go:build cgo

package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
)

// TestLoadedFunctions holds that the list of functions is the whole of what the
// library of the tests has: a call to another one ends the process there. One more is for
// NVIDIA's DRA driver, which loads the same library.
func TestLoadedFunctions(t *testing.T) {
	want := slices.Concat(required, optional, []string{"nvmlInitWithFlags"})
	slices.Sort(want)
	if diff := cmp.Diff(want, fake.Functions(t, fake.Library(t, 580))); diff != "" {
		t.Errorf("functions (-listed +in the library):\n%s", diff)
	}
}

// TestLoadedWithoutFunction takes each function in turn out of the library. Without a
// required function nothing is read, and the error names it. Without an optional function the
// report is the same as if the function answered FUNCTION_NOT_FOUND.
func TestLoadedWithoutFunction(t *testing.T) {
	full := fake.Library(t, 580)
	for _, name := range required {
		said := startWith(t, fake.Without(t, full, name), fake.New(t, "t4")).ends()
		if !strings.HasPrefix(said, "load NVML: ") || !strings.Contains(said, " lacks "+name+": it is no NVML, or that of a driver before 470; ") {
			t.Errorf("without %s: said %q", name, said)
		}
	}
	for _, name := range optional {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := fake.New(t, "gb200", withMIG...)
			p := startWith(t, fake.Without(t, full, name), m)
			answer := "error 13" // FUNCTION_NOT_FOUND
			if name == fabricInfoV {
				answer = "error 25" // ARGUMENT_VERSION_MISMATCH: go on with the older form
			}
			m.Change(append(withMIG, "gpu *", "call "+name+" "+answer)...)
			want := start(t, 580, m).read()
			want.Problems = nil
			m.Change(withMIG...)
			for range 2 { // the watch for events has begun
				if diff := cmp.Diff(want, p.read()); diff != "" {
					t.Errorf("report (-want +got):\n%s", diff)
				}
			}
			_ = p.in.Close()
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("at the end: %v: %s", err, &p.stderr)
			}
		})
	}
}

// TestOpenNoLibrary opens what is no NVML.
func TestOpenNoLibrary(t *testing.T) {
	dir := t.TempDir()
	text, empty, missing := filepath.Join(dir, "text.so"), filepath.Join(dir, "empty.so"), filepath.Join(dir, "missing", defaultLibrary)
	write(t, dir, map[string]string{"text.so": "a text of more than sixty-four bytes, which is what an ELF header has at least\n", "empty.so": ""})
	nvml, err := os.ReadFile(fake.Library(t, 580))
	if err != nil {
		t.Fatal(err)
	}
	narrow := slices.Clone(nvml)
	narrow[4] = 1 // ELFCLASS32
	write(t, dir, map[string]string{"cut.so": string(nvml[:40]), "32.so": string(narrow)})
	tests := []struct{ path, want string }{
		{missing, "load NVML: " + missing + ": cannot open shared object file: No such file or directory; correct --nvml-library or agent.nvmlLibrary"},
		{text, text + ": invalid ELF header; correct --nvml-library or agent.nvmlLibrary"},
		{empty, empty + ": file too short; correct --nvml-library or agent.nvmlLibrary"},
		{filepath.Join(dir, "cut.so"), "cut.so: file too short; correct --nvml-library or agent.nvmlLibrary"},
		{filepath.Join(dir, "32.so"), "32.so: wrong ELF class: ELFCLASS32; correct --nvml-library or agent.nvmlLibrary"},
		{dir, dir + ": cannot read file data: Is a directory; correct --nvml-library or agent.nvmlLibrary"},
		{"libm.so.6", "load NVML: libm.so.6 lacks nvmlInit_v2: it is no NVML, or that of a driver before 470; correct --nvml-library or agent.nvmlLibrary"},
	}
	for _, tt := range tests {
		if _, err := Open(Options{Path: tt.path}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %s", tt.path, err, tt.want)
		}
	}
	if _, err := os.Stat("/usr/lib/x86_64-linux-gnu/" + defaultLibrary); err == nil {
		return // a machine with a driver
	}
	want := fmt.Sprintf("load NVML: %s: cannot open shared object file: No such file or directory; is the NVIDIA driver installed here", defaultLibrary)
	if _, err := Open(Options{}); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
}
