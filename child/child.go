// Package child runs a program that may hang or print anything, and ends it with all that it started.
//
// A program that the kernel holds does not end when it is killed. Then [Program.Output] and [Program.Read] do not return:
// their caller decides how long to wait, and starts no second program meanwhile. [Bind] is for a caller that talks to
// its program while the program runs.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	// Most bounds what it may print to each of its two outputs, in bytes. With Read it bounds what comes after what
	// was read.
	Most int
}

// maxComplaint bounds what is kept of a program's standard error, in bytes.
const maxComplaint = 4 << 10

// Output runs the program and returns what it prints. The program is killed with all that it
// started when ctx ends, and when this process ends. If the program fails, the error has the first line of its
// complaint.
func (p *Program) Output(ctx context.Context) ([]byte, error) {
	text := bounded{most: p.Most, keeps: p.Most}
	complaint, err := p.run(ctx, &text)
	switch exit := new(exec.ExitError); {
	case text.over:
		return nil, p.tooLong()
	case errors.As(err, &exit):
		complaint = append(complaint, text.data...)
	case err == nil:
		return text.data, nil
	}
	return nil, Complained(err, complaint)
}

// Read runs the program as Output does. read gets what the program prints, which may be too much to be kept. An
// error of read ends the program.
func (p *Program) Read(ctx context.Context, read func(out io.Reader) error) error {
	running, end := context.WithCancel(ctx)
	defer end()
	out, in := io.Pipe()
	result := make(chan error, 1)
	go func() {
		err := read(out)
		if rest := (&io.LimitedReader{R: out, N: int64(p.Most)}); err == nil {
			if _, err = io.Copy(io.Discard, rest); rest.N == 0 {
				err = p.tooLong()
			}
		}
		if err != nil {
			end()
		}
		_ = out.Close() // now the program cannot print more
		result <- err
	}()
	complaint, err := p.run(running, in)
	_ = in.Close()
	exit := new(exec.ExitError)
	failed := errors.As(err, &exit) && exit.Exited()
	if unread := <-result; unread != nil && ctx.Err() == nil && !failed {
		err = unread
	}
	if err == nil {
		return nil
	}
	return Complained(err, complaint)
}

// Bind prepares a program that this goroutine is about to start. The program gets a process group of its own, and kill
// ends the whole group. The kernel ends the program when this process ends, or already when the thread ends that
// started the program. So the goroutine keeps its thread until it calls release.
func Bind(cmd *exec.Cmd) (kill func() error, release func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	return func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }, runtime.UnlockOSThread
}

// run runs the program, and returns what it prints to its standard error.
func (p *Program) run(ctx context.Context, stdout io.Writer) (complaint []byte, err error) {
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Env, cmd.ExtraFiles = p.Env, p.Inherits
	kill, release := Bind(cmd)
	defer release()
	cmd.Cancel = kill
	cmd.WaitDelay = grace
	stderr := bounded{most: p.Most, keeps: maxComplaint}
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	err = cmd.Run()
	switch {
	case stderr.over:
		return nil, p.tooLong()
	case ctx.Err() != nil:
		err = errors.New("no answer in time")
	case errors.Is(err, exec.ErrWaitDelay):
		_ = kill() // the process that keeps the pipe is in the group
		err = errors.New("it has ended, and a process that it started has not")
	}
	return stderr.data, err
}

func (p *Program) tooLong() error { return fmt.Errorf("an answer of more than %d KiB", p.Most>>10) }

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

// bounded keeps the first bytes that are written to it, and takes no more than most bytes.
type bounded struct {
	most, keeps, n int
	data           []byte
	over           bool
}

var errOver = errors.New("too much")

func (b *bounded) Write(p []byte) (int, error) {
	if b.n += len(p); b.n > b.most {
		b.over = true
		return 0, errOver // closes the pipe
	}
	b.data = append(b.data, p[:min(len(p), b.keeps-len(b.data))]...)
	return len(p), nil
}
