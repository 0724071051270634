package probe

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
)

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
