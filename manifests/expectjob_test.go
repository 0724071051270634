package manifests_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/quoin-hpc/quoin/test/rig/hour"
)

// ended107 is a job that ends in the middle of the hour. Its three GPUs differ in their
// use, and one of them falters.
const ended107 = "107"

// spell is how a job held a device in the time shown.
type spell struct {
	hold           // of its last minute
	last   int     // minute
	used   float64 // sum of the utilisation
	most   float64 // memory
	watts  float64 // sum
	number int     // minutes that the exporter tells of
}

// spells are those of the moment's jobs, in the order of their devices.
func (m moment) spells() []spell {
	type key struct {
		job string
		hour.Place
	}
	var all []spell
	place := map[key]int{}
	for minute := max(m.from(), 0); minute <= m.minute; minute++ {
		for _, h := range m.at(minute) {
			k := key{h.ID, h.Place}
			if _, ok := place[k]; !ok {
				place[k] = len(all)
				all = append(all, spell{})
			}
			s := &all[place[k]]
			s.hold, s.last = h, minute
			if !h.silent {
				s.number++
				s.used, s.watts, s.most = s.used+h.utilization(), s.watts+h.watts(), max(s.most, h.use.Used)
			}
		}
	}
	return all
}

func (s spell) mean() float64 { return s.used / float64(s.number) }

// power is the mean power.
func (s spell) power() float64 { return s.watts / float64(s.number) }

// rounded is a mean as the dashboard rounds it.
func rounded(mean float64) float64 { return math.Round(1e4*mean) / 1e4 }

// stretch is for how long the device had been idle when the job was last seen on it.
func (s spell) stretch() float64 {
	return s.hold.stretch(moment{minute: s.last})
}

// ofJob are the spells of a job in the time shown, of whatever user.
func (m moment) ofJob(id string) []spell {
	return slices.DeleteFunc(moment{m.minute, m.minutes, "", ""}.spells(), func(s spell) bool { return s.ID != id })
}

// inHeader expects a row for each job that was seen in the time shown.
func inHeader(value func(moment, []spell) (float64, bool)) func(moment) []sample {
	return func(m moment) []sample {
		var rows []sample
		for i := range hour.Jobs {
			id := hour.Jobs[i].ID
			if of := m.ofJob(id); len(of) > 0 && (m.job == "" || m.job == id) {
				if v, ok := value(m, of); ok {
					rows = append(rows, sample{labels("", map[string]string{"cluster": hour.Cluster, "job_id": id}), v})
				}
			}
		}
		return rows
	}
}

// running is 1 for a job that is held now, and 0 for one that has ended.
func (m moment) running(of []spell) (float64, bool) {
	if of[0].last == m.minute {
		return 1, true
	}
	return 0, true
}

func sumOf(of []spell, value func(spell) float64) (sum float64) {
	for _, s := range of {
		sum += value(s)
	}
	return sum
}

// median is that of the job's devices.
func median(of []spell, value func(spell) float64) float64 {
	var means []float64
	for _, s := range of {
		means = append(means, value(s))
	}
	slices.Sort(means)
	n := len(means)
	return (means[(n-1)/2] + means[n/2]) / 2
}

// inTable are the labels that the table of devices shows.
func (s spell) inTable() map[string]string {
	all, set := s.labels(), map[string]string{}
	for _, k := range []string{"cluster", "job_id", "user", "account", "block", "node", "gpu", "GPU_I_ID", "modelName"} {
		set[k] = all[k]
	}
	return set
}

// inDevices expects one row per job and device of the time shown.
func inDevices(value func(moment, spell) (float64, bool)) func(moment) []sample {
	return func(m moment) []sample {
		var rows []sample
		for _, s := range m.spells() {
			if v, ok := value(m, s); ok {
				rows = append(rows, sample{labels("", s.inTable()), v})
			}
		}
		return rows
	}
}

// linkErrors expects a row for each GPU that has had errors within five minutes.
func linkErrors(multiple float64) func(moment) []sample {
	return perHold("", func(m moment, h hold) (float64, bool) {
		if h.Falters == 0 {
			return 0, false
		}
		v := increased(m.minute, 5, func(minute int) float64 { return multiple * h.LinkErrors(minute) })
		return v, v > 0
	})
}

// clockEvents expects a row for each whole GPU that has one of the reasons.
func clockEvents(mask int) func(moment) []sample {
	return perHold("quoin:gpu_job:info", func(_ moment, h hold) (float64, bool) { return 1, h.Whole() && h.use.ClockEvents&mask > 0 })
}

