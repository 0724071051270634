package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// The columns of the table of devices.
var deviceHead = []string{"NODE", "GPU", "UUID", "PRODUCT", "UTIL", "MAX", "SM", "MEMORY", "POWER", "ENERGY", "IDLE", "SAMPLED"}

// narrow leaves out UUID, PRODUCT and MAX: with most nodes' names the others fit into 80
// columns of text.
func narrow(row []string) []string { return slices.Concat(row[:2], row[4:5], row[6:]) }

func deviceRow(n *nodeRun, d *rundir.DeviceUse) []string {
	return []string{cmp.Or(Printable(n.record.Node), "-"), cmp.Or(d.ExporterID, "-"), cmp.Or(d.UUID, "-"), cmp.Or(d.Product, "-"),
		percent(mean(d.Utilization)), percent(largest(d.Utilization)), percent(mean(d.SMActivity)), deviceMemory(d),
		watts(mean(d.Power)), energyText(d.Energy), deviceIdle(d), deviceSampled(d)}
}

func totalRow(t Totals) []string {
	return []string{"total", fmt.Sprint(t.Devices), "", "", percent(t.Utilization), "", percent(t.SMActivity), memoryText(t.Memory, t.MemoryTotal),
		watts(t.Power), energyText(t.Energy), clock(seconds(t.IdleSeconds)), ""}
}

// printDevices prints a line for each device of a run, and their totals.
func printDevices(w io.Writer, v View, r *Run) {
	rows := [][]string{deviceHead}
	for i := range r.nodes {
		for _, d := range r.nodes[i].devices() {
			rows = append(rows, deviceRow(&r.nodes[i], &d))
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append(rows, totalRow(r.totals())) {
		if !v.Wide {
			row = narrow(row)
		}
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	_ = t.Flush() // into memory or a terminal
}

// deviceMemory is the largest memory in use, and the whole memory.
func deviceMemory(d *rundir.DeviceUse) string {
	return memoryText(*cmp.Or(largest(d.Memory), new(0.0)), float64(d.MemoryTotal))
}

func deviceIdle(d *rundir.DeviceUse) string {
	switch {
	case d.Samples == 0:
		return "-"
	case neverUsed(d):
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
		text += "  no longer held"
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

func percent(share *float64) string { return number("%.0f%%", share, 100) }

func watts(w *float64) string { return number("%.0f W", w, 1) }

func number(format string, value *float64, scale float64) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprintf(format, *value*scale)
}

func memoryText(used, total float64) string {
	if total <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f/%.1f GiB", used/(1<<30), total/(1<<30))
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
