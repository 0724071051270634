package nodeagent

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// TrimMemory gives back what only the start needed: free heap, and the pages
// of this program's read-only text, most of which is never run again. The
// kernel maps a page of it again when it is wanted. It changes nothing but the
// resident size, so its errors are of no account.
func TrimMemory() {
	debug.FreeOSMemory()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var from, to uintptr
		var mode string
		fields := strings.Fields(s.Text())
		if len(fields) < 6 || fields[5] != self {
			continue
		}
		if _, err := fmt.Sscanf(s.Text(), "%x-%x %s", &from, &to, &mode); err != nil || strings.Contains(mode, "w") {
			continue
		}
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
	}
}
