package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

const usage = `usage: quoin-hook prolog|epilog [--mapping-dir DIR] [--run-dir DIR] [--wait TIME]

Called by Slurm's Prolog and Epilog: writes which job holds which GPU into DCGM
Exporter's job mapping directory, and releases it. Exits 0 for a job whatever
happens, and says on stderr what went wrong. Where hook.json has a gate, a Prolog
of a job across nodes waits at last until IMEX is ready on its node; it exits 1,
which Slurm takes for a refusal, where it is not and the gate's policy is fail.

  --mapping-dir DIR  the exporter's directory (default: what the agent wrote into
                     hook.json in the run directory, else ` + dcgm.DefaultMappingDir + `)
  --run-dir DIR      the agent's directory (default ` + rundir.DefaultRunDir + `)
  --wait TIME        the longest that a call may take, for others' locks, for slow
                     disks and for slurmctld, but for the gate (default:
                     hook.json's, else 2s)
  --version          print the version
`

// run executes one call and returns the exit status: for a job always 0, but 1
// where the gate refuses it, by hand 2 for a wrong command line.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	h := &hook{env: env, stderr: stderr, start: time.Now()}
	wrong := 2
	if env("SLURM_JOB_ID") != "" {
		wrong = 0 // Slurm drains the node of a failing Prolog or Epilog
	}
	flags := flag.NewFlagSet("quoin-hook", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&h.mapping, "mapping-dir", "", "")
	flags.StringVar(&h.runDir, "run-dir", rundir.DefaultRunDir, "")
	flags.DurationVar(&h.wait, "wait", 0, "")
	version := flags.Bool("version", false, "")
	var verb string
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("argument %q: want flags only after prolog or epilog", flags.Arg(0))
	case err == nil && *version:
		fmt.Fprintln(stdout, "quoin-hook", buildVersion())
		return 0
	case err == nil && verb != "prolog" && verb != "epilog":
		err = fmt.Errorf("command %q: want prolog or epilog", verb)
	case err == nil && h.wait < 0:
		err = fmt.Errorf("--wait %s: want a time such as 2s", h.wait)
	}
	if err != nil {
		h.say("%v; see quoin-hook --help", err)
		return wrong
	}
	if env("SLURM_JOB_ID") == "" {
		h.say("SLURM_JOB_ID is not set: want to be called by Slurm's Prolog or Epilog")
		return wrong
	}
	h.call = rundir.Call{Hook: verb, Start: h.start.UnixNano()}
	if id := env("SLURM_JOB_ID"); dcgm.CheckJobID(id) == nil {
		h.call.Job = id
	}
	h.bounded(ctx)
	code := h.passGate(ctx)
	within(h.logTime(), h.log)
	return code
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
