package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// deviceColumn is a column of the table of devices. The columns that are not wide fit
// into 80 columns of text with most nodes' names.
type deviceColumn struct {
	head  string
	wide  bool
	of    func(n *nodeRun, d *rundir.DeviceUse) string
	total func(t *Totals) string // nil for none
}

// sampled is a column that needs a sample.
func sampled(head string, of func(d *rundir.DeviceUse) string, total func(t *Totals) string) deviceColumn {
	return deviceColumn{head: head, total: total, of: func(_ *nodeRun, d *rundir.DeviceUse) string {
		if d.Samples == 0 {
			return "-"
		}
		return of(d)
	}}
}

func deviceColumns() []deviceColumn {
	most := sampled("MAX", func(d *rundir.DeviceUse) string { return percent(largest(d.Utilization)) }, nil)
	most.wide = true
	return []deviceColumn{
		{head: "NODE", of: func(n *nodeRun, _ *rundir.DeviceUse) string { return cmp.Or(Printable(n.record.Node), "-") }, total: func(*Totals) string { return "total" }},
		{head: "GPU", of: func(_ *nodeRun, d *rundir.DeviceUse) string { return cmp.Or(d.ExporterID, "-") }, total: func(t *Totals) string { return fmt.Sprint(t.Devices) }},
		{head: "UUID", wide: true, of: func(_ *nodeRun, d *rundir.DeviceUse) string { return cmp.Or(d.UUID, "-") }},
		{head: "PRODUCT", wide: true, of: func(_ *nodeRun, d *rundir.DeviceUse) string { return cmp.Or(d.Product, "-") }},
		sampled("UTIL", func(d *rundir.DeviceUse) string { return percent(mean(d.Utilization)) }, func(t *Totals) string { return percent(t.Utilization) }),
		most,
		sampled("SM", func(d *rundir.DeviceUse) string { return percent(mean(d.SMActivity)) }, func(t *Totals) string { return percent(t.SMActivity) }),
		sampled("MEMORY", deviceMemory, func(t *Totals) string { return memoryText(t.Memory, t.MemoryTotal) }),
		sampled("POWER", func(d *rundir.DeviceUse) string { return watts(mean(d.Power)) }, func(t *Totals) string { return watts(t.Power) }),
		sampled("ENERGY", func(d *rundir.DeviceUse) string { return energyText(d.Energy) }, func(t *Totals) string { return energyText(t.Energy) }),
		sampled("IDLE", deviceIdle, func(t *Totals) string { return clock(seconds(t.IdleSeconds)) }),
		{head: "SAMPLED", of: func(_ *nodeRun, d *rundir.DeviceUse) string { return deviceSampled(d) }},
	}
}

// printDevices prints a line for each device of a run, and their totals.
func printDevices(w io.Writer, v View, r *Run) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	sum := r.totals()
	columns := deviceColumns()
	line := func(cell func(c *deviceColumn) string) {
		var cells []string
		for i := range columns {
			if c := &columns[i]; !c.wide || v.Wide {
				cells = append(cells, cell(c))
			}
		}
		fmt.Fprintln(t, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	line(func(c *deviceColumn) string { return c.head })
	for i := range r.nodes {
		n := &r.nodes[i]
		for _, d := range n.devices() {
			line(func(c *deviceColumn) string { return c.of(n, &d) })
		}
	}
	line(func(c *deviceColumn) string {
		if c.total == nil {
			return ""
		}
		return c.total(&sum)
	})
	_ = t.Flush() // into memory or a terminal
}

// deviceMemory is the largest memory in use, and the whole memory.
func deviceMemory(d *rundir.DeviceUse) string {
	var used float64
	if most := largest(d.Memory); most != nil {
		used = *most
	}
	return memoryText(used, float64(d.MemoryTotal))
}

func deviceIdle(d *rundir.DeviceUse) string {
	if neverUsed(d) {
		return "never used"
	}
	return clock(seconds(d.IdleSeconds))
}

// deviceSampled is for how long the device was sampled.
func deviceSampled(d *rundir.DeviceUse) string {
	text := "never"
	if d.Samples > 0 {
		text = clock(seconds(d.Seconds))
	}
	if d.Released {
		text += "  not held any more"
	}
	return text
}

func mean(s *rundir.Stat) *float64 {
	if s == nil {
		return nil
	}
	return &s.Mean
}

func largest(s *rundir.Stat) *float64 {
	if s == nil {
		return nil
	}
	return &s.Max
}

func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", *share*100)
}

func memoryText(used, total float64) string {
	if total <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f/%.1f GiB", used/(1<<30), total/(1<<30))
}

func watts(w *float64) string {
	if w == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f W", *w)
}

// energyText is in watt hours, or thousands of them.
func energyText(joules *float64) string {
	if joules == nil {
		return "-"
	}
	switch wh := *joules / 3600; {
	case wh < 9.95:
		return fmt.Sprintf("%.1f Wh", wh)
	case wh < 999.5:
		return fmt.Sprintf("%.0f Wh", wh)
	case wh < 9995:
		return fmt.Sprintf("%.2f kWh", wh/1000)
	case wh < 99_950:
		return fmt.Sprintf("%.1f kWh", wh/1000)
	default:
		return fmt.Sprintf("%.0f kWh", wh/1000)
	}
}
