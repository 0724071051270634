package manifests_test

import "github.com/quoin-hpc/quoin/test/rig/hour"

// wholeWatts counts no hold of a MIG instance.
func wholeWatts(h hold) float64 {
	if !h.Whole() {
		return none
	}
	return h.watts()
}

// none is a value that makes no row.
const none = -1

// by expects sums over the holds, by labels.
func by(value func(hold) float64, by ...string) func(moment) []sample {
	return func(m moment) []sample {
		g := groups{by: by}
		for _, h := range m.holds() {
			if v := value(h); v != none {
				g.add(h, v)
			}
		}
		return g.rows()
	}
}

// over expects sums over the holds of all minutes shown, by labels.
func over(value func(hold) float64, by ...string) func(moment) []sample {
	return func(m moment) []sample {
		g := groups{by: by}
		for minute := m.from(); minute <= m.minute; minute++ {
			for _, h := range m.at(minute) {
				if v := value(h); v != none {
					g.add(h, v)
				}
			}
		}
		return g.rows()
	}
}

// scaled multiplies expected values; below 1 it divides by the inverse, as the
// dashboards do.
func scaled(by float64, rows func(moment) []sample) func(moment) []sample {
	return func(m moment) []sample {
		all := rows(m)
		for i := range all {
			if by < 1 {
				all[i].Value /= 1 / by
			} else {
				all[i].Value *= by
			}
		}
		return all
	}
}

// ratio divides expected rows of the same labels.
func ratio(a, b func(moment) []sample) func(moment) []sample {
	return func(m moment) []sample {
		below := map[string]float64{}
		for _, s := range b(m) {
			below[s.Labels] = s.Value
		}
		rows := a(m)
		for i := range rows {
			rows[i].Value /= below[rows[i].Labels]
		}
		return rows
	}
}

// perJob expects a row for each job; one of value 0 has none.
func perJob(value func(moment, *hour.Job) float64) func(moment) []sample {
	return func(m moment) []sample {
		var rows []sample
		seen := map[string]bool{}
		for _, h := range m.holds() {
			if v := value(m, h.Job); !seen[h.ID] && v != 0 {
				rows = append(rows, sample{labels("", jobLabels(h.Job)), v})
			}
			seen[h.ID] = true
		}
		return rows
	}
}

// blocks are the blocks that a job is spread over.
func blocksOf(j *hour.Job) map[string]bool {
	all := map[string]bool{}
	for _, p := range j.Holds {
		if b := hour.Nodes[p.Node].Block; b != "" {
			all[b] = true
		}
	}
	return all
}

// The seconds of a device that its agent counts.
func heldSeconds(n, i, minute int) float64 {
	held, _, _ := hour.Nodes[n].Seconds(n, i, minute)
	return held
}

func idleSeconds(n, i, minute int) float64 {
	_, idle, _ := hour.Nodes[n].Seconds(n, i, minute)
	return idle
}

// increases sums what increase() gives of all devices' seconds over the minutes
// shown.
func (m moment) increases(seconds func(n, i, minute int) float64) (sum float64) {
	for n := range hour.Nodes {
		for i := range hour.Nodes[n].Devices {
			grown := seconds(n, i, m.minute) - seconds(n, i, m.from())
			sum += increase(grown/float64(m.minutes-1), m.minutes)
		}
	}
	return sum
}

// energy is by how much the energy counters of a node's GPUs grow in the minutes
// shown.
func (m moment) energy(n int) (sum float64) {
	seen := map[string]bool{}
	for i := range hour.Nodes[n].Devices {
		d := &hour.Nodes[n].Devices[i]
		if !seen[d.UUID] {
			grown := d.At(hour.Place{Node: n, Device: i}, m.minute).Joules - d.At(hour.Place{Node: n, Device: i}, m.from()).Joules
			sum += increase(grown/float64(m.minutes-1), m.minutes)
		}
		seen[d.UUID] = true
	}
	return sum
}
