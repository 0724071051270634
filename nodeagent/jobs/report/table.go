package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// View is how tables are shown.
type View struct {
	// Wide shows what does not fit into 80 columns.
	Wide bool
	Now  time.Time
	Zone *time.Location
}

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

// WriteTable writes what a run is, a line for each of its devices, and advice.
func WriteTable(w io.Writer, v View, r *Run) {
	printHead(w, v, r)
	if len(r.nodes) > 0 {
		fmt.Fprintln(w)
		printDevices(w, v, r)
	}
	for _, line := range advice(r) {
		fmt.Fprintln(w, line)
	}
}

const momentLayout = "2006-01-02 15:04:05"

func printHead(w io.Writer, v View, r *Run) {
	fmt.Fprintln(w, strings.TrimRight("Job       "+jobTitle(r)+"  "+Printable(r.jobName), " "))
	var user strings.Builder
	user.WriteString(cmp.Or(Printable(r.job.User), "-"))
	for _, f := range [][2]string{{"account", r.job.Account}, {"qos", r.job.QOS}, {"partition", r.job.Partition}, {"cluster", r.job.Cluster}} {
		if f[1] != "" {
			fmt.Fprintf(&user, ", %s %s", f[0], Printable(f[1]))
		}
	}
	fmt.Fprintf(w, "User      %s\n", user.String())
	fmt.Fprintf(w, "Nodes     %s\n", nodesOf(r))
	if cliques := r.cliques(); len(cliques) > 0 {
		fmt.Fprintf(w, "Cliques   %s\n", strings.Join(cliques, ", "))
	}
	fmt.Fprintf(w, "State     %s\n", stateOf(v, r))
	if start := r.job.Started(); !start.IsZero() {
		fmt.Fprintf(w, "Elapsed   %s since %s\n", clock(r.elapsed(v.Now)), start.In(v.Zone).Format(momentLayout))
	}
}

// jobTitle is the job's name in its array, and its own id if that differs.
func jobTitle(r *Run) string {
	if own := r.job.JobID; own != r.name() {
		return fmt.Sprintf("%s (%s)", r.name(), own)
	}
	return r.name()
}

func nodesOf(r *Run) string {
	var names []string
	for i := range r.nodes {
		names = append(names, r.nodes[i].name())
	}
	if len(names) == 0 {
		return Printable(r.job.NodeList)
	}
	text := few(names)
	if n := r.numNodes(); n > len(names) {
		text = fmt.Sprintf("%s; %d of %d are known here", text, len(names), n)
	}
	return text
}

// Printable replaces control characters in text that a user may have chosen, because
// they would move a terminal's cursor.
func Printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return '?'
		}
		return c
	}, s)
}

func stateOf(v View, r *Run) string {
	text := "running"
	if end := r.ended(); !end.IsZero() {
		text = "ended " + end.In(v.Zone).Format(momentLayout)
	} else if slices.ContainsFunc(r.nodes, func(n nodeRun) bool { return n.ended != 0 }) {
		text = "ending"
	}
	for i := range r.nodes {
		if code := r.nodes[i].exit; code != "" {
			return text + ", exit code " + Printable(code)
		}
	}
	return text
}

// clock is a duration as Slurm writes it: 2-03:04:05.
func clock(d time.Duration) string {
	s := int64(d / time.Second)
	days, s := s/86400, s%86400
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600, s%3600/60, s%60)
	if days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// advice says what the job's user can do better next time, and what is not known.
func advice(r *Run) []string {
	var unused, unsampled, waiting []string
	total := 0
	for i := range r.nodes {
		if r.nodes[i].waits {
			waiting = append(waiting, r.nodes[i].name())
		}
		for _, d := range r.nodes[i].devices() {
			total++
			name := r.nodes[i].name() + " GPU " + cmp.Or(d.ExporterID, d.UUID)
			switch {
			case neverUsed(&d):
				unused = append(unused, name)
			case d.Samples == 0:
				unsampled = append(unsampled, name)
			}
		}
	}
	var lines []string
	if n := len(unused); n > 0 {
		verb, find := "were", "them"
		if n == 1 {
			verb, find = "was", "it"
		}
		remedy := fmt.Sprintf("Ask for %d less, or see why the program does not find %s.", n, find)
		if n == total && len(r.nodes) == r.numNodes() {
			remedy = "The program may run without a GPU, or not find any."
		}
		when := "never used"
		if !r.Ended() {
			when = "not used so far"
		}
		lines = append(lines, fmt.Sprintf("%d of %d GPUs %s %s: %s.", n, total, verb, when, few(unused)), remedy)
	}
	if len(unsampled) > 0 {
		lines = append(lines, fmt.Sprintf("No sample of %s: the job was too short, or no quoin agent ran.", few(unsampled)))
	}
	if len(waiting) > 0 {
		lines = append(lines, fmt.Sprintf("The last sample of %s is missing: quoin agent has not taken it since the job ended.", few(waiting)))
	}
	if lines = slices.Concat(r.warnings(), r.before(), r.xids(), lines); len(lines) > 0 {
		lines = slices.Insert(lines, 0, "")
	}
	return lines
}

// warnings are what was wrong with the run's GPUs when it began.
func (r *Run) warnings() (lines []string) {
	const most = 8
	for i := range r.nodes {
		for _, text := range r.nodes[i].record.Warnings {
			if len(lines) == most {
				return append(lines, "There were more warnings: the records and summaries have them all.")
			}
			lines = append(lines, fmt.Sprintf("When the job began on %s: %s.", r.nodes[i].name(), Printable(text)))
		}
	}
	return lines
}

// before says how much memory was in use before the run, by programs that are not the run's.
func (r *Run) before() []string {
	var memory uint64
	var gpus []string
	for i := range r.nodes {
		for _, d := range r.nodes[i].devices() {
			if d.BeforeMemory >= topology.MuchMemory {
				memory += d.BeforeMemory
				gpus = append(gpus, r.nodes[i].gpu(&d))
			}
		}
	}
	if len(gpus) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d GiB were in use before this job on %s, by programs that are not the job's.", memory>>30, few(gpus))}
}

// xids are a line for each Xid that came while the run held the GPU. Xids that ask for nothing
// are left out.
func (r *Run) xids() (lines []string) {
	type came struct {
		times uint64
		gpus  []string
	}
	all := map[int]came{}
	var gaps []string
	for i := range r.nodes {
		for _, d := range r.nodes[i].devices() {
			gpu := r.nodes[i].gpu(&d)
			if d.XidGap {
				gaps = append(gaps, gpu)
			}
			for code, times := range d.Xids {
				if fabric.XidOf(code).Class != fabric.XidIgnore && (code != fabric.XidCleanup || len(d.Xids) == 1) {
					all[code] = came{all[code].times + times, append(all[code].gpus, gpu)}
				}
			}
		}
	}
	for _, code := range slices.Sorted(maps.Keys(all)) {
		x, times := fabric.XidOf(code), ""
		if n := all[code].times; n > 1 {
			times = fmt.Sprintf("%d times ", n)
		}
		lines = append(lines, fmt.Sprintf("%sXid %d (%s) on %s: %s.", times, code, cmp.Or(x.Name, "which Quoin does not know"), few(all[code].gpus), x.Action))
	}
	if len(gaps) > 0 {
		lines = append(lines, fmt.Sprintf("Xids of %s are not all known: Quoin's probe of NVML did not watch all the time.", few(gaps)))
	}
	return lines
}

// few names some of many.
func few(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
