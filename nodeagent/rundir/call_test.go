package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestCalls(t *testing.T) {
	run := t.TempDir()
	take := func(step string, want ...Call) {
		t.Helper()
		got, err := Dir(run).TakeCalls()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", step, err, diff)
		}
	}
	add := func(c Call) Call {
		t.Helper()
		if err := Dir(run).AppendCall(c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	take("none")
	defer syscall.Umask(syscall.Umask(0))
	a := add(Call{Hook: "prolog", Job: "7", Start: 1, Ns: 5, LockNs: 2})
	b := add(Call{Hook: "epilog", Job: "7", Start: 2, Ns: 6, Error: CallLock})
	late, err := os.OpenFile(filepath.Join(run, callsFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if info, err := late.Stat(); err != nil || info.Mode() != 0o600 { // it shows the jobs of all users
		t.Errorf("the log is %v, %v", info.Mode(), err)
	}
	take("set aside")
	if _, err := late.WriteString(`{"hook":"epilog","job":"8","start":3,"ns":7}` + "\n"); err != nil {
		t.Fatal(err)
	}
	c := add(Call{Hook: "prolog", Job: "9", Start: 4, Ns: 8, Gate: GateWaited, GateNs: 9})
	take("with a late writer's", a, b, Call{Hook: "epilog", Job: "8", Start: 3, Ns: 7})
	take("the next", c)
	take("all taken")
}

func TestCallsBounded(t *testing.T) {
	run := t.TempDir()
	path := filepath.Join(run, callsFile)
	if err := os.WriteFile(path, []byte(strings.Repeat("x", maxCalls-100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := Dir(run).AppendCall(Call{Hook: "prolog", Job: "7"}); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() <= maxCalls-100 || info.Size() > maxCalls {
		t.Errorf("%v, %v: want some calls more, and %d bytes at most", info.Size(), err, maxCalls)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Dir(run).AppendCall(Call{Hook: "prolog"}); err == nil {
		t.Error("a named pipe was written to")
	}
	if err := Dir(filepath.Join(run, "missing")).AppendCall(Call{Hook: "prolog"}); err == nil {
		t.Error("no error for a missing directory")
	}
}

func TestCallsBroken(t *testing.T) {
	run := t.TempDir()
	text := `{"hook":"prolog","job":"7","ns":1}` + "\n" + `{"hook":"dance","ns":1}` + "\n" + `{"hook":"epilog","ns":-1}` + "\ncut o"
	if err := os.WriteFile(filepath.Join(run, takenFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	calls, err := Dir(run).TakeCalls()
	if len(calls) != 1 || calls[0].Job != "7" || err == nil || !strings.Contains(err.Error(), "3 lines") {
		t.Errorf("%v, %v", calls, err)
	}
}

func FuzzCalls(f *testing.F) {
	f.Add([]byte(`{"hook":"prolog","job":"7","start":1,"ns":5}` + "\n\n{\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		calls, _ := parseCalls(data)
		for _, c := range calls {
			if c.Hook != "prolog" && c.Hook != "epilog" || c.Ns < 0 || c.LockNs < 0 || c.GateNs < 0 {
				t.Fatalf("%+v", c)
			}
		}
	})
}
