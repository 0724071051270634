// Command quoin-hook is called by Slurm's Prolog and Epilog on every node of a
// job. See package nodeagent/hook.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/hook"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

func main() {
	runtime.GOMAXPROCS(1) // a thread that looks for work costs more than the work
	syscall.Umask(0o022)  // slurmd's may be narrower, and the exporter need not be root
	// Nobody may read what is printed. slurmd sends the other signals before it kills.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one call and returns the exit status. It is 0, also if something is wrong,
// because Slurm drains the node of a failing Prolog or Epilog. It is 1 if the gate refuses
// the job, and 2 if a command line is wrong and there is no job.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	o := hook.Options{Env: env, Stderr: stderr, SlurmdStart: hook.SlurmdStart}
	o.BootID, _ = rundir.BootID("/") // what is of an unknown boot counts as of this one
	help, err := parse(&o, args)
	if help != "" {
		fmt.Fprintln(stdout, help)
		return 0
	}
	noJob := env("SLURM_JOB_ID") == ""
	switch {
	case err == nil && noJob:
		fmt.Fprintln(stderr, "quoin-hook: SLURM_JOB_ID is not set: nothing was done, because there is no job")
		return 0
	case err == nil:
		return hook.Run(ctx, o)
	}
	fmt.Fprintln(stderr, "quoin-hook:", err)
	if noJob {
		return 2
	}
	return 0
}

// parse reads the command line. help is what was asked for instead of a call.
func parse(o *hook.Options, args []string) (help string, err error) {
	flags := flag.NewFlagSet("quoin-hook", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.MappingDir, "mapping-dir", "", "")
	flags.StringVar((*string)(&o.RunDir), "run-dir", rundir.DefaultRunDir, "")
	flags.DurationVar(&o.Wait, "wait", 0, "")
	showVersion := flags.Bool("version", false, "")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		o.Verb, args = args[0], args[1:]
	}
	err = flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return strings.TrimSpace(usage), nil
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("argument %q: want flags only after prolog or epilog", flags.Arg(0))
	case err == nil && *showVersion:
		return "quoin-hook " + version.Get().String(), nil
	case err == nil && o.Verb != "prolog" && o.Verb != "epilog":
		err = fmt.Errorf("command %q: want prolog or epilog", o.Verb)
	case err == nil && o.Wait < 0:
		err = fmt.Errorf("--wait %s: want a time such as 2s", o.Wait)
	}
	if err != nil {
		err = fmt.Errorf("%w; see quoin-hook --help", err)
	}
	return "", err
}

const usage = `usage: quoin-hook prolog|epilog [--mapping-dir DIR] [--run-dir DIR] [--wait TIME]

Called by Slurm's Prolog and Epilog: writes which job holds which GPU into DCGM
Exporter's job mapping directory, and releases it. Exits 0 for a job whatever
happens, and says on stderr what went wrong. Where hook.json has a gate, a Prolog
of a job across nodes waits at last until IMEX is ready on its node; it exits 1,
which Slurm takes for a refusal, where it is not and the gate's policy is fail.

  --mapping-dir DIR  the exporter's directory (default: what the agent wrote into
                     hook.json in the run directory, else ` + dcgm.DefaultMappingDir + `)
  --run-dir DIR      the agent's directory (default ` + rundir.DefaultRunDir + `)
  --wait TIME        the longest that a call may take, for others' locks and for slow
                     disks, but for the gate (default 2s)
  --version          print the version
`
