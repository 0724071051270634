package probe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/quoin-hpc/quoin/child"
)

// Why a child ended.
const (
	EndExit    = "exit"    // it ended by itself, or a library ended it
	EndHang    = "hang"    // it printed no good line in time and was killed
	EndGarbage = "garbage" // it printed lines that could not be used and was killed
	EndStart   = "start"   // it could not be started
)

// maxRefused is how many refused lines between two heartbeats end a child.
const maxRefused = 100

// Child is a program of ours that prints what it knows as lines. A library that
// it calls may hang, crash, end the program, or print anything.
type Child struct {
	// Name names the child in messages. Suspect says what may keep it from
	// answering.
	Name, Suspect string
	Command       []string
	// Start is the longest wait for the first good line, Silence for each line
	// after it.
	Start, Silence time.Duration
	Log            *slog.Logger
}

// parent is what a child talks to.
type parent interface {
	// hear takes a line. An error refuses the line. A good line that is no
	// heartbeat does not show that the child still does its work.
	hear(ctx context.Context, line []byte) (heartbeat bool, err error)
	// tell writes to the child until ctx ends or a write fails. The child may
	// never read.
	tell(ctx context.Context, stdin io.Writer)
	// silent is called when no more lines come. The child may not have ended.
	silent(ctx context.Context)
}

// endError is why a child ended: one word, and the error. If it ended by itself, said is what it wrote to its
// standard error.
type endError struct {
	reason string
	err    error
	said   string
}

func (e endError) Error() string { return e.err.Error() }
func (e endError) Unwrap() error { return e.err }

// run runs the child until it ends, falls silent, or ctx ends. Then it kills the
// child with all that the child started. It reports whether the child printed a
// heartbeat.
func (c *Child) run(ctx context.Context, p parent) (good bool, err error) {
	cmd := exec.Command(c.Command[0], c.Command[1:]...) //nolint:gosec,noctx // killed below, with its group
	cmd.Env = Environment()
	kill, release := child.Bind(cmd)
	defer release()
	stdin, err := cmd.StdinPipe() // the child ends when its input is closed
	if err != nil {
		return false, c.notStarted(err)
	}
	defer stdin.Close() //nolint:errcheck // the child has ended
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, c.notStarted(err)
	}
	var stderr endsBuffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		_ = stdout.Close()
		return false, c.notStarted(err)
	}
	defer startTelling(ctx, p, stdin)()
	good, end := c.listen(ctx, p, stdout)
	p.silent(ctx)
	_ = kill() // the child may have ended
	exit, ended := c.await(ctx, cmd.Wait)
	if !ended {
		return good, fmt.Errorf("%s %d has not ended: %w", c.Name, cmd.Process.Pid, ctx.Err())
	}
	if end == nil {
		if exit == nil {
			exit = errors.New("exit status 0")
		}
		said := complaint(stderr.bytes())
		end = endError{EndExit, fmt.Errorf("%s ended: %w: %s", c.Name, exit, said), said}
	}
	return good, end
}

// Environment is the environment of a child: the parent's, and settings of the Go
// runtime. A child works for milliseconds and then waits for seconds, so it needs no
// second processor, and a small heap counts more than the time of its collections. Go
// keeps memory for each processor: 7 MB if there are 144.
func Environment() []string {
	return append(os.Environ(), "GOMAXPROCS=1", "GOGC=30")
}

func (c *Child) notStarted(err error) error {
	return endError{reason: EndStart, err: fmt.Errorf("start %s: %w", c.Name, err)}
}

// startTelling lets the parent write to the child. The returned function ends
// that, and a write that the child does not read.
func startTelling(ctx context.Context, p parent, stdin io.WriteCloser) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.tell(ctx, stdin)
	}()
	return func() {
		cancel()
		_ = stdin.Close() // it may be closed already
		<-done
	}
}

// await waits for a killed child. The driver may hold it where no signal reaches
// it; a second child would hang too. So await waits until ctx ends, and a few
// seconds in any case.
func (c *Child) await(ctx context.Context, wait func() error) (exit error, ended bool) {
	const patience = 5 * time.Second
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return err, true
	case <-time.After(patience):
	}
	c.Log.Error("killed child does not end because the driver holds it: reset the GPU or reboot the node", "child", c.Name)
	select {
	case err := <-done:
		return err, true
	case <-ctx.Done():
		return nil, false
	}
}

// listen hears lines until the end of the pipe (a nil error), silence, too many
// refused lines, or the end of ctx. It reports whether a heartbeat came.
func (c *Child) listen(ctx context.Context, p parent, r io.Reader) (good bool, err error) {
	done := make(chan struct{})
	defer close(done)
	lines := linesOf(r, done)
	limit, refused := c.Start, 0
	var last error
	silence := time.NewTimer(limit)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return good, ctx.Err()
		case <-silence.C:
			if refused > 0 {
				return good, endError{reason: EndGarbage, err: fmt.Errorf("%s printed no usable line for %s, the last error: %w", c.Name, limit, last)}
			}
			return good, endError{reason: EndHang, err: fmt.Errorf("%s printed no usable line for %s; %s", c.Name, limit, c.Suspect)}
		case line, ok := <-lines:
			if !ok {
				return good, nil
			}
			heartbeat, err := p.hear(ctx, line)
			switch {
			case err != nil:
				last = err
				if refused++; refused == maxRefused {
					return good, endError{reason: EndGarbage, err: fmt.Errorf("%s printed %d unusable lines in a row, the last error: %w", c.Name, refused, last)}
				}
				if refused == 1 { // the next ones would flood the log
					c.Log.Warn("line refused", "child", c.Name, "err", err)
				}
			case heartbeat:
				good, refused, limit = true, 0, c.Silence
				silence.Reset(limit)
			}
		}
	}
}

// linesOf sends lines until the end of r, or until done is closed.
func linesOf(r io.Reader, done <-chan struct{}) <-chan []byte {
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
	return lines
}

// Ask runs a child that prints one answer and ends, and returns the last line
// that parse accepts.
func Ask[T any](ctx context.Context, c Child, parse func(line []byte) (T, error)) (T, error) {
	q := &question[T]{parse: parse}
	if good, err := c.run(ctx, q); !good {
		return q.answer, err
	}
	return q.answer, nil
}

// question is the parent of a child that is asked once.
type question[T any] struct {
	parse  func(line []byte) (T, error)
	answer T
}

func (q *question[T]) hear(_ context.Context, line []byte) (bool, error) {
	answer, err := q.parse(line)
	if err == nil {
		q.answer = answer
	}
	return err == nil, err
}

func (q *question[T]) tell(context.Context, io.Writer) {}
func (q *question[T]) silent(context.Context)          {}

// maxLine bounds one line, in bytes. A report of 16 GPUs with 7 MIG instances each is
// far shorter.
const maxLine = 1 << 20

// readLines calls f with each line without its end. Of a line longer than limit f gets
// the first bytes, which are no report.
func readLines(r io.Reader, limit int, f func([]byte)) {
	b := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, err := b.ReadSlice('\n')
		if len(line) <= limit {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			if len(line) > 0 {
				f(line[:min(len(line), limit)])
			}
			return
		}
		f(bytes.TrimRight(line[:min(len(line), limit)], "\r\n"))
		line = nil
	}
}
