package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/report"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
)

// jobOptions are the flags of quoin job.
type jobOptions struct {
	// Source says where jobs are looked for. Slurm is asked about a job that runs if it may know of jobs elsewhere.
	report.Source
	output string
	all    bool

	slurm  *client.Client // nil if nobody can be asked
	now    func() time.Time
	zone   *time.Location
	stderr io.Writer
}

// The ways in which quoin job prints, beside outputJSON.
const (
	jobTable = "table"
	jobWide  = "wide"
)

func newJobCommand() *cobra.Command {
	o := jobOptions{now: time.Now, zone: time.Local} //nolint:gosmopolitan // for whoever reads it here
	var flags session.Flags
	cmd := &cobra.Command{
		Use:   "job [JOB]",
		Short: "Show how a job uses its GPUs, or has used them",
		Long: `job shows how a job uses its GPUs, or has used them: utilisation, SM activity, memory,
power, energy, and GPUs that were never used. It reads the records and samples of this
node (key agent.runDir), and the summaries of jobs that have ended. A job across nodes
is shown as a whole if all nodes write their summaries into one directory (key
agent.hookSummaryDir). Without JOB it lists the jobs that run here.

JOB is a job id. If a job was requeued, its last run is shown. No node knows a job's name
and array: with --store or --kubeconfig the command asks Slurm about a job that runs, if
the configuration says how (keys publications.*.slurm). Then JOB may be an array's id, or
an array's id and a task, such as 4711_3. -o wide adds what does not fit into 80 columns.

Exit status: 1 if the job is not known here.`,
		Example: `  quoin job
  quoin job 4711
  quoin job 4711 --summary-dir /shared/quoin/summaries`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := flags.OpenNamed(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			o.RunDir, o.RunDirGiven = rundir.Dir(s.Config.Agent.RunDir), s.Config.Agent.RunDir != rundir.DefaultRunDir
			o.Skip, o.stderr = o.skip, cmd.ErrOrStderr()
			if err := o.check(args); err != nil {
				return err
			}
			if len(args) == 0 {
				return listJobs(cmd.OutOrStdout(), &o)
			}
			if s.Store != nil {
				pub, err := s.Publication()
				if err != nil {
					return err
				}
				o.Elsewhere, o.slurm = true, slurmOnce(pub)
			}
			return showJob(cmd.Context(), cmd.OutOrStdout(), &o, args[0])
		},
	}
	f := cmd.Flags()
	flags.Add(cmd)
	flags.AddSources(cmd)
	f.StringSliceVar(&o.SummaryDirs, "summary-dir", nil, "`directory` with summaries of jobs that have ended, such as one that nodes share; default: the run directory's, and the one that the hook is told")
	show.AddOutput(cmd, &o.output, jobTable, jobWide, outputJSON)
	f.StringVar(&o.Cluster, "cluster", "", "`name` of the Slurm cluster, if several have jobs of one id")
	f.StringVar(&o.Start, "start", "", "show the run that began at this `second` since 1970, as SLURM_JOB_START_TIME says it")
	f.BoolVar(&o.all, "all", false, "show all runs of a job that was requeued; without JOB list jobs that have ended, too")
	return cmd
}

func (o *jobOptions) check(args []string) error {
	if _, err := strconv.ParseUint(o.Start, 10, 63); o.Start != "" && err != nil {
		return fmt.Errorf("--start %q: want seconds since 1970", o.Start)
	}
	if len(args) == 0 {
		return nil
	}
	return dcgm.CheckJobID(args[0])
}

func (o *jobOptions) view() report.View {
	return report.View{Wide: o.output == jobWide, Now: o.now(), Zone: o.zone}
}

// listJobs prints the jobs that run here. With --all it prints jobs that have ended too.
func listJobs(w io.Writer, o *jobOptions) error {
	runs, err := o.Read()
	if err != nil {
		return err
	}
	if !o.all {
		runs = slices.DeleteFunc(runs, func(r report.Run) bool { return r.Ended() })
	}
	if o.output == outputJSON {
		return report.WriteJSON(w, runs, o.now())
	}
	return report.WriteList(w, o.view(), runs)
}

// skip names each file that is passed over.
func (o *jobOptions) skip(err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(o.stderr, "quoin: skipped: %s\n", strings.TrimSpace(line))
	}
}

// showJob prints one job.
func showJob(ctx context.Context, w io.Writer, o *jobOptions, id string) error {
	all, err := o.Read()
	if err == nil && o.Elsewhere {
		all, err = addNames(ctx, o.slurm, id, all, func(err error) { fmt.Fprintln(o.stderr, "quoin:", err) })
	}
	if err != nil {
		return err
	}
	runs := report.Of(all, id, o.all)
	if len(runs) == 0 {
		where := "no record in " + string(o.RunDir) + ", and no summary of it"
		if o.Elsewhere {
			where = "it does not run according to Slurm; " + where
		}
		if len(o.SummaryDirs) > 0 {
			where += " in " + strings.Join(o.SummaryDirs, ", ")
		}
		fmt.Fprintf(o.stderr, "quoin: job %s is not known here: %s. Jobs of other nodes: run quoin there, or give --summary-dir where all nodes keep their summaries\n", id, where)
		return show.Differs
	}
	if o.output == outputJSON {
		return report.WriteJSON(w, runs, o.now())
	}
	for i := range runs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		report.WriteTable(w, o.view(), &runs[i])
	}
	return nil
}
