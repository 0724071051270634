package hook

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/logtext"
)

func takeCalls(t *testing.T, run string) []string {
	t.Helper()
	var words []string
	for range 2 {
		calls, err := rundir.Dir(run).TakeCalls()
		if err != nil {
			t.Error(err)
		}
		for _, c := range calls {
			words = append(words, c.Hook+" "+c.Error)
		}
	}
	return words
}

// TestHangs has the work stand still somewhere: the job goes on.
func TestHangs(t *testing.T) {
	for _, verb := range []string{"prolog", "epilog"} {
		t.Run(verb, func(t *testing.T) {
			p := newPlace(t)
			p.hook("prolog", "7", "SLURM_JOB_GPUS=0")
			_ = takeCalls(t, p.run)
			held := make(chan struct{})
			t.Cleanup(func() { close(held) })
			var hangs atomic.Bool
			env := func(key string) string {
				switch key {
				case "SLURM_JOB_ID":
					return "7"
				case "SLURM_JOB_GPUS", "SLURM_JOB_EXIT_CODE2":
					if hangs.CompareAndSwap(false, true) { // the work, and not who gives it up
						<-held
						runtime.Goexit() // what it would write now is in the way of the test's end
					}
				}
				return ""
			}
			var said logtext.Text // the hook may write after it has come back
			before := time.Now()
			code := run(t.Context(), []string{verb, "--run-dir", p.run, "--mapping-dir", p.mapping, "--wait", "200ms"}, env, &said)
			if took := time.Since(before); code != 0 || took < 200*time.Millisecond || !strings.Contains(said.String(), "job 7: not done in time after ") {
				t.Errorf("exit %d after %s, said %q", code, took, said.String())
			}
			if diff := cmp.Diff([]string{verb + " timeout"}, takeCalls(t, p.run)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			marks, err := rundir.Dir(p.run).Marks()
			if want := map[string]int{"prolog": 0, "epilog": 1}[verb]; len(marks) != want || err != nil {
				t.Errorf("marks %v, %v; want %d", marks, err, want)
			}
		})
	}
}

func TestPanic(t *testing.T) {
	p := newPlace(t)
	p.hook("prolog", "7", "SLURM_JOB_GPUS=0")
	_ = takeCalls(t, p.run)
	var said logtext.Text // the hook may write after it has come back
	env := func(key string) string {
		if key == "SLURM_JOB_EXIT_CODE2" { // while it holds the lock
			panic("no such luck")
		}
		return map[string]string{"SLURM_JOB_ID": "7"}[key]
	}
	code := run(t.Context(), []string{"epilog", "--run-dir", p.run, "--mapping-dir", p.mapping}, env, &said)
	if code != 0 || !strings.Contains(said.String(), "no such luck; this is a bug in quoin-hook") {
		t.Errorf("exit %d, said %q", code, said.String())
	}
	if diff := cmp.Diff([]string{"epilog panic"}, takeCalls(t, p.run)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.hook("epilog", "7")
	p.check("the next call", map[string]string{"0": "\n"})
}

// program is the hook as a process of its own.
func (p *place) program(verb, job string, words ...string) *exec.Cmd {
	hook := filepath.Join(p.t.TempDir(), "quoin-hook")
	buildHook(p.t, hook)
	cmd := exec.CommandContext(p.t.Context(), hook, verb, "--run-dir", p.run, "--mapping-dir", p.mapping)
	cmd.Env = append([]string{"SLURM_JOB_ID=" + job, "SLURM_CONF=" + configlessConf}, words...)
	return cmd
}

// opens returns where an event is read for each time that a file of the run directory
// is opened.
func (p *place) opens(file string) *os.File {
	p.t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		p.t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	p.t.Cleanup(func() { _ = events.Close() })
	if _, err := unix.InotifyAddWatch(fd, filepath.Join(p.run, file), unix.IN_OPEN); err != nil {
		p.t.Fatal(err)
	}
	return events
}

// waitOpened waits until a file has been opened again.
func waitOpened(t *testing.T, opened *os.File) {
	t.Helper()
	if err := opened.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		t.Error(err)
	}
	if _, err := opened.Read(make([]byte, unix.SizeofInotifyEvent)); err != nil {
		t.Errorf("nobody opens it: %v", err)
	}
}

// TestStopped tells a hook to stop that waits for the lock.
func TestStopped(t *testing.T) {
	p := newPlace(t)
	p.hook("prolog", "7", "SLURM_JOB_GPUS=0")
	unlock, err := rundir.Dir(p.run).Lock(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	opened := p.opens("lock")
	cmd := p.program("epilog", "7")
	cmd.Args = append(cmd.Args, "--wait", "30m")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It has its handlers by when it opens the lock.
	waitOpened(t, opened)
	before := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(stderr)
	if err := cmd.Wait(); err != nil || time.Since(before) > 15*time.Minute || !strings.Contains(string(said), "job 7: ") {
		t.Errorf("%v after %s, said %q", err, time.Since(before), said)
	}
	unlock()
	p.hook("prolog", "8", "SLURM_JOB_GPUS=1")
	p.check("the next hook makes up for it", map[string]string{"0": "\n", "1": "8\n"})
}

// TestClosed has no stdin, stdout or stderr, or nobody who reads them: files that
// the hook opens must not be taken for them.
func TestClosed(t *testing.T) {
	p := newPlace(t)
	hook := p.program("", "").Path
	for i, script := range []string{`"$@" <&- >&- 2>&-`, `"$@" 2>&1 | :`, `exec "$@" </dev/full >/dev/full 2>/dev/full`} {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", "set -o pipefail; "+script, "bash", hook, "prolog", "--run-dir", p.run, "--mapping-dir", p.mapping)
		cmd.Env = []string{"SLURM_JOB_ID=7", "SLURM_JOB_GPUS=" + strconv.Itoa(i), "SLURM_CONF=" + configlessConf}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
		want := map[string]string{"0": "\n", "1": "\n", "2": "\n"}
		for g := range want {
			if g > strconv.Itoa(i) {
				delete(want, g)
			}
		}
		want[strconv.Itoa(i)] = "7\n"
		p.check(script, want)
	}
}

// TestMappingFull has no room for another file: a GPU that has a file can be labelled and
// released, also while jobs share it, and what cannot be labelled is said.
func TestMappingFull(t *testing.T) {
	p := newPlace(t)
	cmd := p.program("prolog", "7", "SLURM_JOB_GPUS=0")
	script := `set -e; mkdir -p "$2"; mount -t tmpfs -o nr_inodes=7 none "$2"; hook=$0; run=$1; map=$2; conf=$3
hook() { SLURM_JOB_ID=$2 SLURM_JOB_GPUS=$3 SLURM_CONF="$conf" "$hook" $1 --run-dir "$run" --mapping-dir "$map"; }
hook prolog 7 0; while : >"$map/.quoin/fill$((++n))"; do :; done 2>/dev/null || :
hook prolog 8 1; hook prolog 9 0; cat "$map"/0; echo --; hook epilog 7 0; cat "$map"/0; echo --; hook epilog 9 0; stat -c %s "$map"/0; cat "$run"/calls.log`
	out, err := exec.CommandContext(t.Context(), "unshare", "-rm", "bash", "-c", script, cmd.Path, p.run, p.mapping, p.conf).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || strings.Contains(string(out), "Operation not permitted")) {
		t.Skipf("needs a mount of its own: %v\n%s", err, out)
	}
	if err != nil || strings.Count(string(out), "no space left on device") != 1 || !strings.Contains(string(out), "\n7\n9\n--\n") || !strings.Contains(string(out), "\n9\n--\n1\n{") {
		t.Errorf("%v\n%s", err, out)
	}
}
