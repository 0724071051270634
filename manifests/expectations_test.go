package manifests_test

import (
	"maps"
	"strconv"

	"github.com/quoin-hpc/quoin/test/rig/exporter"
	"github.com/quoin-hpc/quoin/test/rig/hour"
)

// moment is when the dashboards are looked at: half a minute past a minute, for
// the minutes before it, as one user or, with an empty one, for all; likewise one job.
type moment struct {
	minute, minutes int
	user, job       string
}

// from is the first minute that the dashboard shows.
func (m moment) from() int { return m.minute - m.minutes + 1 }

// hold is a device that a job holds.
type hold struct {
	hour.Place
	*hour.Job
	*hour.Device
	use     exporter.Use // of the minute
	silent  bool         // the exporter answers nothing
	sharers int          // jobs that hold it, this one too
}

// at returns what the moment's jobs hold at a minute.
func (m moment) at(minute int) []hold {
	var all []hold
	for n := range hour.Nodes {
		for i := range hour.Nodes[n].Devices {
			p := hour.Place{Node: n, Device: i}
			jobs, d := hour.Holders(p, minute), &hour.Nodes[n].Devices[i]
			for _, j := range jobs {
				if (m.user == "" || m.user == j.User) && (m.job == "" || m.job == j.ID) {
					all = append(all, hold{p, j, d, d.HeldAt(minute), hour.Nodes[n].Silent(minute), len(jobs)})
				}
			}
		}
	}
	return all
}

func (m moment) holds() []hold { return m.at(m.minute) }

// infoLabels are those of quoin:gpu:info.
func infoLabels(p hour.Place) map[string]string {
	n := &hour.Nodes[p.Node]
	d := &n.Devices[p.Device]
	set := map[string]string{"UUID": d.UUID, "gpu": strconv.Itoa(d.GPU), "modelName": d.Model, "node": n.Name, "clique": n.Clique, "block": n.Block}
	if !d.Whole() {
		set["GPU_I_ID"] = strconv.Itoa(d.Instance)
	}
	return set
}

// labels are those of quoin:gpu_job:info.
func (h hold) labels() map[string]string {
	set := infoLabels(h.Place)
	maps.Copy(set, ownerLabels(h.Job))
	return set
}

// jobLabels are those of quoin:job:info.
func jobLabels(j *hour.Job) map[string]string {
	return with(ownerLabels(j), "array_job_id", j.Array, "job_name", j.Name)
}

// ownerLabels are those that the agents know.
func ownerLabels(j *hour.Job) map[string]string {
	return map[string]string{"job_id": j.ID, "user": j.User, "partition": j.Partition, "account": j.Account, "qos": j.QOS, "cluster": hour.Cluster}
}

// perHold expects one row per job and device.
func perHold(name string, value func(moment, hold) (float64, bool)) func(moment) []sample {
	return func(m moment) []sample {
		var rows []sample
		for _, h := range m.holds() {
			if v, ok := value(m, h); ok {
				rows = append(rows, sample{labels(name, h.labels()), v})
			}
		}
		return rows
	}
}

// ofWhole expects rows for whole GPUs alone.
func ofWhole(value func(exporter.Use) float64) func(moment) []sample {
	return perHold("", func(_ moment, h hold) (float64, bool) { return value(h.use), h.Whole() })
}

// ofEach expects rows for all devices.
func ofEach(value func(exporter.Use) float64) func(moment) []sample {
	return perHold("", func(_ moment, h hold) (float64, bool) { return value(h.use), true })
}

// one expects one row without labels.
func one(value func(m moment) float64) func(moment) []sample {
	return func(m moment) []sample { return []sample{{"{}", value(m)}} }
}

// fixed expects the same rows at every moment and for every user.
func fixed(rows ...sample) func(moment) []sample {
	return func(moment) []sample { return rows }
}

// groups sums values of the holds by labels.
type groups struct {
	name string
	by   []string
	sums map[string]float64
}

func (g *groups) add(h hold, v float64) {
	all, set := h.labels(), map[string]string{}
	for _, k := range g.by {
		set[k] = all[k]
	}
	if g.sums == nil {
		g.sums = map[string]float64{}
	}
	g.sums[labels(g.name, set)] += v
}

func (g *groups) rows() []sample {
	var rows []sample
	for l, v := range g.sums {
		rows = append(rows, sample{l, v})
	}
	return rows
}

// utilization is what quoin:gpu_utilization:ratio gives of a held device.
func (h hold) utilization() float64 {
	if h.Whole() {
		return h.use.Utilization
	}
	return h.use.Engine
}

// share is the job's part of the device.
func (h hold) share() float64 { return 1 / float64(h.sharers) }

// watts is the job's part of a whole GPU's power.
func (h hold) watts() float64 {
	if !h.Whole() || h.silent {
		return 0
	}
	return h.use.Watts * h.share()
}

// stretch is for how long the device has been idle while it is held.
func (h hold) stretch(m moment) float64 {
	_, _, s := hour.Nodes[h.Node].Seconds(h.Node, h.Place.Device, m.minute)
	return s
}

// perMinute sums what the holds of each minute shown give.
func perMinute(m moment, value func(hold) float64) float64 {
	sum := 0.0
	for minute := m.from(); minute <= m.minute; minute++ {
		for _, h := range m.at(minute) {
			sum += value(h)
		}
	}
	return sum
}

// rate is what rate() gives of a counter that grows by step each minute, over the
// minutes before half past one: their samples reach half a minute from each end.
func rate(step float64, minutes int) float64 {
	return increase(step, minutes) / float64(60*minutes)
}

// increase is what increase() gives of it.
func increase(step float64, minutes int) float64 {
	sampled := float64(60 * (minutes - 1))
	return step * float64(minutes-1) * ((sampled + 30 + 30) / sampled)
}
