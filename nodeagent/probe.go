package nodeagent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// maxLine bounds one report: 16 GPUs of 7 MIG instances are far below.
const maxLine = 1 << 20

// supervise runs the probe again and again, with a growing pause between, which
// starts anew after a good report.
func (a *Agent) supervise(ctx context.Context) {
	var delay backoff
	for ctx.Err() == nil {
		good, err := a.runProbe(ctx)
		if ctx.Err() != nil {
			return
		}
		if good {
			delay = backoff{}
		}
		pause := delay.next()
		reason := "exit"
		var end probeEnd
		if errors.As(err, &end) {
			reason = end.reason
		}
		a.metrics.restarts.WithLabelValues(reason).Inc()
		a.log.Warn("probe ended, the last good report stays", "reason", reason, "restartAfter", pause, "err", err)
		a.mu.Lock()
		a.problem = err
		a.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// probeEnd is why a probe ended, in one word and in words.
type probeEnd struct {
	reason string
	err    error
}

func (e probeEnd) Error() string { return e.err.Error() }
func (e probeEnd) Unwrap() error { return e.err }

// runProbe runs one child until it ends, falls silent, or ctx ends. It reports
// whether the child gave a good report.
func (a *Agent) runProbe(ctx context.Context) (good bool, err error) {
	// The kernel sends the death signal when the thread that started the child
	// ends, so that thread is kept.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(a.config.Probe[0], a.config.Probe[1:]...) //nolint:gosec,noctx // killed below, with its group
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe() // closed with us: the probe ends when its input does
	if err != nil {
		return false, probeEnd{"start", err}
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, probeEnd{"start", err}
	}
	var tail tailBuffer
	cmd.Stderr = &tail
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return false, probeEnd{"start", fmt.Errorf("start probe: %w", err)}
	}
	end := a.listen(ctx, stdout, &good)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	waited := cmd.Wait()
	if end == nil {
		end = probeEnd{"exit", fmt.Errorf("probe ended: %w: %s", exitOf(waited), bytes.TrimSpace(tail.b))}
	}
	return good, end
}

// exitOf gives an error that is never nil.
func exitOf(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// listen reads the probe's lines until the end of the pipe (nil), silence, or
// the end of ctx.
func (a *Agent) listen(ctx context.Context, r io.Reader, good *bool) error {
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
	silence := time.NewTimer(a.config.Silence)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			return probeEnd{"hang", fmt.Errorf("probe said nothing for %s; NVML may hang on a sick GPU", a.config.Silence)}
		case line, ok := <-lines:
			if !ok {
				return nil
			}
			silence.Reset(a.config.Silence)
			if len(line) == 0 {
				continue
			}
			if err := a.take(line); err != nil {
				a.metrics.garbage.Inc()
				a.log.Warn("probe's line refused", "err", err)
				continue
			}
			*good = true
		}
	}
}

// readLines calls f with each line without its end. A line longer than limit is
// given as its first bytes only, which no report is.
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

// tailBuffer keeps the last bytes of what is written to it.
type tailBuffer struct{ b []byte }

func (t *tailBuffer) Write(p []byte) (int, error) {
	const most = 2 << 10
	t.b = append(t.b, p...)
	if over := len(t.b) - most; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// ProbeCommand returns this program's own probe command with args.
func ProbeCommand(args ...string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	return append([]string{self, "probe"}, args...), nil
}
