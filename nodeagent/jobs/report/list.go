package report

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// WriteList writes a line for each run.
func WriteList(w io.Writer, v View, runs []Run) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "no job runs here")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	who := "USER"
	if v.Wide {
		who += "\tACCOUNT\tPARTITION"
	}
	fmt.Fprintln(t, "JOB\t"+who+"\tNODES\tGPUS\tUNUSED\tUTIL\tENERGY\tELAPSED\tSTATE")
	for i := range runs {
		listJob(t, v, &runs[i])
	}
	return t.Flush()
}

func listJob(w io.Writer, v View, r *Run) {
	says := func(what func(*rundir.Record) string) string { return cmp.Or(Printable(r.says(what)), "-") }
	who := says(func(rec *rundir.Record) string { return rec.User })
	if v.Wide {
		who += "\t" + says(func(rec *rundir.Record) string { return rec.Account }) + "\t" + says(func(rec *rundir.Record) string { return rec.Partition })
	}
	state, elapsed := "running", "-"
	if !r.start().IsZero() {
		elapsed = clock(r.elapsed(v.Now))
	}
	if !r.ended().IsZero() {
		state = "ended"
	}
	sum := r.totals()
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", r.name(), who, r.numNodes(), sum.Devices, sum.NeverUsed, percent(sum.Utilization), energyText(sum.Energy), elapsed, state)
}
