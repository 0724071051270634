package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/service"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/nodeagent/probe"
)

// fleet is agents in the process of the test.
type fleet struct {
	t       *testing.T
	running sync.WaitGroup
	mu      sync.Mutex
	ended   map[string]error // by node, before the test has ended
}

// newFleet returns a fleet whose agents end with the test, before what the test had by then.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, ended: map[string]error{}}
	t.Cleanup(f.running.Wait) // t.Context has ended
	return f
}

// fleetTimes are the waits of a fleet's agents.
const fleetTimes = "read: 2s"

// start runs an agent as quoin agent does, but for its probe, which is no process.
func (f *fleet) start(node, log string, settings []string) {
	f.t.Helper()
	var given []config.Setting
	for _, text := range settings {
		setting, err := config.ParseSetting(text)
		if err != nil {
			f.t.Fatal(err)
		}
		given = append(given, setting)
	}
	defaults := config.Default()
	err := defaults.Times.Set(fleetTimes)
	if err != nil {
		f.t.Fatal(err)
	}
	conf, err := config.Load(defaults, "", given)
	if err != nil {
		f.t.Fatal(err)
	}
	file, err := os.Create(log)
	if err != nil {
		f.t.Fatal(err)
	}
	read := func(probe.Supervisor) nodeagent.Probe { return &innerProbe{conf, node} }
	ctx := f.t.Context()
	f.running.Go(func() {
		defer file.Close() //nolint:errcheck // a log
		err := runAgent(ctx, conf, node, read, service.Logger(file, conf.Agent.Log))
		if ctx.Err() == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.ended[node] = err
		}
	})
}

// lives holds that all agents run.
func (f *fleet) lives() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for node, err := range f.ended {
		f.t.Errorf("agent %s has not survived: %v", node, err)
	}
}

// innerProbe reads a simulated machine as quoin probe does, in the process of its agent.
type innerProbe struct {
	conf *config.Config
	node string
}

// Run sends what the lines of the probe say. It ends if the machine cannot be read.
func (p *innerProbe) Run(ctx context.Context, events chan<- probe.Event) {
	err := p.run(ctx, func(e probe.Event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	})
	if ctx.Err() == nil {
		events <- probe.Event{Kind: probe.Ended, Reason: probe.EndExit, Err: err}
	}
}

func (p *innerProbe) run(ctx context.Context, send func(probe.Event)) error {
	m, done, err := openMachine(ctx, &p.conf.Agent.Machine, p.node, true)
	if err != nil {
		return err
	}
	defer done()
	orders, noOrders := io.Pipe()
	defer noOrders.Close() //nolint:errcheck // it has no error
	lines, out := io.Pipe()
	defer context.AfterFunc(ctx, func() { _ = lines.Close() })()
	go func() {
		err := probe.Serve(ctx, m, probe.Options{Node: p.node, Interval: p.conf.Times.Read, In: orders, Out: out, Errors: io.Discard})
		_ = out.CloseWithError(err)
	}()
	decoder := probe.Decoder{Node: p.node}
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		e, err := decoder.Decode(scanner.Bytes())
		if err != nil {
			e = probe.Event{Kind: probe.Refused, Err: err}
		}
		send(e)
	}
	return scanner.Err()
}
