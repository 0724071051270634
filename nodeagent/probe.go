package nodeagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// supervise runs the probe again and again, with a growing pause between, which
// starts anew after a good report.
func (a *Agent) supervise(ctx context.Context) {
	delay := backoff{first: a.config.Pause}
	for ctx.Err() == nil {
		good, err := a.runProbe(ctx)
		if ctx.Err() != nil {
			return
		}
		if good {
			delay.tries = 0
		}
		pause := delay.next()
		reason := endExit
		var end childEnd
		if errors.As(err, &end) {
			reason = end.reason
		}
		a.metrics.restarts.WithLabelValues(reason).Inc()
		a.log.Warn("probe ended, the last good report stays", "reason", reason, "restartAfter", pause, "err", err)
		a.mu.Lock()
		a.problem, a.lastEnd = err, reason
		a.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// runProbe runs one probe until it ends, falls silent, or ctx ends. It reports
// whether the probe gave a good report.
func (a *Agent) runProbe(ctx context.Context) (good bool, err error) {
	c := child{
		what: "probe", blame: "NVML may hang on a sick GPU", command: a.config.Probe,
		start: a.config.Start, silence: a.config.Silence, log: a.log,
		heard: a.hear, deaf: func() { a.metrics.up.Set(0); a.miss() },
	}
	if a.config.Sampled != nil {
		c.tell = a.tell
	}
	return c.run(ctx)
}

// hear takes a line of the probe, which is a reading of the machine; an empty one
// says that all is as it was. A sample of its devices is no reading.
func (a *Agent) hear(line []byte) error {
	var err error
	switch {
	case topology.IsSample(line):
		if err = a.takeSample(line); errors.Is(err, errAside) {
			return err
		}
	case len(line) == 0:
		err = a.again()
	default:
		err = a.take(line)
	}
	a.metrics.heard.SetToCurrentTime()
	if err != nil {
		a.metrics.garbage.Inc()
		a.miss()
		return err
	}
	a.confirm()
	return nil
}

// take checks a line of the probe and keeps it as the last good report.
func (a *Agent) take(line []byte) error {
	n, err := topology.ParseReport("probe", line)
	if err != nil {
		return err
	}
	if n.Name != a.config.Node {
		return fmt.Errorf("probe: report of node %q, want %q", n.Name, a.config.Node)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problem, a.lost = nil, false
	before := a.facts.probe
	a.facts.takeProbe(n)
	if before == nil || !sameGPUs(before, n) {
		notify(a.gpusChanged)
	}
	a.compose()
	return nil
}

// again takes an empty line of the probe: it has read the machine, and all is as
// its last line says. Where that was of no use nobody knows what it said.
func (a *Agent) again() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lost {
		return errors.New("probe: empty line after one that was refused: what it repeats is not known")
	}
	a.log.Debug("facts unchanged")
	if a.facts.domain.again() {
		a.compose()
	}
	return nil
}

// miss notes that a reading of the probe could not be heard.
func (a *Agent) miss() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost = true
	a.facts.domain.breakRun()
}

func sameGPUs(a, b *topology.Node) bool {
	return slices.EqualFunc(a.GPUs, b.GPUs, func(x, y topology.GPU) bool { return x.UUID == y.UUID })
}

// cCall finds the C function in a goroutine's stack.
var cCall = regexp.MustCompile(`\._Cfunc_(\w+)\(`)

// Said is what a probe that has ended wrote on its standard error. Of Go's
// account of a signal in a call of NVML it is the signal and the call.
func Said(stderr []byte) string {
	head, stack, _ := bytes.Cut(stderr, []byte("signal arrived during cgo execution"))
	call := cCall.FindSubmatch(stack)
	at := bytes.LastIndex(head, []byte("SIG"))
	if call == nil || at < 0 {
		return string(bytes.TrimSpace(stderr))
	}
	signal, _, _ := bytes.Cut(head[at:], []byte("\n"))
	return fmt.Sprintf("NVML crashed in %s: %s", call[1], signal)
}

// ProbeCommand returns this program's own probe command with args.
func ProbeCommand(args ...string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	return append([]string{self, "probe"}, args...), nil
}
