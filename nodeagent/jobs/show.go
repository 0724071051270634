package jobs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// jobLabels are the labels of quoin_gpu_job_info.
var jobLabels = []string{"UUID", "gpu", "GPU_I_ID", "job_id", "user", "partition", "account", "qos", "cluster", "clique"}

// infoSeries is a series of quoin_gpu_job_info. The metric is made once, because a
// node may have thousands of these series and they seldom change.
type infoSeries struct {
	key    string // the label values
	metric prometheus.Metric
}

// jobInfo makes the series of a job, one per device.
func jobInfo(j *job, n *topology.Node) []infoSeries {
	out := make([]infoSeries, 0, len(j.devices))
	r := &j.record
	for i := range j.devices {
		d := &j.devices[i]
		l := labelsOf(d)
		values := []string{l[0], l[1], l[2], r.JobID, r.User, r.Partition, r.Account, r.QOS, r.Cluster, cliqueOf(n, d)}
		for k := range values { // client_golang panics on what is no UTF-8
			values[k] = strings.ToValidUTF8(values[k], "\uFFFD")
		}
		out = append(out, infoSeries{strings.Join(values, "\x00"), seriesJobInfo.metric(1, values...)})
	}
	return out
}

// deviceSeries are what is counted of one device.
type deviceSeries struct {
	// labels are UUID, gpu and GPU_I_ID, info modelName, clique and node.
	labels, info [3]string
	account
	// stretch is for how many seconds the device has been idle.
	stretch float64
	// unowned is the memory of programs without a job, nil if a job holds the device or if it is
	// not known.
	unowned *uint64
}

// snapshot is what a scrape shows of jobs and devices.
type snapshot struct {
	jobs    [][]infoSeries
	devices []deviceSeries
	// allocated, free and lost count devices.
	allocated, free, lost   int
	channelMajor, imexState string
	imex                    bool
	// unowned are the devices with much memory of programs without a job.
	unowned []rundir.Unowned
}

// show brings the series up to what is known now.
func (r *Registry) show() {
	n := r.node
	s := &snapshot{}
	alive, unproven := s.addJobs(&r.records, n)
	r.series.agent.setRecords(alive, unproven, len(r.records.broken))
	s.addDevices(&r.records, &r.usage, &r.programs, n)
	if n != nil && n.IMEX != nil {
		s.imex, s.imexState = true, n.IMEX.DaemonState
		if n.IMEX.ChannelMajor != nil {
			s.channelMajor = strconv.Itoa(*n.IMEX.ChannelMajor)
		}
	}
	r.series.held.last.Store(s)
	if !r.told || !slices.Equal(s.unowned, r.unowned) {
		err := r.config.RunDir.WriteUnowned(s.unowned)
		r.log.Note("memory without a job", err)
		r.told, r.unowned = err == nil, s.unowned
	}
}

// addJobs adds the series of the jobs of this boot. Two records of one job, of two
// slurmds of this host, name a device once. addJobs counts the jobs with a
// live step, and the jobs without one.
func (s *snapshot) addJobs(r *records, n *topology.Node) (alive, unproven int) {
	ids, seen := r.ids(), make(map[string]bool)
	for _, j := range r.sorted() {
		if !r.running(j) {
			continue
		}
		if j.life.Proven {
			alive++
		} else {
			unproven++
		}
		if j.info == nil || j.infoOf != n {
			j.info, j.infoOf = jobInfo(j, n), n
		}
		info := j.info
		if ids[j.record.JobID] > 1 || len(j.devices) > len(j.now.GPUs) {
			info = slices.DeleteFunc(slices.Clone(info), func(i infoSeries) bool {
				twice := seen[i.key]
				seen[i.key] = true
				return twice
			})
		}
		s.jobs = append(s.jobs, info)
	}
	return alive, unproven
}

// addDevices adds the devices of the inventory, and held devices that the inventory lacks.
func (s *snapshot) addDevices(r *records, u *deviceUsage, p *programs, n *topology.Node) {
	var node string // as in the publisher's series
	if n != nil {
		node = n.Name
	} else if r.inventory.of != nil {
		node = r.inventory.of.Node
	}
	seen, held, claimed, stretches := make(map[[3]string]bool), r.held(), r.claimed(), r.stretches()
	add := func(d *rundir.Entry, known bool) {
		labels := labelsOf(d)
		if labels[0] == "" || seen[labels] {
			return
		}
		seen[labels] = true
		out := deviceSeries{labels, [3]string{productOf(n, d), cliqueOf(n, d), node}, u.accounts[d.UUID], stretches[d.UUID], nil}
		if !claimed[d.UUID] {
			out.unowned = p.unowned(d.UUID)
		}
		s.devices = append(s.devices, out)
		if m := out.unowned; m != nil && *m >= topology.MuchMemory {
			s.unowned = append(s.unowned, rundir.Unowned{UUID: d.UUID, GiB: *m >> 30})
		}
		switch {
		case held[d.UUID]:
			s.allocated++
		case d.Lost:
			s.lost++
		case known:
			s.free++
		}
	}
	if inv := r.inventory.of; inv != nil {
		for i := range inv.Entries {
			if e := &inv.Entries[i]; e.UUID != "" {
				add(e, true)
			} else {
				s.lost++ // it was never read
			}
		}
	}
	for _, j := range r.sorted() {
		for i := range j.devices {
			if r.running(j) {
				add(&j.devices[i], false)
			}
		}
	}
	slices.SortFunc(s.devices, func(a, b deviceSeries) int {
		return cmp.Or(strings.Compare(a.labels[1], b.labels[1]), strings.Compare(a.labels[2], b.labels[2]), strings.Compare(a.labels[0], b.labels[0]))
	})
}

// stretches are for how many seconds devices have been idle, by UUID. A device that one of its
// jobs has used is not idle.
func (r *records) stretches() map[string]float64 {
	stretches := make(map[string]float64)
	for _, j := range r.jobs {
		if j.use == nil || !r.running(j) {
			continue
		}
		for i := range j.use.Devices {
			d := &j.use.Devices[i]
			if d.Released || d.Samples == 0 {
				continue
			}
			if old, shared := stretches[d.UUID]; shared && (old == 0 || d.IdleStretch == 0) {
				stretches[d.UUID] = 0
			} else {
				stretches[d.UUID] = max(old, d.IdleStretch)
			}
		}
	}
	return stretches
}
