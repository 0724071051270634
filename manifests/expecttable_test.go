package manifests_test

import (
	"maps"
	"math"
	"slices"

	"github.com/quoin-hpc/quoin/test/rig/exporter"
	"github.com/quoin-hpc/quoin/test/rig/hour"
)

// expectations are the rows of every expression of every dashboard, by uid, panel
// and query.
func expectations() map[string]func(moment) []sample {
	all := maps.Clone(jobExpectations)
	maps.Copy(all, headerExpectations)
	maps.Copy(all, blockExpectations)
	maps.Copy(all, fabricExpectations)
	maps.Copy(all, imexExpectations)
	return all
}

var jobExpectations = map[string]func(moment) []sample{
	"quoin-job/Utilisation/A":                          perHold("quoin:gpu_job_utilization:ratio", func(_ moment, h hold) (float64, bool) { return h.utilization(), true }),
	"quoin-job/Memory/A":                               ofEach(func(u exporter.Use) float64 { return u.Used / u.Size }),
	"quoin-job/SM activity/A":                          ofEach(func(u exporter.Use) float64 { return u.SM }),
	"quoin-job/NVLink/A":                               ofWhole(func(u exporter.Use) float64 { return u.NVLink }),
	"quoin-job/PCIe/A":                                 ofWhole(func(u exporter.Use) float64 { return u.PCIeTX + u.PCIeRX }),
	"quoin-job/Temperature/A":                          ofWhole(func(u exporter.Use) float64 { return u.Celsius }),
	"quoin-job/Temperature/B":                          ofWhole(func(u exporter.Use) float64 { return u.MemoryCelsius }),
	"quoin-job/SM clock/A":                             ofWhole(func(u exporter.Use) float64 { return u.Hertz }),
	"quoin-job/$cluster":                               fixed(sample{`{cluster="alpha"}`, 1}),
	"quoin-job/$account":                               func(m moment) []sample { return m.all().values("account") },
	"quoin-job/$user":                                  func(m moment) []sample { return m.all().values("user") },
	"quoin-job/$job":                                   func(m moment) []sample { return moment{m.minute, m.minutes, m.user, ""}.values("job_id") },
	"quoin-job/$node":                                  values("node", "n1", "n2", "n3", "n4"),
	"quoin-users/Users with GPUs/A":                    one(func(m moment) float64 { return float64(len(m.values("user"))) }),
	"quoin-users/Jobs with GPUs/A":                     one(func(m moment) float64 { return float64(len(m.values("job_id"))) }),
	"quoin-users/Devices held/A":                       one(func(m moment) float64 { return m.sumHolds(hold.share) }),
	"quoin-users/Mean utilisation/A":                   one(func(m moment) float64 { return m.sumHolds(hold.used) / m.sumHolds(hold.share) }),
	"quoin-users/Device hours in the time shown/A":     one(func(m moment) float64 { return perMinute(m, hold.share) / 60 }),
	"quoin-users/Energy in the time shown/A":           one(func(m moment) float64 { return perMinute(m, hold.watts) * 60 }),
	"quoin-job/Tensor and memory interface activity/A": ofEach(func(u exporter.Use) float64 { return u.Tensor }),
	"quoin-job/Tensor and memory interface activity/B": ofEach(func(u exporter.Use) float64 { return u.DRAM }),
	"quoin-job/Power against the GPU's limit/A":        ofWhole(func(u exporter.Use) float64 { return u.Watts / u.Limit }),
	"quoin-users/Devices held by account/A":            by(hold.share, "cluster", "account"),
	"quoin-users/Devices held by user/A":               by(hold.share, "cluster", "user"),
	"quoin-users/Mean utilisation by user/A":           ratio(by(hold.used, "cluster", "user"), by(hold.share, "cluster", "user")),
	"quoin-users/Power by account/A":                   by(wholeWatts, "cluster", "account"),
	"quoin-users/Users in the time shown/A":            scaled(1/60., over(hold.share, "cluster", "account", "user")),
	"quoin-users/Users in the time shown/B":            scaled(1/60., over(hold.used, "cluster", "account", "user")),
	"quoin-users/Users in the time shown/C":            scaled(60, over(wholeWatts, "cluster", "account", "user")),
	"quoin-users/Jobs/A":                               perJob(func(m moment, j *hour.Job) float64 { return float64(len(j.Holds)) }),
	"quoin-users/Jobs/B":                               perJob(func(_ moment, j *hour.Job) float64 { return float64(len(blocksOf(j))) }),
	"quoin-users/Jobs/C":                               perJob(func(m moment, j *hour.Job) float64 { return float64(60 * (m.minute - j.From)) }),
	"quoin-users/$cluster":                             fixed(sample{`{cluster="alpha"}`, 1}),
	"quoin-users/$account":                             func(m moment) []sample { return m.all().values("account") },
	"quoin-users/$user":                                func(m moment) []sample { return m.all().values("user") },

	"quoin-users/Energy by node in the time shown/A": func(m moment) []sample {
		var rows []sample
		for n := range hour.Nodes {
			rows = append(rows, sample{labels("", map[string]string{"node": hour.Nodes[n].Name}), math.Round(m.energy(n))})
		}
		return rows
	},

	"quoin-idle/Devices/A":                       one(func(moment) float64 { return 12 }),
	"quoin-idle/Held/A":                          one(func(m moment) float64 { return float64(len(m.devices())) }),
	"quoin-idle/Held and idle now/A":             one(func(m moment) float64 { return float64(len(m.idle(60))) }),
	"quoin-idle/Idle share of held time/A":       one(func(m moment) float64 { return math.Round(1e4*m.increases(idleSeconds)/m.increases(heldSeconds)) / 1e4 }),
	"quoin-idle/Device hours lost/A":             one(func(m moment) float64 { return m.increases(idleSeconds) / 3600 }),
	"quoin-idle/Never used/A":                    one(func(m moment) float64 { return float64(len(m.idle(3600))) }),
	"quoin-idle/Idle for longest/A":              perHold("quoin:gpu_job_idle:seconds", func(m moment, h hold) (float64, bool) { return h.stretch(m), h.stretch(m) >= 60 }),
	"quoin-idle/Held and idle devices by user/A": func(m moment) []sample { return m.idle(60) },
	"quoin-idle/Idle share of held time by GPU model/A": func(m moment) []sample {
		return []sample{{labels("", map[string]string{"modelName": hour.H100}), 1 / float64(m.all().heldOf(hour.H100))}, {`{modelName="NVIDIA A100-SXM4-40GB"}`, 0}}
	},
	"quoin-idle/Device hours lost by node/A": func(m moment) []sample {
		return []sample{{`{node="n1"}`, m.increases(idleSeconds) / 3600}, {`{node="n2"}`, 0}, {`{node="n3"}`, 0}, {`{node="n4"}`, 0}}
	},
	"quoin-idle/Devices that no job holds/A":              func(m moment) []sample { return m.free() },
	"quoin-idle/Hint: jobs that may hang/A":               fixed(), // TestRealHints has rows
	"quoin-idle/Hint: GPUs far from their job/A":          fixed(),
	"quoin-idle/Hint: nodes far from their job/A":         fixed(),
	"quoin-idle/Hint: GPUs that are busy without a job/A": fixed(),
	"quoin-idle/Hint: GPU pods on nodes of Slurm/A":       fixed(),
	"quoin-idle/Jobs that wait/A": func(m moment) []sample {
		return []sample{{`{partition="gpu"}`, hour.Waiting("gpu", m.minute)}, {`{partition="large"}`, hour.Waiting("large", m.minute)}}
	},
	"quoin-idle/Nodes by Slurm's state/A": func(moment) []sample {
		var rows []sample
		for state, n := range hour.States {
			if n > 0 {
				rows = append(rows, sample{labels("", map[string]string{"state": state}), n})
			}
		}
		return rows
	},
	"quoin-idle/$cluster": fixed(sample{`{cluster="alpha"}`, 1}),
	"quoin-idle/$account": func(m moment) []sample { return m.all().values("account") },
	"quoin-idle/$user":    func(m moment) []sample { return m.all().values("user") },
	"quoin-idle/$node":    values("node", "n1", "n2", "n3", "n4"),
	"quoin-idle/$model":   values("modelName", hour.H100, "NVIDIA A100-SXM4-40GB", "NVIDIA GB200"),
}

