// Command quoin-hook is called by Slurm's Prolog and Epilog on every node of a
// job. It writes which job holds which GPU for DCGM Exporter, and releases it.
// It needs no daemon, no network and no PATH, and it fails no job but where the
// site has turned on a gate that does.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	runtime.GOMAXPROCS(1) // a thread that looks for work costs more than the work
	syscall.Umask(0o022)  // slurmd's may be narrower, and the exporter need not be root
	// Nobody may read what is said; slurmd sends the others before it kills.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
