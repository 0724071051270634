package nodeagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// Why a probe ended.
const (
	endExit  = "exit"  // by itself, or NVML ended it
	endHang  = "hang"  // it fell silent and was killed
	endStart = "start" // it could not be started
)

// supervise runs the probe again and again, with a growing pause between, which
// starts anew after a good report.
func (a *Agent) supervise(ctx context.Context) {
	var delay backoff
	for ctx.Err() == nil {
		good, err := a.runProbe(ctx)
		a.metrics.up.Set(0)
		if ctx.Err() != nil {
			return
		}
		if good {
			delay = backoff{}
		}
		pause := delay.next()
		reason := endExit
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
		return false, probeEnd{endStart, fmt.Errorf("start probe: %w", err)}
	}
	defer stdin.Close() //nolint:errcheck // nothing is written to it
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, probeEnd{endStart, fmt.Errorf("start probe: %w", err)}
	}
	var stderr endsBuffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		_ = stdout.Close()
		return false, probeEnd{endStart, fmt.Errorf("start probe: %w", err)}
	}
	good, end := a.listen(ctx, stdout)
	a.metrics.up.Set(0)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	waited, ended := a.await(ctx, cmd.Wait)
	switch {
	case !ended:
		return good, fmt.Errorf("probe %d is still there: %w", cmd.Process.Pid, ctx.Err())
	case end == nil:
		end = probeEnd{endExit, fmt.Errorf("probe ended: %w: %s", exitOf(waited), Said(stderr.bytes()))}
	}
	return good, end
}

// await waits for a child that was killed. A call into the driver may keep it
// for ever where no signal reaches it; then there must not be a second one, so
// it waits on, until ctx ends and a little more.
func (a *Agent) await(ctx context.Context, wait func() error) (result error, ended bool) {
	const patience = 5 * time.Second
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return err, true
	case <-time.After(patience):
	}
	a.log.Error("killed probe does not end: the driver holds it; reset the GPU or reboot the node")
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

// listen reads the probe's lines until the end of the pipe (nil), silence, or
// the end of ctx. It reports whether one was a good report.
func (a *Agent) listen(ctx context.Context, r io.Reader) (good bool, err error) {
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
	limit := a.config.Start
	silence := time.NewTimer(limit)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return good, ctx.Err()
		case <-silence.C:
			return good, probeEnd{endHang, fmt.Errorf("probe said nothing for %s; NVML may hang on a sick GPU", limit)}
		case line, ok := <-lines:
			if !ok {
				return good, nil
			}
			limit = a.config.Silence
			silence.Reset(limit)
			a.metrics.heard.SetToCurrentTime()
			if len(line) == 0 { // all is as it was
				continue
			}
			if err := a.take(line); err != nil {
				a.metrics.garbage.Inc()
				a.log.Warn("probe's line refused", "err", err)
				continue
			}
			good = true
			a.metrics.up.Set(1)
		}
	}
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

// cCall finds the C function in a goroutine's stack.
var cCall = regexp.MustCompile(`\._Cfunc_(\w+)\(`)

// Said is what a probe that has ended wrote on its standard error. Of Go's
// account of a signal in a call of NVML it is the signal and the call.
func Said(stderr []byte) string {
	head, stack, _ := bytes.Cut(stderr, []byte("signal arrived during cgo execution"))
	call := cCall.FindSubmatch(stack)
	at := bytes.LastIndex(head, []byte("SIG"))
	if call == nil || at < 0 {
		return string(bytes.TrimSpace(stderr))
	}
	signal, _, _ := bytes.Cut(head[at:], []byte("\n"))
	return fmt.Sprintf("NVML crashed in %s: %s", call[1], signal)
}

// ProbeCommand returns this program's own probe command with args.
func ProbeCommand(args ...string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	return append([]string{self, "probe"}, args...), nil
}
