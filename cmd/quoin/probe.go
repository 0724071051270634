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
	"github.com/spf13/pflag"

	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/topology"
)

// machineOptions are the flags that say which machine is read.
type machineOptions struct {
	simulate, node, library, root string
	// cgroupRoot is empty for the place below root.
	cgroupRoot string
}

func (o *machineOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.simulate, "simulate", "", "read a simulated machine from this cluster `file` (or shipped cluster) instead of NVML")
	cmd.Flags().StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "`name` of this node; default: NODE_NAME, else the host's name")
	cmd.Flags().StringVar(&o.library, "nvml-library", "", "`path` of libnvidia-ml; default: where the loader finds it")
	cmd.Flags().StringVar(&o.root, "host-root", "/", "`folder` in which the machine's proc and sys are; another than / where a container hides them")
}

// args are the flags that hand the options to a child.
func (o *machineOptions) args() []string {
	args := []string{"--node", o.node}
	if o.simulate != "" {
		args = append(args, "--simulate", o.simulate)
	}
	if o.library != "" {
		args = append(args, "--nvml-library", o.library)
	}
	if o.root != "/" {
		args = append(args, "--host-root", o.root)
	}
	if o.cgroupRoot != "" {
		args = append(args, "--cgroup-root", o.cgroupRoot)
	}
	return args
}

func (o *machineOptions) complete() error {
	if o.simulate != "" && o.library != "" {
		return errors.New("--simulate and --nvml-library: want one of them")
	}
	if o.node != "" {
		return checkNodeName(o.node)
	}
	if o.simulate != "" {
		return errors.New("--simulate without --node: want the name of one of its machines")
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find this node's name: %w; give --node", err)
	}
	o.node = host
	return checkNodeName(host)
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
	var o machineOptions
	var once bool
	var interval time.Duration
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
			if err := o.complete(); err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			p := prober{out: cmd.OutOrStdout(), interval: interval, once: once, told: make(chan nodeagent.Sampling, 1)}
			if !once {
				go func() {
					p.listen(cmd.InOrStdin(), cmd.ErrOrStderr()) // ends with the parent
					cancel()
				}()
			}
			return p.run(ctx, &o)
		},
	}
	o.addFlags(cmd)
	o.addCgroupFlag(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "print one report and end")
	addIntervalFlag(cmd.Flags(), &interval)
	return cmd
}

// interval is the value of a flag: a duration of more than 0.
type interval time.Duration

func addIntervalFlag(f *pflag.FlagSet, v *time.Duration) {
	*v = 5 * time.Second
	f.Var((*interval)(v), "interval", "`time` between two readings of the machine, more than 0")
}

// String implements pflag.Value.
func (i *interval) String() string { return time.Duration(*i).String() }

// Type implements pflag.Value.
func (i *interval) Type() string { return "duration of more than 0" }

// Set implements pflag.Value.
func (i *interval) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || v <= 0 {
		return fmt.Errorf("want a %s, such as 5s", i.Type())
	}
	*i = interval(v)
	return nil
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
func (p *prober) run(ctx context.Context, o *machineOptions) error {
	m, err := openMachine(ctx, o, !p.once)
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
		report, err := readReport(m, o.node)
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
