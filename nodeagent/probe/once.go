package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// Once runs a probe that prints one report and ends.
func Once(ctx context.Context, command []string, timeout time.Duration) (*topology.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // this program itself
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()
	select {
	case err := <-ended:
		if ctx.Err() == nil {
			return reportOf(&stdout, &stderr, err)
		}
	case <-ctx.Done(): // the driver may hold the child for ever
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("NVML has not answered within %s: a GPU may be faulty; see dmesg for Xid, or give --timeout", timeout)
}

// reportOf reads what an ended probe printed.
func reportOf(stdout, stderr *bytes.Buffer, err error) (*topology.Node, error) {
	var exit *exec.ExitError
	said := strings.TrimPrefix(complaint(stderr.Bytes()), "quoin: ")
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 127:
		return nil, fmt.Errorf("NVML ended the probe: the driver is older than a call that was made, or broken: %s", said)
	case err != nil && said != "":
		return nil, errors.New(said)
	case err != nil:
		return nil, fmt.Errorf("probe: %w", err)
	}
	return topology.ParseReport("probe", bytes.TrimSpace(stdout.Bytes()))
}

// endsBuffer keeps the first and the last bytes of what is written to it. Go's
// account of a fatal signal is long, and what matters comes first.
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

// complaint is what an ended probe wrote to its standard error. Go's account of a
// signal in a call of NVML is cut to the signal and the call.
func complaint(stderr []byte) string {
	head, stack, _ := bytes.Cut(stderr, []byte("signal arrived during cgo execution"))
	call := cCall.FindSubmatch(stack)
	at := bytes.LastIndex(head, []byte("SIG"))
	if call == nil || at < 0 {
		return string(bytes.TrimSpace(stderr))
	}
	signal, _, _ := bytes.Cut(head[at:], []byte("\n"))
	return fmt.Sprintf("NVML crashed in %s: %s", call[1], signal)
}
