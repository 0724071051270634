// Package child runs a program that may hang or print anything, and ends it with all that it started.
//
// A program that the kernel holds does not end when it is killed. Then [Program.Output] does not return:
// its caller decides how long to wait, and starts no second program meanwhile.
package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

// grace is how long a process that the program started may keep the pipe after the program's end. On a busy
// machine the program's last words need a while, too.
const grace = 2 * time.Second

// Program is a program to run once.
type Program struct {
	Path string
	Args []string
	// Env is its environment. Nil is that of this process.
	Env []string
	// Inherits are files that it finds as descriptors 3 and following.
	Inherits []*os.File
	// Most bounds what it may print to each of its two outputs, in bytes.
	Most int
}

// Output runs the program and returns what it prints. The program is killed with all that it
// started when ctx ends, and when this process ends. If the program fails, the error has the first line of its
// complaint.
func (p *Program) Output(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Env, cmd.ExtraFiles = p.Env, p.Inherits
	// A process group of its own, which is killed as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	cmd.WaitDelay = grace
	text, complaint := bounded{most: p.Most}, bounded{most: p.Most}
	cmd.Stdout, cmd.Stderr = &text, &complaint
	runtime.LockOSThread() // Pdeathsig is tied to the thread that starts the program
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	switch {
	case text.over || complaint.over:
		return nil, fmt.Errorf("an answer of more than %d KiB", p.Most>>10)
	case ctx.Err() != nil:
		return nil, errors.New("no answer in time")
	case errors.Is(err, exec.ErrWaitDelay):
		_ = kill() // the process that keeps the pipe is in the group
		return nil, errors.New("it has ended, and a process that it started has not")
	case err != nil:
		return nil, Complained(err, append(complaint.data, text.data...))
	}
	return text.data, nil
}

// Complained adds to an error the first line of what a program has printed.
func Complained(err error, text []byte) error {
	const most = 200
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	line = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, line))
	if runes := []rune(line); len(runes) > most {
		line = string(runes[:most]) + "..."
	}
	if line == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, line)
}

// bounded keeps what is written to it, up to most bytes.
type bounded struct {
	most int
	data []byte
	over bool
}

var errOver = errors.New("too much")

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.data)+len(p) > b.most {
		b.over = true
		return 0, errOver // closes the pipe
	}
	b.data = append(b.data, p...)
	return len(p), nil
}
