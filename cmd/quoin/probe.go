package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nvml"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// machineOptions are the flags that say which machine is read.
type machineOptions struct {
	simulate, node, library, root string
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
the last. It ends when its standard input is closed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			if !once {
				go func() {
					_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // ends with the parent
					cancel()
				}()
			}
			return probe(ctx, cmd.OutOrStdout(), &o, interval, once)
		},
	}
	o.addFlags(cmd)
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

// trimEvery is after how many readings memory is given back: at once for what the
// start needed, and then for pages of the program that are seldom run, which the
// kernel maps by whole groups.
const trimEvery = 6

// probe prints reports until ctx ends.
func probe(ctx context.Context, w io.Writer, o *machineOptions, interval time.Duration, once bool) error {
	read, closeMachine, err := openMachine(ctx, o, !once)
	if err != nil {
		return err
	}
	defer closeMachine()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last []byte
	for readings := 0; ; readings++ {
		n, err := read()
		if err != nil {
			return err
		}
		n.Name = o.node
		report, err := topology.EncodeReport(n)
		if err != nil {
			return err
		}
		line := report
		if bytes.Equal(report, last) {
			line = nil
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		if once {
			return nil
		}
		if readings%trimEvery == 0 {
			nodeagent.TrimMemory()
		}
		last = report
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// bootIDFile names this boot of the machine.
const bootIDFile = "proc/sys/kernel/random/boot_id"

// openMachine returns how to read the machine, and how to let go of it. With
// watch, Xid events are reported until the end of ctx.
func openMachine(ctx context.Context, o *machineOptions, watch bool) (read func() (*topology.Node, error), done func(), err error) {
	if o.simulate != "" {
		s := &simulation{file: o.simulate, node: o.node}
		return s.read, func() {}, nil
	}
	lib, err := nvml.Open(nvml.Options{Path: o.library, Root: o.root})
	if err != nil {
		return nil, nil, err
	}
	if watch {
		go lib.WatchXids(ctx) // ends with the process
	}
	read = func() (*topology.Node, error) {
		n, err := lib.Read()
		if err != nil {
			return nil, err
		}
		if id, err := os.ReadFile(filepath.Join(o.root, bootIDFile)); err == nil {
			n.BootID = strings.TrimSpace(string(id))
		} else {
			n.Problems = append(n.Problems, topology.Problem{Reason: "FactUnreadable", Message: "boot id: " + err.Error()})
		}
		return n, nil
	}
	return read, func() { _ = lib.Close() }, nil // the process ends
}

// simulation reads a simulated machine, the file again when it has changed.
type simulation struct {
	file, node string
	modified   time.Time
	cluster    *simulated.Cluster
}

func (s *simulation) read() (*topology.Node, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	m, err := s.cluster.Machine(s.node)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.file, err)
	}
	if m.Report == nil {
		return nil, fmt.Errorf("%s: machine %s says nothing, as the file wants it", s.file, s.node)
	}
	n := *m.Report
	n.Domain = topology.NVLinkDomain{} // one reading confirms nothing
	return &n, nil
}

func (s *simulation) load() error {
	info, err := os.Stat(s.file)
	if err != nil {
		if s.cluster == nil && !strings.ContainsAny(s.file, "/.") {
			s.cluster, err = simulated.Open(s.file)
		} else if s.cluster != nil && s.modified.IsZero() {
			return nil
		}
		if err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		return nil
	}
	if s.cluster != nil && info.ModTime().Equal(s.modified) {
		return nil
	}
	data, err := os.ReadFile(s.file)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	c, err := simulated.Parse(s.file, data)
	if err != nil {
		return err
	}
	s.cluster, s.modified = c, info.ModTime()
	return nil
}
