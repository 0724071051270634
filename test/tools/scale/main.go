// Command scale runs the real publisher on a cluster of 10,000 nodes: a real
// kube-apiserver and etcd, a NodeReport of 8 GPUs for each Node, written with a token that
// is bound to the Node. It prints what each event costs: requests, bytes, the publisher's
// memory, and the time from the change to the stored file. Every file that the publisher
// stores on the way is parsed, linted and compared with what the nodes have reported.
//
// It ends with an error if a stored file is wrong or if the plan does not become what the
// nodes report. It fails at no figure: the caller compares them with its aims.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options say what is run.
type options struct {
	racks  int           // of rackNodes nodes each
	flap   time.Duration // how long nodes flap
	rest   time.Duration // how long nothing happens
	events bool
	faults bool
	slurm  bool
	dir    string // for all files
	stdout io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to be undone
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	o := options{stdout: stdout}
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.IntVar(&o.racks, "racks", 556, "racks of 18 nodes")
	flags.DurationVar(&o.flap, "flap", 10*time.Minute, "how long 5 % of the nodes flap")
	flags.DurationVar(&o.rest, "rest", time.Minute, "how long nothing happens")
	flags.BoolVar(&o.events, "events", true, "measure events")
	flags.BoolVar(&o.faults, "faults", true, "let faults happen")
	flags.BoolVar(&o.slurm, "slurm", true, "have a real slurmctld load some of the published files while jobs run")
	flags.StringVar(&o.dir, "dir", "", "the folder of logs and data, kept; empty: a temporary one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.dir != "" {
		if err := os.MkdirAll(o.dir, 0o755); err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
	} else {
		dir, err := os.MkdirTemp("", "quoin-scale-")
		if err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // it is in the temporary folder
		o.dir = dir
	}
	return bench(ctx, o)
}
