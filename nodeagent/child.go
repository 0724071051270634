package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// Why a child ended.
const (
	endExit    = "exit"    // by itself, or a library ended it
	endHang    = "hang"    // it said nothing of use and was killed
	endGarbage = "garbage" // it said too much of no use and was killed
	endStart   = "start"   // it could not be started
)

// maxRefused is how many lines of no use in a row end a child.
const maxRefused = 100

// child is a program of ours that says what it knows in lines. The library that
// it calls may hang, crash, end it, or write anything into the pipe.
type child struct {
	// what names the child in messages, blame says what may keep it.
	what, blame string
	command     []string
	// start is the most that it may take for its first good line, silence for
	// each after that.
	start, silence time.Duration
	// heard takes a line; an error refuses it, and errAside sets it aside.
	heard func(line []byte) error
	// tell talks to the child on its standard input until ctx ends, which it does
	// with the child, or a write fails; nil for nothing. The child may never read.
	tell func(ctx context.Context, child io.Writer)
	// deaf is called when no more is heard of it; nil for nothing.
	deaf func()
	log  *slog.Logger
}

// errAside is about a line that is of use, and no sign that the child does its
// work.
var errAside = errors.New("aside")

// childEnd is why a child ended, in one word and in words.
type childEnd struct {
	reason string
	err    error
}

func (e childEnd) Error() string { return e.err.Error() }
func (e childEnd) Unwrap() error { return e.err }

// run runs the child until it ends, falls silent, or ctx ends; then nothing that
// it started is left. It reports whether the child gave a good line.
func (c *child) run(ctx context.Context) (good bool, err error) {
	// The kernel sends the death signal when the thread that started the child
	// ends, so that thread is kept.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(c.command[0], c.command[1:]...) //nolint:gosec,noctx // killed below, with its group
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe() // closed with us: the child ends when its input does
	if err != nil {
		return false, childEnd{endStart, fmt.Errorf("start %s: %w", c.what, err)}
	}
	defer stdin.Close() //nolint:errcheck // the child has ended
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, childEnd{endStart, fmt.Errorf("start %s: %w", c.what, err)}
	}
	var stderr endsBuffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		_ = stdout.Close()
		return false, childEnd{endStart, fmt.Errorf("start %s: %w", c.what, err)}
	}
	quiet := c.talk(ctx, stdin)
	defer quiet()
	good, end := c.listen(ctx, stdout)
	if c.deaf != nil {
		c.deaf()
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	waited, ended := c.await(ctx, cmd.Wait)
	switch {
	case !ended:
		return good, fmt.Errorf("%s %d is still there: %w", c.what, cmd.Process.Pid, ctx.Err())
	case end == nil:
		end = childEnd{endExit, fmt.Errorf("%s ended: %w: %s", c.what, exitOf(waited), Said(stderr.bytes()))}
	}
	return good, end
}

// talk has tell talk to the child until the returned function is called, which ends
// a write that the child does not read.
func (c *child) talk(ctx context.Context, stdin io.WriteCloser) (quiet func()) {
	if c.tell == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.tell(ctx, stdin)
	}()
	return func() {
		cancel()
		_ = stdin.Close() // once more is no harm
		<-done
	}
}

// await waits for a child that was killed. A call into the driver may keep it
// for ever where no signal reaches it; then there must not be a second one, so
// it waits on, until ctx ends and a little more.
func (c *child) await(ctx context.Context, wait func() error) (result error, ended bool) {
	const patience = 5 * time.Second
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return err, true
	case <-time.After(patience):
	}
	c.log.Error("killed child does not end: the driver holds it; reset the GPU or reboot the node", "child", c.what)
	select {
	case err := <-done:
		return err, true
	case <-ctx.Done():
		return nil, false
	}
}

// exitOf gives an error that is never nil.
func exitOf(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// listen hears the child's lines until the end of the pipe (nil), silence, too
// much of no use, or the end of ctx. It reports whether one was good.
func (c *child) listen(ctx context.Context, r io.Reader) (good bool, err error) {
	done := make(chan struct{})
	defer close(done)
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		readLines(r, maxLine, func(line []byte) {
			select {
			case lines <- line:
			case <-done:
			}
		})
	}()
	limit, refused := c.start, 0
	var last error
	silence := time.NewTimer(limit)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return good, ctx.Err()
		case <-silence.C:
			if refused > 0 {
				return good, childEnd{endGarbage, fmt.Errorf("%s said nothing of use for %s, the last: %w", c.what, limit, last)}
			}
			return good, childEnd{endHang, fmt.Errorf("%s said nothing of use for %s; %s", c.what, limit, c.blame)}
		case line, ok := <-lines:
			if !ok {
				return good, nil
			}
			err := c.hear(line, good)
			if errors.Is(err, errAside) {
				continue
			}
			if err != nil {
				last = err
				if refused++; refused == maxRefused {
					return good, childEnd{endGarbage, fmt.Errorf("%s: %d lines of no use in a row, the last: %w", c.what, refused, last)}
				}
				if refused == 1 { // the rest would flood the log
					c.log.Warn("line refused", "child", c.what, "err", err)
				}
				continue
			}
			good, refused, limit = true, 0, c.silence
			silence.Reset(limit)
		}
	}
}

// hear takes one line. An empty one repeats the line before, so it cannot be
// the first.
func (c *child) hear(line []byte, good bool) error {
	if len(line) == 0 && !good {
		return errors.New("empty line before the first report")
	}
	return c.heard(line)
}

// endsBuffer keeps the first and the last bytes of what is written to it: Go's
// account of a fatal signal begins with what matters and is long.
type endsBuffer struct {
	first, last []byte
	cut         bool
}

func (b *endsBuffer) Write(p []byte) (int, error) {
	const most = 2 << 10
	n := min(len(p), most-len(b.first))
	b.first = append(b.first, p[:n]...)
	b.last = append(b.last, p[n:]...)
	if over := len(b.last) - most; over > 0 {
		b.last, b.cut = append(b.last[:0], b.last[over:]...), true
	}
	return len(p), nil
}

func (b *endsBuffer) bytes() []byte {
	if b.cut {
		return slices.Concat(b.first, []byte(" [...] "), b.last)
	}
	return slices.Concat(b.first, b.last)
}
