// Command quoin-demo is quoin demo as a program of its own. It links no Kubernetes client, so that
// a newcomer sees it soon: make demo compiles it. It takes no configuration file.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/quoin-hpc/quoin/cmd/quoin/demo"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns the exit status: 0 fine, 2 trouble.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var p publication.Publication
	cmd := demo.NewCommand("quoin-demo", func() (*publication.Cluster, error) { //nolint:contextcheck // cobra hands ctx on
		all, err := publication.Compile([]publication.Publication{p}, nil)
		if err != nil {
			return nil, err
		}
		return all[0], nil
	})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	show.ExplainUsage(cmd)
	cmd.Flags().StringVar(&p.Format, "format", "", "`form` of the topology file: conf or yaml; default: yaml if the release takes it")
	cmd.Flags().StringVar(&p.SlurmVersion, "slurm-version", "", "Slurm `release` that loads the files: "+slurmconf.KnownReleases()+"; default "+slurmconf.Latest.String())
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "quoin-demo: %v\n", err)
		return 2
	}
	return 0
}
