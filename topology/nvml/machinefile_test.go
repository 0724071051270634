//go:build cgo

package nvml

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
)

// FuzzMachineFile reads any file as the library of the tests does: it is taken, or
// refused with its line, and nothing else; and any files of /proc and /sys are made
// of it.
func FuzzMachineFile(f *testing.F) {
	for _, text := range []string{strings.Join(withMIG, "\n"), "fabric completed 0 00000000-0000-0000-0000-000000000001 0 1 0x11aa\nplatform 0x0001fe 21 11 1",
		"cuda 2147483647.2147483647", "socket 0-7,16-23 2\nsocket 8 0\ncpus 0-8191\nnuma 1,20-27", "call nvmlInit_v2 error -5\nbecome 3 /dev/null", "migdevice 9 a 1", "xid 79\nlost",
		"gpu 15\nminor 99999999999\nlinks 17 gpu 0", "links 4294967295-0 gpu", "minor -7\nmigdevice 7 MIG 4294967295 4294967295 x MIG y"} {
		f.Add(text)
	}
	reader := fake.Reader(f)
	f.Fuzz(func(t *testing.T, text string) {
		m := fake.New(t, "t4", text)
		cmd := exec.CommandContext(t.Context(), reader)
		cmd.Env = append(os.Environ(), m.Environment(), "ASAN_OPTIONS=detect_leaks=0:exitcode=99", "UBSAN_OPTIONS=exitcode=99")
		out, _ := cmd.CombinedOutput()
		switch code := cmd.ProcessState.ExitCode(); {
		case code == 0 && len(out) == 0:
			m.Root()
		case code != 3 || !strings.HasPrefix(string(out), m.File+":"):
			t.Errorf("%s\n%s", cmd.ProcessState, out)
		}
	})
}
