// Command compare measures the figures of the README's table "Why this one", all in one run, and
// prints one line for each. It needs Go, gcc and root; the fabric is simulated by the real ibsim
// and read by the real ibnetdiscover, which it fetches from Debian once.
//
// Beside Quoin it measures what bash scripts do in the same place. Of other neighbours it runs
// nothing: their figures in the table were measured elsewhere, and the table says so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// options say how much is measured. The figures of the README are of the defaults.
type options struct {
	racks, manyRacks int // of 18 nodes each
	kills            int
	dir              string
}

// figure is one line of the output.
type figure struct{ what, value string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to be undone
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.IntVar(&o.racks, "racks", 556, "racks of the site whose file is compared")
	flags.IntVar(&o.manyRacks, "many-racks", 2000, "racks of the site that is rendered by one command")
	flags.IntVar(&o.kills, "kills", 200, "how often a hook is killed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.dir, err = os.MkdirTemp("", "quoin-compare-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	for _, part := range []func(context.Context, options) ([]figure, error){lines, cables, kills, large} {
		figures, err := part(ctx, o)
		if err != nil {
			return err
		}
		for _, f := range figures {
			fmt.Fprintf(stdout, "%-86s %s\n", f.what, f.value)
		}
	}
	return nil
}
