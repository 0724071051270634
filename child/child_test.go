package child

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/await"
)

// shell is a program of a few lines of shell.
func shell(lines string, args ...string) *Program {
	return &Program{Path: "/bin/sh", Args: append([]string{"-c", lines, "sh"}, args...), Most: 8 << 10}
}

// TestOutput runs programs that answer, and others.
func TestOutput(t *testing.T) {
	for _, tt := range []struct{ name, lines, want, err string }{
		{"answers", "echo READY; echo a complaint >&2", "READY\n", ""},
		{"says nothing", "", "", ""},
		{"as much as it may", "head -c 8192 /dev/zero | tr '\\0' x", strings.Repeat("x", 8192), ""},
		{"more than it may", "yes", "", "an answer of more than 8 KiB"},
		{"more complaints than it may", "yes >&2", "", "an answer of more than 8 KiB"},
		{"fails", "echo 'cannot connect\007' >&2; echo no; exit 255", "", "exit status 255: cannot connect"},
		{"complains to stdout, and at length", "printf '\\n%0300d\\n' 0; exit 1", "", "exit status 1: " + strings.Repeat("0", 200) + "..."},
		{"fails, and complains of much", "seq -f %099.0f 1 80 >&2; exit 1", "", "exit status 1: " + strings.Repeat("0", 98) + "1"},
		{"fails without a word", "exit 3", "", "exit status 3"},
		{"is killed", "kill -9 $$", "", "signal: killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := shell(tt.lines).Output(t.Context())
			if said := fmt.Sprint(err); string(out) != tt.want || (err == nil) != (tt.err == "") || err != nil && said != tt.err {
				t.Errorf("%q, %v, want %q, %s", out, err, tt.want, tt.err)
			}
		})
	}
}

// TestInherits gives a program a file and an environment.
func TestInherits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inherited")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := shell(`cat <&3; echo " $A $HOME"`)
	p.Inherits, p.Env = []*os.File{file}, []string{"A=b"}
	if out, err := p.Output(t.Context()); string(out) != "text b \n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// TestEndsAll has a program start a process that hangs. It ends too.
func TestEndsAll(t *testing.T) {
	for _, tt := range []struct{ name, last, want string }{
		{"the program hangs", "wait", "no answer in time"},
		{"the program ends", "echo READY", "it has ended, and a process that it started has not"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := shell("sleep 1000 & echo $! >$1\n"+tt.last, file).Output(ctx)
				ended <- err
			}()
			var pid int
			await.Until(t, "the process", func() bool {
				data, err := os.ReadFile(file)
				n, _ := fmt.Sscanln(string(data), &pid)
				return err == nil && n == 1
			})
			if tt.last == "wait" {
				cancel()
			}
			if err := <-ended; err == nil || err.Error() != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
			await.Until(t, "the end of the process", func() bool {
				data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				_, state, _ := strings.Cut(string(data), ") ")
				return err != nil || strings.HasPrefix(state, "Z")
			})
		})
	}
}
