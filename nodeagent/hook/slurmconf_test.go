package hook

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestContained(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"none", "ClusterName=c\n", false},
		{"alone", "PrologFlags=Contain\n", true},
		{"among others, in any case", "ClusterName=c\n  PROLOGFLAGS = Alloc,cONTAIN,NoHold\nNodeName=n1\n", true},
		{"not among others", "PrologFlags=Alloc,NoHold\n", false},
		{"what begins like it", "PrologFlags=ContainX\n", false},
		{"X11 brings it along", "PrologFlags=X11", true},
		{"RunInJob brings it along", "PrologFlags=RunInJob", true},
		{"comment", "#PrologFlags=Contain\nX=1 # PrologFlags=Contain\n", false},
		{"comment behind", "PrologFlags=Alloc#Contain\n", false},
		{"another key's end", "EpilogPrologFlags=Contain\n", false},
		{"another key's value", "X=PrologFlags=Contain\n", false},
		{"second on its line", "Prolog=/x PrologFlags=Contain Epilog=/y", true},
		{"last counts", "PrologFlags=Contain\nPrologFlags=Alloc\n", false},
		{"quoted", `PrologFlags="Alloc,Contain"`, true},
		{"over two lines", "PrologFlags=Alloc,\\\nContain\n", true},
		{"next line", "PrologFlags=\nContain\n", false},
		{"carriage returns", "PrologFlags=Alloc,Contain\r\n", true},
		{"include", "Include other.conf\n", false},
	} {
		path := filepath.Join(t.TempDir(), "slurm.conf")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readSlurmConf(path).contain; got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
	for _, path := range []string{"", filepath.Join(t.TempDir(), "missing"), t.TempDir(), "/dev/zero"} {
		if readSlurmConf(path).contain {
			t.Errorf("%q says yes", path)
		}
	}
}

// TestContainedBounded reads no more of a file than it must: all of it would take hours.
func TestContainedBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(path, []byte("PrologFlags=Contain\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Fatal(err)
	}
	if !readSlurmConf(path).contain {
		t.Error("what is in the first part was not found")
	}
}

func FuzzContained(f *testing.F) {
	f.Add("x=1 PrologFlags = \"Alloc,Contain\" # y\nPrologFlags=\\\nX11")
	f.Fuzz(func(t *testing.T, text string) {
		hasContain := func(text string) bool {
			return bringsContain(confValue(bytes.ToLower([]byte(text)), "prologflags"))
		}
		if hasContain(text) && !strings.Contains(strings.ToLower(text), "prologflags") {
			t.Fatal("found without its key")
		}
		if before, _, has := strings.Cut(text, "="); has && !strings.Contains(before, "#") && !hasContain(text+"\nPrologFlags=Contain\n") && !strings.HasSuffix(text, `\`) {
			t.Fatalf("a last line does not count after %q", text)
		}
	})
}
