package nodeagent

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// TrimMemory gives back what only the start needed: free heap, and the pages
// of this program's file, most of which is never run again. The kernel maps a
// page of it again when it is wanted. It changes nothing but the resident
// size, so its errors are of no account.
func TrimMemory() {
	debug.FreeOSMemory()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	for _, m := range droppable(f, self) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// droppable lists the mappings of the file self, in the form of
// /proc/PID/smaps, whose pages are the same as the file's. A read-only mapping
// need not be one of them: the loader writes addresses into a part of it first
// and protects it then, and those would be lost.
func droppable(smaps io.Reader, self string) []mapping {
	var out []mapping
	var m mapping
	candidate := false
	for s := bufio.NewScanner(smaps); s.Scan(); {
		line := s.Text()
		if value, ok := strings.CutPrefix(line, "Anonymous:"); ok {
			if candidate && strings.TrimSpace(value) == "0 kB" {
				out = append(out, m)
			}
			continue
		}
		if line == "" || line[0] >= 'A' && line[0] <= 'Z' { // another figure of the mapping
			continue
		}
		var mode string
		candidate = false
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &m.from, &m.to, &mode); n == 3 && strings.HasSuffix(line, " "+self) {
			candidate = len(mode) == 4 && mode[1] == '-' && mode[3] == 'p'
		}
	}
	return out
}
