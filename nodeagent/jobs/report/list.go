package report

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
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
	text := func(s string) string { return cmp.Or(Printable(s), "-") }
	who := text(r.job.User)
	if v.Wide {
		who += "\t" + text(r.job.Account) + "\t" + text(r.job.Partition)
	}
	state, elapsed := "running", "-"
	if !r.job.Started().IsZero() {
		elapsed = clock(r.elapsed(v.Now))
	}
	if r.Ended() {
		state = "ended"
	}
	t := r.totals()
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", r.name(), who, r.numNodes(), t.Devices, t.NeverUsed, percent(t.Utilization), energyText(t.Energy), elapsed, state)
}
