package nodeagent

import (
	"cmp"
	"os"
	"slices"
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
	key    string // of the label values
	metric prometheus.Metric
}

// jobInfo makes the series of a job, one per device.
func jobInfo(b *job, n *topology.Node) []infoSeries {
	out := make([]infoSeries, 0, len(b.devices))
	r := &b.record
	for i := range b.devices {
		d := &b.devices[i]
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
	// running says that a job holds it, and so that held grows since the snapshot.
	running bool
}

// jobSnapshot is what a scrape shows.
type jobSnapshot struct {
	at      time.Duration
	jobs    [][]infoSeries
	devices []deviceSeries
	// allocated and free count devices.
	allocated, free              int
	alive, unproven, unreadable  int
	summaries                    int
	samplesTaken, samplesMissing float64
	counts                       jobCounts
	channelMajor, imexState      string
	imex                         bool
}

// show brings the series up to what is known now.
func (j *Jobs) show(now moment) {
	n := j.report()
	if n != j.shown {
		for _, b := range j.jobs {
			b.info = nil
		}
		j.shown = n
	}
	s := &jobSnapshot{at: j.usage.at, unreadable: len(j.broken), samplesTaken: j.usage.ok, samplesMissing: j.usage.missing,
		counts: j.counts.clone(), summaries: j.countSummaries()}
	s.addJobs(j)
	s.addDevices(j, n)
	if n != nil && n.IMEX != nil {
		s.imex, s.imexState = true, n.IMEX.DaemonState
		if n.IMEX.ChannelMajor != nil {
			s.channelMajor = itoa(*n.IMEX.ChannelMajor)
		}
	}
	j.series.set(s)
}

// addJobs adds the series of the jobs of this boot. Two records of one job, of two
// slurmds of this host, name a device once.
func (s *jobSnapshot) addJobs(j *Jobs) {
	ids := make(map[string]int, len(j.jobs))
	for _, b := range j.jobs {
		ids[b.record.JobID]++
	}
	seen := make(map[string]bool)
	for _, b := range j.sorted() {
		if !j.running(b) {
			continue
		}
		if s.unproven++; b.life.proven {
			s.unproven--
			s.alive++
		}
		if b.info == nil {
			b.info = jobInfo(b, j.shown)
		}
		info := b.info
		if ids[b.record.JobID] > 1 || len(b.devices) > len(b.names) {
			info = slices.DeleteFunc(slices.Clone(info), func(i infoSeries) bool {
				twice := seen[i.key]
				seen[i.key] = true
				return twice
			})
		}
		s.jobs = append(s.jobs, info)
	}
}

// addDevices adds the devices of the inventory, and those that are held and not
// in it.
func (s *jobSnapshot) addDevices(j *Jobs, n *topology.Node) {
	seen := make(map[string]bool)
	add := func(d *device, known bool) {
		uuid, gpu, instance := d.labels()
		labels := [3]string{uuid, gpu, instance}
		if id := strings.Join(labels[:], "\x00"); uuid == "" || seen[id] {
			return
		} else {
			seen[id] = true
		}
		out := deviceSeries{labels: labels, info: [3]string{productOf(n, d), cliqueOf(n, d), nodeName(n, j.inventory.of)}}
		if h := j.usage.devices[d.entry.UUID]; h != nil {
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
	if inv := j.inventory.of; inv != nil {
		for i := range inv.Entries {
			add(&device{inv.Entries[i]}, true)
		}
	}
	for _, b := range j.sorted() {
		for i := range b.devices {
			if j.running(b) {
				add(&b.devices[i], false)
			}
		}
	}
	slices.SortFunc(s.devices, func(a, b deviceSeries) int {
		return cmp.Or(strings.Compare(a.labels[1], b.labels[1]), strings.Compare(a.labels[2], b.labels[2]), strings.Compare(a.labels[0], b.labels[0]))
	})
}

// nodeName is what the node is called in its report, and so in the series of the
// publisher.
func nodeName(n *topology.Node, inv *rundir.Inventory) string {
	switch {
	case n != nil:
		return n.Name
	case inv != nil:
		return inv.Node
	}
	return ""
}

// countSummaries counts the summaries of jobs when their folder has changed.
func (j *Jobs) countSummaries() int {
	dir := rundir.SummaryDir(j.config.RunDir)
	info, err := os.Stat(dir)
	if err != nil {
		return 0
	}
	if stamp := stampOf(info); stamp != j.summaryStamp {
		j.summaryStamp, j.summaries = stamp, 0
		entries, _ := os.ReadDir(dir) // read again when it changes
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".") {
				j.summaries++
			}
		}
	}
	return j.summaries
}