// values expects one row for each value of a label.
func values(label string, all ...string) func(moment) []sample {
	return func(moment) []sample {
		var rows []sample
		for _, v := range all {
			rows = append(rows, sample{labels("", map[string]string{label: v}), 1})
		}
		return rows
	}
}

// all is the moment with all users and all jobs.
func (m moment) all() moment {
	m.user, m.job = "", ""
	return m
}

// values are the values of a label that jobs have at the moment.
func (m moment) values(label string) []sample {
	var found []string
	for _, h := range m.holds() {
		if v := jobLabels(h.Job)[label]; !slices.Contains(found, v) {
			found = append(found, v)
		}
	}
	return values(label, found...)(m)
}

// devices are the devices that are held, each once.
func (m moment) devices() map[hour.Place]hold {
	all := map[hour.Place]hold{}
	for _, h := range m.holds() {
		all[h.Place] = h
	}
	return all
}

func (m moment) sumHolds(value func(hold) float64) (sum float64) {
	for _, h := range m.holds() {
		sum += value(h)
	}
	return sum
}

// used is the job's part of the device's utilisation.
func (h hold) used() float64 {
	if h.silent {
		return 0
	}
	return h.share() * h.utilization()
}

// idle expects a row for each user with devices that are idle for so many seconds.
func (m moment) idle(seconds float64) []sample {
	g := groups{by: []string{"cluster", "user"}}
	for _, h := range m.holds() {
		if h.stretch(m) >= seconds {
			g.add(h, 1)
		}
	}
	return g.rows()
}

// free expects a row for each device that no job holds.
func (m moment) free() []sample {
	var rows []sample
	for n := range hour.Nodes {
		for i := range hour.Nodes[n].Devices {
			if p := (hour.Place{Node: n, Device: i}); len(hour.Holders(p, m.minute)) == 0 {
				rows = append(rows, sample{labels("quoin:gpu:info", infoLabels(p)), 1})
			}
		}
	}
	return rows
}

// heldOf is how many devices of a model are held.
func (m moment) heldOf(model string) (n int) {
	for _, d := range m.devices() {
		if d.Model == model {
			n++
		}
	}
	return n
}
