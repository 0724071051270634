// Package await waits in tests for what must come.
package await

import (
	"context"
	"errors"
	"fmt"
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

// NoError waits outside a test until ask returns no error. After Limit, or when the context ends, it
// returns the last error of ask and the reason why the context has ended.
func NoError(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Limit, fmt.Errorf("not within %s", Limit))
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(context.Cause(ctx), err))
		case <-time.After(pause):
		}
	}
}
