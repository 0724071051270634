package jobs

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// jobLabels are the labels of quoin_gpu_job_info.
var jobLabels = []string{"UUID", "gpu", "GPU_I_ID", "job_id", "array_job_id", "job_name", "user", "partition", "account", "cluster", "clique"}

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
		uuid, gpu, instance := d.labels()
		values := validLabels(uuid, gpu, instance, r.JobID, r.ArrayJobID, r.JobName, r.User, r.Partition, r.Account, r.Cluster, cliqueOf(n, d))
		out = append(out, infoSeries{strings.Join(values, "\x00"), seriesJobInfo.metric(1, values...)})
	}
	return out
}

// validLabels replaces what is no UTF-8: client_golang panics on it.
func validLabels(values ...string) []string {
	for i := range values {
		values[i] = strings.ToValidUTF8(values[i], "\uFFFD")
	}
	return values
}

// deviceSeries are what is counted of one device.
type deviceSeries struct {
	// labels are UUID, gpu and GPU_I_ID, info modelName, clique and node.
	labels, info        [3]string
	held, idle, stretch time.Duration
	// running says that a job holds the device: then held grows since the snapshot.
	running bool
}

// snapshot is what a scrape shows.
type snapshot struct {
	at      time.Duration
	jobs    [][]infoSeries
	devices []deviceSeries
	// allocated and free count devices.
	allocated, free              int
	alive, unproven, unreadable  int
	summaries                    int
	samplesTaken, samplesMissing float64
	counts                       counts
	channelMajor, imexState      string
	imex                         bool
}

// show brings the series up to what is known now.
func (r *Registry) show() {
	n := r.node
	s := &snapshot{at: r.usage.at, unreadable: len(r.records.broken), samplesTaken: r.usage.ok, samplesMissing: r.usage.missing,
		counts: r.counts.clone(), summaries: r.summaries.count()}
	s.addJobs(&r.records, n)
	s.addDevices(&r.records, &r.usage, n)
	if n != nil && n.IMEX != nil {
		s.imex, s.imexState = true, n.IMEX.DaemonState
		if n.IMEX.ChannelMajor != nil {
			s.channelMajor = strconv.Itoa(*n.IMEX.ChannelMajor)
		}
	}
	r.series.set(s)
}

// addJobs adds the series of the jobs of this boot. Two records of one job, of two
// slurmds of this host, name a device once.
func (s *snapshot) addJobs(r *records, n *topology.Node) {
	ids := make(map[string]int, len(r.jobs))
	for _, j := range r.jobs {
		ids[j.record.JobID]++
	}
	seen := make(map[string]bool)
	for _, j := range r.sorted() {
		if !r.running(j) {
			continue
		}
		if j.life.Proven {
			s.alive++
		} else {
			s.unproven++
		}
		if j.info == nil || j.infoOf != n {
			j.info, j.infoOf = jobInfo(j, n), n
		}
		info := j.info
		if ids[j.record.JobID] > 1 || len(j.devices) > len(j.names) {
			info = slices.DeleteFunc(slices.Clone(info), func(i infoSeries) bool {
				twice := seen[i.key]
				seen[i.key] = true
				return twice
			})
		}
		s.jobs = append(s.jobs, info)
	}
}

// addDevices adds the devices of the inventory, and those that are held and not in
// it.
func (s *snapshot) addDevices(r *records, u *deviceUsage, n *topology.Node) {
	node := nodeName(n, r.inventory.of)
	seen := make(map[[3]string]bool)
	add := func(d *device, known bool) {
		uuid, gpu, instance := d.labels()
		labels := [3]string{uuid, gpu, instance}
		if uuid == "" || seen[labels] {
			return
		}
		seen[labels] = true
		out := deviceSeries{labels: labels, info: [3]string{productOf(n, d), cliqueOf(n, d), node}}
		if h := u.devices[d.entry.UUID]; h != nil {
			out.held, out.idle, out.stretch, out.running = h.held, h.idle, h.stretch(), len(h.runs) > 0
		}
		s.devices = append(s.devices, out)
		switch {
		case out.running:
			s.allocated++
		case known:
			s.free++
		}
	}
	if inv := r.inventory.of; inv != nil {
		for i := range inv.Entries {
			add(&device{inv.Entries[i]}, true)
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

// nodeName is the node's name in its report. The publisher's series have the same
// name.
func nodeName(n *topology.Node, inv *rundir.Inventory) string {
	switch {
	case n != nil:
		return n.Name
	case inv != nil:
		return inv.Node
	}
	return ""
}

// summaryCount counts the summaries of jobs.
type summaryCount struct {
	dir   string
	stamp fileStamp
	n     int
}

// count counts the summaries if their folder has changed.
func (c *summaryCount) count() int {
	info, err := os.Stat(c.dir)
	if err != nil {
		return 0
	}
	if stamp := stampOf(info); stamp != c.stamp {
		c.stamp, c.n = stamp, 0
		entries, _ := os.ReadDir(c.dir) // read again when it changes
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".") {
				c.n++
			}
		}
	}
	return c.n
}
