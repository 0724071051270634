package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// machineFlags adds the flags that say which machine is read.
func (s *settings) machineFlags(cmd *cobra.Command, node *string) {
	s.keyFlag(cmd, "simulate", "agent.simulate", "read a simulated machine of this `site` (a file, or a site of quoin demo --list) instead of NVML", simulated.Shipped()...)
	cmd.Flags().StringVar(node, "node", os.Getenv("NODE_NAME"), "`name` of this node; default: $NODE_NAME, else the host's name")
}

// libraryFlag adds the flag that says which NVML is loaded.
func (s *settings) libraryFlag(cmd *cobra.Command) {
	s.keyFlag(cmd, "nvml-library", "agent.nvmlLibrary", "`path` of libnvidia-ml; default: the loader finds it")
}

// probeArgs are the flags that hand the configuration to a child.
func probeArgs(m *config.Machine, node string) []string {
	args := []string{"--node", node}
	for _, kv := range [][2]string{{"simulate", m.Simulate}, {"nvmlLibrary", m.NVMLLibrary}, {"hostRoot", m.HostRoot}, {"cgroupRoot", m.CgroupRoot}, {"interval", m.Interval.String()}} {
		if kv[1] != "" {
			args = append(args, config.SetFlag, "agent."+kv[0]+"="+kv[1])
		}
	}
	return args
}

// nodeName returns the name by which this node is known: the given one, else the
// host's.
func nodeName(given string, m *config.Machine) (string, error) {
	if given != "" {
		return given, checkNodeName(given)
	}
	if m.Simulate != "" {
		return "", errors.New("--simulate without --node: want the name of one of its machines")
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find this node's name: %w; give --node", err)
	}
	return host, checkNodeName(host)
}

// checkNodeName refuses what cannot be part of a file's or an object's name.
func checkNodeName(name string) error {
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r)
	}
	if name == "" || len(name) > 253 || name[0] == '.' || strings.ContainsFunc(name, func(r rune) bool { return !ok(r) }) {
		return fmt.Errorf("--node %q: want at most 253 letters, digits, '-', '_' and '.', the first no '.'", name)
	}
	return nil
}

func newProbeCommand() *cobra.Command {
	var s settings
	var node string
	var once bool
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Stream reports of this machine as JSON lines; quoin agent runs it as its child",
		Long: `probe reads the machine by NVML and prints one report a line: one at the start
and one whenever a fact changed. An empty line says that nothing changed since
the last. It ends when its standard input is closed.

On its standard input it can be told to print how devices are used, too: a line
"sample 10s UUID,UUID,..." begins with that, in place of what it was told
before, and "sample off" ends it. A sample is a line of its own and no report.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := s.load()
			if err != nil {
				return err
			}
			c := &conf.Agent.Machine
			name, err := nodeName(node, c)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			p := prober{out: cmd.OutOrStdout(), interval: c.Interval, once: once, told: make(chan nodeagent.Sampling, 1)}
			if !once {
				go func() {
					p.listen(cmd.InOrStdin(), cmd.ErrOrStderr()) // ends with the parent
					cancel()
				}()
			}
			return p.run(ctx, c, name)
		},
	}
	s.addFlags(cmd)
	s.machineFlags(cmd, &node)
	s.libraryFlag(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "print one report and end")
	return cmd
}

// prober prints what it reads of a machine. All that is read is read in one
// goroutine: a call that hangs in a sample keeps the readings from being said, and
// the parent ends the process as for one that hangs in a reading.
type prober struct {
	out      io.Writer
	interval time.Duration
	once     bool
	// told has the last that was said on the standard input.
	told chan nodeagent.Sampling
}

// listen hears what to sample until the input ends. Of what comes faster than the
// machine can be read the last counts.
func (p *prober) listen(in io.Reader, stderr io.Writer) {
	nodeagent.ReadSamplings(in, func(s nodeagent.Sampling) {
		select {
		case <-p.told:
		default:
		}
		p.told <- s // there is room: nobody else sends
	}, func(err error) {
		fmt.Fprintf(stderr, "quoin probe: %v\n", err)
	})
}

// run prints reports, and samples where it is told to, until ctx ends.
func (p *prober) run(ctx context.Context, c *config.Machine, node string) error {
	m, err := openMachine(ctx, c, node, !p.once)
	if err != nil {
		return err
	}
	defer m.close()
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	var samples ticker
	defer samples.stop()
	var last []byte
	for {
		report, err := readReport(m, node)
		if err != nil {
			return err
		}
		line := report
		if bytes.Equal(report, last) {
			line = nil
		}
		if err := p.print(line); err != nil || p.once {
			return err
		}
		last = report
		if ended, err := p.sample(ctx, m, &samples, tick.C); ended || err != nil {
			return err
		}
	}
}

// sample prints samples until the next reading is due, or ctx has ended.
func (p *prober) sample(ctx context.Context, m machine, samples *ticker, reading <-chan time.Time) (ended bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return true, nil
		case <-reading:
			return false, nil
		case s := <-p.told:
			m.want(s.Devices)
			samples.every(s.Every)
		case <-samples.c:
			line, err := topology.EncodeSample(m.sample())
			if err != nil {
				return true, err
			}
			if err := p.print(line); err != nil {
				return true, err
			}
		}
	}
}

func (p *prober) print(line []byte) error {
	if _, err := p.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// ticker ticks in an interval that can be changed, and goes on ticking when it is
// set to what it is.
type ticker struct {
	*time.Ticker
	c        <-chan time.Time
	interval time.Duration
}

// every sets the interval; 0 stops it.
func (t *ticker) every(interval time.Duration) {
	if t.interval == interval {
		return
	}
	t.stop()
	t.interval = interval
	if interval > 0 {
		t.Ticker = time.NewTicker(interval)
		t.c = t.C
	}
}

func (t *ticker) stop() {
	if t.Ticker != nil {
		t.Stop()
	}
	*t = ticker{}
}
