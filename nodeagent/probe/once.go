package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	c := Child{Name: "probe", Command: command, Start: 2 * timeout, Silence: 2 * timeout, Log: slog.New(slog.DiscardHandler)} // ctx ends first
	var refused error
	q := question[*topology.Node]{parse: func(line []byte) (n *topology.Node, err error) {
		n, refused = topology.ParseReport("probe", line)
		return n, refused
	}}
	_, err := c.run(ctx, &q)
	var end endError
	var exit *exec.ExitError
	errors.As(err, &end)
	said := strings.TrimPrefix(end.said, "quoin: ")
	switch failed := errors.As(err, &exit); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("NVML has not answered within %s: a GPU may be faulty; see dmesg for Xid, or give --timeout", timeout)
	case failed && exit.ExitCode() == 127:
		return nil, fmt.Errorf("NVML ended the probe: the driver is older than a call that was made, or broken: %s", said)
	case failed && said != "":
		return nil, errors.New(said)
	case refused != nil:
		return nil, refused
	case failed || ctx.Err() != nil || q.answer == nil:
		return nil, err
	}
	return q.answer, nil
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
