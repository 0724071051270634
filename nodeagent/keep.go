package nodeagent

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/topology"
)

// sink is something that is brought up to each new report. It has a goroutine of its own: files do not wait for
// the store, which may be unreachable.
type sink struct {
	reports <-chan *topology.Node // the newest one
	// write gets nil before the first report.
	write func(ctx context.Context, n *topology.Node) error
	says  string // what the log says of a failure
}

// verifyEvery is the mean time after which a sink is written again without a new report.
const verifyEvery = 10 * time.Minute

// keep writes at once, after each new report, after a failure with a growing pause, and rarely
// otherwise: somebody else may have changed what was written.
func (a *Agent) keep(ctx context.Context, s sink) {
	var n *topology.Node
	failures := 0
	for {
		next := verifyEvery/2 + rand.N(verifyEvery) //nolint:gosec // spreads load
		if err := s.write(ctx, n); err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			failures++
			next = pauseAfter(failures)
			a.log.Error(s.says, "after", next, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case n = <-s.reports:
		case <-time.After(next):
		}
	}
}

// pauseAfter is the time before the next try after so many failures in a row.
func pauseAfter(failures int) time.Duration { return again.Pause(failures, time.Second, time.Minute) }

// writeStore writes the report if the store holds another one, and tells the loop what the store holds.
func (a *Agent) writeStore(ctx context.Context, n *topology.Node) error {
	held, err := a.syncStore(ctx, n)
	if err == nil {
		send(ctx, a.stored, held)
	}
	return err
}

// syncStore writes the report if there is one and the store holds another one. It returns what the store holds then.
func (a *Agent) syncStore(ctx context.Context, n *topology.Node) (held []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	held, err = a.store.Get(ctx)
	if err != nil || n == nil {
		return held, err
	}
	report, err := topology.EncodeReport(n)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(held, report) {
		a.log.Debug("report is already stored")
		return held, nil
	}
	if err := a.store.Put(ctx, report); err != nil {
		return nil, err
	}
	a.log.Info("report stored", "bytes", len(report))
	return report, nil
}

// writeFiles writes the node's own files.
func (a *Agent) writeFiles(_ context.Context, n *topology.Node) error {
	if a.files == nil || n == nil {
		return nil
	}
	return a.files.Write(n)
}
