package probe

import (
	"bytes"
	"strings"
	"testing"
)

// TestComplaint shortens Go's account of a crash in NVML and nothing else.
func TestComplaint(t *testing.T) {
	const crash = "SIGBUS: bus error\nPC=0x1 m=3 sigcode=1 addr=0x0\nsignal arrived during cgo execution\n\n" +
		"goroutine 1 gp=0x1 m=3 mp=0x2 [syscall]:\nruntime.cgocall(0x1, 0x2)\n\tcgocall.go:167\npkg/nvml._Cfunc_nvmlDeviceGetUUID({0x1}, 0x2, 0x60)\n"
	tests := []struct{ name, stderr, want string }{
		{"nothing", "", ""},
		{"a message", "quoin: initialise NVML: UNKNOWN\n", "quoin: initialise NVML: UNKNOWN"},
		{"a crash", crash, "NVML crashed in nvmlDeviceGetUUID: SIGBUS: bus error"},
		{"after other words", "SIGNAL of the driver\n" + crash, "NVML crashed in nvmlDeviceGetUUID: SIGBUS: bus error"},
		{"in a thread of its own", "SIGSEGV: segmentation violation\nsignal arrived on non-Go thread\n", "SIGSEGV: segmentation violation\nsignal arrived on non-Go thread"},
		{"in Go", "panic: x\n\ngoroutine 1 [running]:\n", "panic: x\n\ngoroutine 1 [running]:"},
	}
	for _, tt := range tests {
		if got := complaint([]byte(tt.stderr)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// FuzzComplaint holds that what a probe said on standard error is shortened and never made
// up.
func FuzzComplaint(f *testing.F) {
	f.Add([]byte("SIGBUS: bus error\nsignal arrived during cgo execution\npkg/nvml._Cfunc_nvmlDeviceGetUUID(0x1)\n"))
	f.Add([]byte("quoin: initialise NVML: UNKNOWN\n"))
	f.Fuzz(func(t *testing.T, stderr []byte) {
		said := complaint(stderr)
		call, signal, crash := strings.Cut(strings.TrimPrefix(said, "NVML crashed in "), ": ")
		if said != string(bytes.TrimSpace(stderr)) && (!crash || !bytes.Contains(stderr, []byte("_Cfunc_"+call+"(")) || !bytes.Contains(stderr, []byte(signal))) {
			t.Errorf("%q became %q", stderr, said)
		}
	})
}
