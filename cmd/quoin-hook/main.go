// Command quoin-hook is called by Slurm's Prolog and Epilog on every node of a
// job. It writes which job holds which GPU for DCGM Exporter, and releases it.
// It needs no daemon, no network and no PATH, and it never fails a job.
package main

import (
	"context"
	"os"
	"syscall"
)

func main() {
	syscall.Umask(0o022) // slurmd's may be narrower, and the exporter need not be root
	os.Exit(run(context.Background(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
