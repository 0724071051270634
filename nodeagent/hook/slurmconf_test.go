package hook

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTaskProlog(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"none", "ClusterName=c\n", false},
		{"alone", "TaskProlog=/x\n", true},
		{"in any case", "ClusterName=c\n  TASKPROLOG = /x\nNodeName=n1\n", true},
		{"empty", "TaskProlog=\n", false},
		{"comment", "#TaskProlog=/x\nX=1 # TaskProlog=/x\n", false},
		{"comment behind", "TaskProlog=#/x\n", false},
		{"what begins like it", "TaskPrologs=/x\n", false},
		{"another key's end", "OwnTaskProlog=/x\n", false},
		{"another key's value", "X=TaskProlog=/x\n", false},
		{"second on its line", "Prolog=/x TaskProlog=/x Epilog=/y", true},
		{"last counts", "TaskProlog=/x\nTaskProlog=\n", false},
		{"quoted", `TaskProlog="/x"`, true},
		{"over two lines", "TaskProlog=\\\n/x\n", true},
		{"next line", "TaskProlog=\n/x\n", false},
		{"carriage returns", "TaskProlog=/x\r\n", true},
		{"include", "Include other.conf\n", false},
	} {
		path := filepath.Join(t.TempDir(), "slurm.conf")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readSlurmConf(path).taskProlog; got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
	for _, path := range []string{"", filepath.Join(t.TempDir(), "missing"), t.TempDir(), "/dev/zero"} {
		if readSlurmConf(path).taskProlog {
			t.Errorf("%q says yes", path)
		}
	}
}

// TestTaskPrologBounded reads no more of a file than it must: all of it would take hours.
func TestTaskPrologBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(path, []byte("TaskProlog=/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Fatal(err)
	}
	if !readSlurmConf(path).taskProlog {
		t.Error("what is in the first part was not found")
	}
}

func FuzzTaskProlog(f *testing.F) {
	f.Add("x=1 TaskProlog = \"/x\" # y\nTaskProlog=\\\n/y")
	f.Fuzz(func(t *testing.T, text string) {
		value := func(text string) string { return confValue(bytes.ToLower([]byte(text)), "taskprolog") }
		if value(text) != "" && !strings.Contains(strings.ToLower(text), "taskprolog") {
			t.Fatal("found without its key")
		}
		if before, _, has := strings.Cut(text, "="); has && !strings.Contains(before, "#") && value(text+"\nTaskProlog=/z\n") != "/z" && !strings.HasSuffix(text, `\`) {
			t.Fatalf("a last line does not count after %q", text)
		}
	})
}
