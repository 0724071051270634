package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
)

// TestLocalProgram finds the program where it may be.
func TestLocalProgram(t *testing.T) {
	m := newDaemonMachine(t, podConfig)
	want := "235 0 / false\nImexUnreadable: IMEX: daemon's state: a daemon is configured, and there is no nvidia-imex-ctl to ask it: want the program in PATH, or in usr/bin or run/nvidia/driver/usr/bin of ROOT"
	if got := m.read(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, folder := range []string{"run/nvidia/driver/usr/bin", "usr/bin", "path"} {
		programs.PutIMEXCtl(t, filepath.Join(m.root, folder), "echo "+strings.ToUpper(folder[:2]))
		if folder == "path" {
			t.Setenv("PATH", filepath.Join(m.root, folder)+":/usr/bin:/bin")
		}
		if got, want := m.read(), "235 0 "+strings.ToUpper(folder[:2])+"/ false"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestLocalBadAnswers has answers that are none. Each is a problem and no fault of the daemon. The reason
// is the same at each reading, whatever the program says.
func TestLocalBadAnswers(t *testing.T) {
	tests := []struct{ name, script, daemon, domain string }{
		{"fails", "echo 'cannot connect\u0007' >&2; echo $$; exit 255", "exit status 255: cannot connect", "exit status 255: cannot connect"},
		{"garbage", "printf '\\377\\001 x'", "the answer is not one word such as READY: x", "the answer is not JSON with a status such as UP"},
		{"nothing", "", "the answer is not one word such as READY", "the answer is not JSON with a status such as UP"},
		{"two words", "echo READY 7", "the answer is not one word such as READY: READY 7", "the answer is not JSON with a status such as UP"},
		{"JSON without a status", `echo '{"nodes": {}}'`, `the answer is not one word such as READY: {"nodes": {}}`, "the answer is not JSON with a status such as UP"},
		{"hangs", "sleep 1000", "no answer in time", "no answer in time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newDaemonMachine(t, hostConfig)
			if tt.name == "hangs" {
				m.local.ctl.timeout = 300 * time.Millisecond
			}
			m.script(tt.script)
			want := "235 0 / true\n" +
				"ImexUnreadable: IMEX: daemon's state: nvidia-imex-ctl -q of the daemon at 10.0.0.1:50005: " + tt.daemon + "\n" +
				"ImexUnreadable: IMEX: domain's state: nvidia-imex-ctl -c ROOT/etc/nvidia-imex/config.cfg -N -j: " + tt.domain
			for range 2 {
				facts, problems := m.local.Read(true)
				if diff := cmp.Diff(want, m.shown(facts, problems)); diff != "" || facts.DaemonFault != "" {
					t.Errorf("fault %q (-want +got)\n%s", facts.DaemonFault, diff)
				}
			}
		})
	}
}

// TestLocalRefused has what nvidia-imex-ctl refuses. A log in a folder that is not there, as in a
// container, keeps it from the peers and not from the daemon.
func TestLocalRefused(t *testing.T) {
	m := newDaemonMachine(t, hostConfig)
	m.says("READY", upAnswer)
	config := filepath.Join(m.root, hostConfig)
	text := strings.Replace(fmt.Sprintf(daemonConfigText, filepath.Join(m.root, "etc/nvidia-imex/nodes_config.cfg")), "LOG_FILE_NAME=", "LOG_FILE_NAME="+m.root+"/var/log/nvidia-imex.log", 1)
	put.File(t, config, text, 0o600)
	want := "235 0 READY/ true\nImexUnreadable: IMEX: domain's state: nvidia-imex-ctl -c ROOT/etc/nvidia-imex/config.cfg -N -j: exit status 1: LOG_FILE_NAME has an invalid value"
	if got := m.read(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := os.MkdirAll(filepath.Join(m.root, "var/log"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, want := m.read(), "235 0 READY/UP true"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	const unknown = "Unknown command line flag 'i'\n"
	out, err := exec.CommandContext(t.Context(), filepath.Join(m.root, "usr/bin", ctlProgram), "-i", "10.0.0.1", "50005", "-q").CombinedOutput()
	if err == nil || err.Error() != "exit status 1" || string(out) != unknown {
		t.Errorf("%v, %q, want %q", err, out, unknown)
	}
}

// TestLocalMissedAnswer keeps a state over one question without an answer, and no
// longer.
func TestLocalMissedAnswer(t *testing.T) {
	m := newDaemonMachine(t, podConfig)
	const ready = "235 0 READY/ false"
	failed := "235 0 / false\nImexUnreadable: IMEX: daemon's state: nvidia-imex-ctl -q of the daemon at 10.0.0.1:50005: exit status "
	for i, step := range []struct{ script, want string }{
		{"exit 3", failed + "3"},
		{"exit 4", failed + "3"}, // the first reason stays
		{"echo READY", ready},
		{"exit 5", ready},
		{"echo READY", ready},
		{"exit 6", ready},
		{"exit 7", failed + "7"},
		{"echo READY", ready},
	} {
		m.script(step.script)
		if got := m.read(); got != step.want {
			t.Errorf("step %d, %s: got %q, want %q", i, step.script, got, step.want)
		}
	}
}

// TestLocalPatience has an answer come after the reading: the next one has it, and
// nothing is asked while it is under way.
func TestLocalPatience(t *testing.T) {
	m := newDaemonMachine(t, podConfig)
	m.local.ctl.patience = 50 * time.Millisecond
	wait := filepath.Join(m.root, "wait")
	put.File(t, wait, "", 0o600)
	m.script("while [ -e " + wait + " ]; do sleep 0.02; done; echo READY")
	for range 3 {
		if got, want := m.read(), "235 0 / false"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := os.Remove(wait); err != nil {
		t.Fatal(err)
	}
	m.local.ctl.patience = answerWithin
	if got, want := m.read(), "235 0 READY/ false"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := m.calls(); got != "-c /proc/self/fd/3 -q\n" {
		t.Errorf("calls\n%s", got)
	}
}

// TestLocalStuck has a program that the kernel does not end: it is said, no second
// one is started, and all is well when it has ended.
func TestLocalStuck(t *testing.T) {
	m := newDaemonMachine(t, podConfig)
	m.says("READY", "")
	c := &m.local.ctl
	c.patience = 10 * time.Millisecond
	d, err := m.local.findDaemon(false)
	if err != nil {
		t.Fatal(err)
	}
	q, err := m.local.question(d)
	if err != nil {
		t.Fatal(err)
	}
	c.last.to, c.underWay, c.since = *q, make(chan answer, 1), time.Now().Add(-answerWithin-2*dieWithin)
	want := "235 0 / false\nImexUnreadable: IMEX: daemon's state: nvidia-imex-ctl does not end when it is killed: the driver holds it; see dmesg"
	for range 2 {
		if got := m.read(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := m.calls(); got != "" {
		t.Errorf("calls\n%s", got)
	}
	c.underWay <- answer{to: *q, daemon: said{err: os.ErrDeadlineExceeded}}
	if got := m.read(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c.patience = answerWithin
	if got, want := m.read(), "235 0 READY/ false"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
