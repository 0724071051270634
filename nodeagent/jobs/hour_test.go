package jobs

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/hour"
	"github.com/quoin-hpc/quoin/topology"
)

// TestJobsHour plays the scripted hour on the real registry of each node, with
// records and lines as the hook leaves them, and samples as the probe gives them:
// at every minute it prints what the hour's rules and dashboards are tested with.
func TestJobsHour(t *testing.T) {
	for n := range hour.Nodes {
		t.Run(hour.Nodes[n].Name, func(t *testing.T) {
			t.Parallel()
			p := newHourPlay(t, n)
			for minute := range 61 {
				got := p.at(minute)
				want := hour.SeriesOf(hour.AgentText(n, minute))
				for name := range want { // what the registry does not count by the minute, or what is not its own
					if strings.HasPrefix(name, "quoin_agent_imex_ready") || strings.HasPrefix(name, "quoin_agent_sweeps_total") || strings.HasPrefix(name, "quoin_agent_report_") || strings.HasPrefix(name, "quoin_agent_probe_") ||
						strings.HasPrefix(name, "quoin_agent_gpus") || strings.HasPrefix(name, "quoin_agent_fabric_") || strings.HasPrefix(name, "quoin_agent_problems") {
						delete(want, name)
					}
				}
				for name := range got {
					if _, ok := want[name]; !ok && !isOfHour(name) {
						delete(got, name)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("minute %d (-script +registry):\n%s", minute, diff)
				}
			}
		})
	}
}

// isOfHour says whether the script would have the series if it were there: all of
// jobs and devices.
func isOfHour(name string) bool {
	return strings.HasPrefix(name, "quoin_gpu") || strings.HasPrefix(name, "quoin_agent_mapping_files") || strings.HasPrefix(name, "quoin_agent_job_records") || strings.HasPrefix(name, "quoin_agent_imex_info")
}

// hourPlay is a registry on one node of the hour.
type hourPlay struct {
	*jobsRig
	index   int
	node    *hour.Node
	metrics *prometheus.Registry
}

func newHourPlay(t *testing.T, index int) *hourPlay {
	t.Helper()
	p := &hourPlay{jobsRig: newFolders(t), index: index, node: &hour.Nodes[index], metrics: prometheus.NewRegistry()}
	p.boot = hour.Boot
	p.must(rundir.Dir(p.run).WriteInventory(p.inventoryOf()))
	p.j = New(Config{RunDir: rundir.Dir(p.run), Labels: dcgm.Mapping{Dir: p.maps}, Kept: dcgm.Mapping{Dir: p.maps}.Folder(), BootID: p.boot, Proc: p.Proc, SampleEvery: time.Minute}, slog.New(slog.DiscardHandler))
	p.j.clock = func() moment { return p.now }
	p.j.node = p.node.Report()
	p.j.recall()
	p.metrics.MustRegister(p.j.Collector())
	return p
}

func (p *hourPlay) inventoryOf() rundir.Inventory {
	inv := rundir.Inventory{Node: p.node.Name, BootID: hour.Boot}
	for i := range p.node.Devices {
		d := &p.node.Devices[i]
		e := rundir.Entry{GRESIndex: i, Minor: d.GPU, UUID: d.OwnUUID(), Product: d.Model, ExporterID: d.ExporterID()}
		if !d.Whole() {
			e.GPUUUID = d.UUID
		}
		inv.Entries = append(inv.Entries, e)
	}
	return inv
}

// at lets a minute pass, ends and starts its jobs, takes a sample and returns what
// is printed then.
func (p *hourPlay) at(minute int) map[string]float64 {
	p.t.Helper()
	call := rundir.Call{Hook: "prolog", Job: "1", Start: p.now.wall.UnixNano(), Ns: int64(hour.HookTook * 1e9)}
	if p.node.HookFails(minute) {
		call.Error = rundir.CallLock
	}
	result, waited := p.node.Gate(minute)
	call.Gate, call.GateNs = result, int64(waited*1e9)
	p.must(rundir.Dir(p.run).AppendCall(call))
	// The log of calls is put aside, and read at the next look, when no hook can be
	// writing it.
	for _, d := range []time.Duration{57 * time.Second, 2 * time.Second} {
		p.pass(d)
		p.j.round(p.t.Context())
	}
	p.pass(time.Second)
	for i := range hour.Jobs {
		var names, uuids []string
		for _, place := range hour.Jobs[i].Holds {
			if place.Node == p.index {
				d := &p.node.Devices[place.Device]
				names, uuids = append(names, d.ExporterID()), append(uuids, d.OwnUUID())
			}
		}
		if len(names) > 0 {
			p.change(&hour.Jobs[i], names, uuids, minute)
		}
	}
	p.j.round(p.t.Context())
	p.j.count(p.sample(minute), p.now)
	return hour.SeriesOf(scrape(p.t, promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{})))
}

// pass lets time pass.
func (p *hourPlay) pass(d time.Duration) {
	p.now = moment{p.now.wall.Add(d), p.now.up + d}
}

// change starts or ends a job as its hooks do, with the devices that it holds here.
func (p *hourPlay) change(j *hour.Job, names, uuids []string, minute int) {
	p.t.Helper()
	rec := rundir.Record{JobID: j.ID, Run: rundir.Run{StartTime: "100"}, BootID: hour.Boot, Node: p.node.Name, NodeList: "n[1-2]", Cluster: hour.Cluster,
		User: j.User, Account: j.Account, QOS: j.QOS, Partition: j.Partition,
		EndTime: fmt.Sprint(p.now.wall.Add(9 * time.Hour).Unix()), GPUs: names, UUIDs: uuids}
	mapping := dcgm.Mapping{Dir: p.maps}
	switch minute {
	case j.From:
		p.Step(j.ID + ".extern")
		p.write(j.ID, rec)
		p.must(mapping.Set(j.ID, rec.GPUs))
	case j.To:
		p.StepEnds(j.ID + ".extern")
		p.must(mapping.Clear(j.ID, rec.GPUs))
		p.must(rundir.Dir(p.run).RemoveRecord(j.ID))
		p.must(rundir.CopySummary(rundir.Dir(p.run).SummaryDir(), rundir.Summary{Key: j.ID, Record: rec}))
	}
}

// sample is how the held devices are used.
func (p *hourPlay) sample(minute int) topology.Sample {
	var s topology.Sample
	for i := range p.node.Devices {
		d := &p.node.Devices[i]
		if len(hour.Holders(hour.Place{Node: p.index, Device: i}, minute)) == 0 {
			continue
		}
		processes, utilization := 1, d.Held.Utilization
		if d.Idle() {
			processes = 0
		}
		use := topology.DeviceUse{UUID: d.OwnUUID(), Processes: &processes}
		if d.Whole() {
			use.Utilization = &utilization
		}
		s.Devices = append(s.Devices, use)
	}
	return s
}
