package nodeagent

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// TestWorked has the registry say that it has looked, so that memory is given
// back then and not some seconds later.
func TestWorked(t *testing.T) {
	j := NewJobs(JobsConfig{RunDir: t.TempDir(), SweepEvery: time.Hour}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx) }()
	select {
	case <-j.Worked():
	case <-time.After(30 * time.Second):
		t.Error("not a word after the first look")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
