// Package await waits in tests for what must come.
package await

import (
	"testing"
	"time"
)

// Limit bounds what must come. Nearly all comes within a second, but a busy machine may
// pause every process for long.
const Limit = 5 * time.Minute

// The pause between two looks grows, because a look at a rig is several processes.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// Until waits until is reports true. After Limit it fails the test with what, and with
// what more says.
func Until(t testing.TB, what string, is func() bool, more ...func() string) {
	t.Helper()
	end := time.Now().Add(Limit)
	for pause := firstPause; !is(); pause = min(2*pause, lastPause) {
		if time.Now().After(end) {
			for _, say := range more {
				what += "\n" + say()
			}
			t.Fatalf("not within %s: %s", Limit, what)
		}
		time.Sleep(pause)
	}
}
