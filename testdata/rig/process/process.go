// Package process reads what the kernel says of a process.
package process

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// KiB is a line of /proc/PID/status, such as VmRSS or RssAnon.
func KiB(t testing.TB, pid int, key string) (kib int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), key+":")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return kib
}
