package process

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// KiB is a line of /proc/PID/status, such as VmRSS or RssAnon.
func KiB(t testing.TB, pid int, key string) (kib int) {
	t.Helper()
	kib, err := Status(pid, key)
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

// Status is KiB outside a test.
func Status(pid int, key string) (kib int, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), key+":")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, fmt.Errorf("%s of process %d: %w", key, pid, err)
	}
	return kib, nil
}

// Peak waits until a child has ended, and returns the most memory that was resident, in KiB. The
// caller reaps the child afterwards. What the kernel says of a child that was reaped would begin
// with the size of its parent.
func Peak(pid int) (kib int) {
	for {
		now, err := Status(pid, "VmHWM")
		if err != nil { // it has no memory any more
			return kib
		}
		kib = max(kib, now)
		time.Sleep(time.Millisecond)
	}
}
