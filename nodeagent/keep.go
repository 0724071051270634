package nodeagent

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
)

// keepStore brings the store up to the last good report.
func (a *Agent) keepStore(ctx context.Context) {
	a.keep(ctx, a.wake.store, a.syncStore, func(err error, after time.Duration) {
		a.metrics.storeErrors.Inc()
		a.log.Error("report not stored, trying again", "after", after, "err", err)
	})
}

// keepFiles brings the node's own files up to the last good report. It does not wait
// for the store, which may be unreachable.
func (a *Agent) keepFiles(ctx context.Context) {
	if a.files == nil {
		return
	}
	a.keep(ctx, a.wake.files, a.syncFiles, func(err error, after time.Duration) {
		a.metrics.fileErrors.Inc()
		a.log.Error("node files not written, the old ones stay, trying again", "after", after, "err", err)
	})
}

// keep calls sync after a change, after a failure with a growing pause, and rarely
// otherwise: somebody else may have changed what was written.
func (a *Agent) keep(ctx context.Context, changed <-chan struct{}, sync func(context.Context) error, failed func(err error, after time.Duration)) {
	failures := 0
	timer := time.NewTimer(a.verifyAfter())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer.C:
		}
		next := a.verifyAfter()
		if err := sync(ctx); err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			failures++
			next = pauseAfter(failures)
			failed(err, next)
		}
		timer.Reset(next)
	}
}

func (a *Agent) verifyAfter() time.Duration {
	half := a.config.Verify / 2
	return half + rand.N(a.config.Verify) //nolint:gosec // spreads load
}

// syncStore writes the report if the store holds another one.
func (a *Agent) syncStore(ctx context.Context) error {
	if !a.storable() {
		return nil
	}
	a.storeMu.Lock()
	defer a.storeMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stored, err := a.store.Get(ctx)
	if err != nil {
		return err
	}
	a.recall(stored)
	report, _ := a.report()
	if report == nil {
		return nil
	}
	if bytes.Equal(stored, report) {
		a.holds(report)
		a.log.Debug("report is already stored")
		return nil
	}
	if err := a.store.Put(ctx, report); err != nil {
		return err
	}
	a.metrics.writes.Inc()
	a.holds(report)
	a.log.Info("report stored", "bytes", len(report))
	return nil
}

// recallFirst reads the stored report before the first report is made. Without it
// the files would have NVML's indices in place of known ids.
func (a *Agent) recallFirst(ctx context.Context) {
	a.storeMu.Lock()
	defer a.storeMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if stored, err := a.store.Get(ctx); err == nil { // an error is logged when the report is written
		a.recall(stored)
	}
}

// syncFiles writes the node's own files.
func (a *Agent) syncFiles(context.Context) error {
	if n := a.seen(); n != nil {
		return a.files.Write(n)
	}
	return nil
}

// keepFresh marks the report stale when no probe has confirmed it for long.
func (a *Agent) keepFresh(ctx context.Context) {
	timer := time.NewTimer(a.config.Stale)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake.fresh:
			timer.Reset(a.config.Stale)
		case <-timer.C:
			a.markStale(a.config.Stale)
		}
	}
}

// pauseAfter is the time before the next try after so many failures in a row.
func pauseAfter(failures int) time.Duration { return again.Pause(failures, time.Second, time.Minute) }
