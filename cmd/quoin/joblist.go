package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// listJobs prints the jobs that run here, and with --all those that have ended.
func listJobs(w io.Writer, o *jobOptions) error {
	all, err := o.gather()
	if err != nil {
		return err
	}
	runs := make([]jobRun, 0, len(all))
	for i := range all {
		if o.all || all[i].ended().IsZero() {
			runs = append(runs, all[i])
		}
	}
	switch {
	case o.output == jobJSON:
		return printJobsJSON(w, o, runs)
	case len(runs) == 0:
		fmt.Fprintln(w, "no job runs here")
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	who := "USER"
	if o.output == jobWide {
		who += "\tACCOUNT\tPARTITION"
	}
	fmt.Fprintln(t, "JOB\t"+who+"\tNODES\tGPUS\tUNUSED\tUTIL\tENERGY\tELAPSED\tSTATE")
	for i := range runs {
		listJob(t, o, &runs[i])
	}
	return t.Flush()
}

func listJob(w io.Writer, o *jobOptions, r *jobRun) {
	says := func(what func(*rundir.Record) string) string { return cmp.Or(printable(r.says(what)), "-") }
	who := says(func(rec *rundir.Record) string { return rec.User })
	if o.output == jobWide {
		who += "\t" + says(func(rec *rundir.Record) string { return rec.Account }) + "\t" + says(func(rec *rundir.Record) string { return rec.Partition })
	}
	state, elapsed := "running", "-"
	if !r.start().IsZero() {
		elapsed = clock(r.elapsed(o.now()))
	}
	if !r.ended().IsZero() {
		state = "ended"
	}
	sum := r.totals()
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", r.name(), who, r.numNodes(), sum.Devices, sum.NeverUsed, percent(sum.Utilization), energyText(sum.Energy), elapsed, state)
}
