package probe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// Machine is what a probe reads.
type Machine interface {
	// Read reads the machine's facts.
	Read() (*topology.Node, error)
	// Want says which devices Sample is about from now on.
	Want(uuids []string)
	// Sample reads how the wanted devices are used.
	Sample() topology.Sample
	// Look reads the programs on all devices, and their Xids.
	Look() topology.Sample
}

// Every is the time between two readings of a machine. People see a GPU that fails within seconds, and a reading takes
// milliseconds.
const Every = 5 * time.Second

// SampleEvery is the time between two samples of the devices that jobs hold. A job of a minute has several, and a driver has
// little work with them.
const SampleEvery = 10 * time.Second

// LookEvery is the time between two looks at the devices that no job holds.
const LookEvery = time.Minute

// Options say how a probe serves.
type Options struct {
	// Node is the name in the reports.
	Node string
	// Interval is the time between two readings of the machine. Zero prints one
	// report and ends.
	Interval time.Duration
	// In is the standard input, Out gets the reports and samples, Errors what is
	// wrong with the input.
	In          io.Reader
	Out, Errors io.Writer
}

// Serve prints what it reads of a machine until ctx or the input ends.
//
// One goroutine makes all calls to the machine: a call that hangs in a sample also
// stops the reports, and then the parent kills the process.
func Serve(ctx context.Context, m Machine, o Options) error {
	s := &server{machine: m, Options: o, told: make(chan Sampling, 1)}
	if o.Interval == 0 {
		_, err := s.report(nil)
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		s.listen()
		cancel() // the parent has ended
	}()
	return s.run(ctx)
}

// server is one run of [Serve].
type server struct {
	Options
	machine Machine
	told    chan Sampling // the newest order that was not carried out yet
}

// listen takes orders until the input ends. If they come faster than the machine
// can be read, the newest counts.
func (s *server) listen() {
	readLines(s.In, maxLine, func(line []byte) {
		order, err := ParseSampling(string(line))
		if err != nil {
			fmt.Fprintf(s.Errors, "quoin probe: %v\n", err)
			return
		}
		select {
		case <-s.told:
		default:
		}
		s.told <- order // has room, because nobody else sends
	})
}

// run prints reports, and samples if it was told to, until ctx ends.
func (s *server) run(ctx context.Context) error {
	due, samples, looks := time.NewTicker(s.Interval), time.NewTicker(time.Hour), time.NewTicker(LookEvery)
	defer due.Stop()
	defer samples.Stop()
	defer looks.Stop()
	samples.Stop()
	var order Sampling // nothing is sampled at first
	last, err := s.report(nil)
	if err == nil {
		err = s.look()
	}
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-due.C:
			last, err = s.report(last)
		case next := <-s.told:
			err = s.change(order.Devices, next.Devices)
			switch next.Every {
			case order.Every: // other devices do not put off the next sample
			case 0:
				samples.Stop()
			default:
				samples.Reset(next.Every)
			}
			order = next
		case <-samples.C:
			err = s.printSample(s.machine.Sample())
		case <-looks.C:
			err = s.look()
		}
	}
	return err
}

// report reads the machine and prints the report, or an empty line if it is the
// last one.
func (s *server) report(last []byte) ([]byte, error) {
	n, err := s.machine.Read()
	if err != nil {
		return nil, err
	}
	n.Name = s.Node
	report, err := topology.EncodeReport(n)
	if err != nil {
		return nil, err
	}
	line := report
	if bytes.Equal(report, last) {
		line = nil
	}
	return report, s.print(line)
}

// change begins to sample other devices, and looks at all at once: for the last Xids of a job that
// has ended, and for the programs and Xids from before a job that begins.
func (s *server) change(old, devices []string) error {
	all := slices.Concat(old, devices)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == len(old) && len(all) == len(devices) {
		s.machine.Want(devices)
		return nil
	}
	err := s.look() // before the old devices are forgotten: they may be lost
	s.machine.Want(devices)
	return err
}

// look prints what is on the devices, if anything is known.
func (s *server) look() error {
	sample := s.machine.Look()
	if len(sample.Xids)+len(sample.Programs) == 0 {
		return nil
	}
	return s.printSample(sample)
}

func (s *server) printSample(sample topology.Sample) error {
	line, err := EncodeSample(sample)
	if err != nil {
		return err
	}
	return s.print(line)
}

func (s *server) print(line []byte) error {
	if _, err := s.Out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