// perNode expects a row for each node on which jobs hold devices, of whatever user.
func perNode(value func(*hour.Node) float64) func(moment) []sample {
	return func(m moment) []sample {
		m.user = ""
		seen := map[int]bool{}
		var rows []sample
		for _, h := range m.holds() {
			if !seen[h.Node] {
				seen[h.Node] = true
				set := map[string]string{"instance": fmt.Sprintf("10.0.0.%d:9100", h.Node+1), "node": hour.Nodes[h.Node].Name}
				rows = append(rows, sample{labels("", set), value(&hour.Nodes[h.Node])})
			}
		}
		return rows
	}
}

var headerExpectations = map[string]func(moment) []sample{
	"quoin-job/Job/A": func(m moment) []sample {
		var rows []sample
		for i := range hour.Jobs {
			j := &hour.Jobs[i]
			if len(m.ofJob(j.ID)) == 0 || m.job != "" && m.job != j.ID {
				continue
			}
			set := jobLabels(j)
			delete(set, "array_job_id")
			rows = append(rows, sample{labels("", set), 1})
		}
		return rows
	},
	"quoin-job/Job/B": inHeader(moment.running),
	"quoin-job/Job/C": inHeader(func(_ moment, of []spell) (float64, bool) { return float64(60 * (of[0].last - of[0].From)), true }),
	"quoin-job/Job/D": inHeader(func(_ moment, of []spell) (float64, bool) {
		nodes := map[int]bool{}
		for _, s := range of {
			nodes[s.Node] = true
		}
		return float64(len(nodes)), true
	}),
	"quoin-job/Job/E": inHeader(func(_ moment, of []spell) (float64, bool) { return float64(len(of)), true }),
	"quoin-job/Job/F": inHeader(func(_ moment, of []spell) (float64, bool) { n := len(blocksOf(of[0].Job)); return float64(n), n > 0 }),
	// The largest block has 6 devices.
	"quoin-job/Job/G": inHeader(func(_ moment, of []spell) (float64, bool) {
		return math.Ceil(float64(len(of)) / 6), len(blocksOf(of[0].Job)) > 0
	}),
	"quoin-job/Job/H": inHeader(func(_ moment, of []spell) (float64, bool) {
		return rounded(sumOf(of, spell.mean) / float64(len(of))), true
	}),
	"quoin-job/Job/I": inHeader(func(_ moment, of []spell) (float64, bool) {
		idle := sumOf(of, func(s spell) float64 { return map[bool]float64{true: 1}[s.stretch() >= 300] })
		return idle, idle > 0
	}),
	"quoin-job/Job/K": inHeader(func(_ moment, of []spell) (float64, bool) {
		return 60 * sumOf(of, func(s spell) float64 { return s.watts }), of[0].Whole()
	}),

	"quoin-job/Link errors/A": linkErrors(8),
	"quoin-job/Link errors/B": linkErrors(4),
	"quoin-job/Link errors/C": linkErrors(3),
	"quoin-job/Link errors/D": linkErrors(2),

	"quoin-job/Clocks held down/A": clockEvents(4),
	"quoin-job/Clocks held down/B": clockEvents(32 | 64),
	"quoin-job/Clocks held down/C": clockEvents(8 | 128),

	"quoin-job/Processors of the nodes/A": perNode(func(n *hour.Node) float64 { v, _, _ := n.Host(); return v }),
	"quoin-job/Memory of the nodes/A":     perNode(func(n *hour.Node) float64 { _, v, _ := n.Host(); return v }),
	"quoin-job/InfiniBand of the nodes/A": perNode(func(n *hour.Node) float64 { _, _, v := n.Host(); return v }),

	"quoin-job/Devices/A": func(m moment) []sample {
		var rows []sample
		for _, s := range m.spells() {
			rows = append(rows, sample{labels("", with(s.inTable(), "instance", agentLabels(s.Node, nil)["instance"])), 1})
		}
		return rows
	},
	"quoin-job/Devices/B": inDevices(func(_ moment, s spell) (float64, bool) { return rounded(s.mean()), true }),
	"quoin-job/Devices/C": inDevices(func(m moment, s spell) (float64, bool) {
		return rounded(s.mean() - median(m.ofJob(s.ID), spell.mean)), true
	}),
	"quoin-job/Devices/D": inDevices(func(_ moment, s spell) (float64, bool) { return s.most, true }),
	"quoin-job/Devices/E": inDevices(func(_ moment, s spell) (float64, bool) { return math.Round(10*s.power()) / 10, s.Whole() }),
	"quoin-job/Devices/G": inDevices(func(m moment, s spell) (float64, bool) {
		return rounded(s.power()/median(m.ofJob(s.ID), spell.power) - 1), s.Whole()
	}),
	"quoin-job/Devices/F": inDevices(func(_ moment, s spell) (float64, bool) { return s.stretch(), true }),
}
