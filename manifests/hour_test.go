package manifests_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/testdata/exporter"
)

// The scripted hour: what four nodes do from minute 0 to 60. All of it is known, so
// the answer of every rule and dashboard is known too.

const (
	gib  = 1 << 30
	h100 = "NVIDIA H100 80GB HBM3"
	// cliqueA and cliqueB are two cliques of one NVLink domain.
	cliqueA = "3a7c0e52-93a4-4d29-8f51-9d3f1a6b7c01.1"
	cliqueB = "3a7c0e52-93a4-4d29-8f51-9d3f1a6b7c01.2"
)

// node is one node, its exporter and its agent.
type node struct {
	name          string
	since49       bool // its exporter's generation
	label         bool // the scrape of its agent has the label node
	clique, block string
	health        string
	imex          string
	devices       []device
}

// device is a GPU or MIG instance; how it is used while a job holds it, and when
// none does.
type device struct {
	exporter.Device
	held, free exporter.Use
}

// job is a job, from its first minute up to its last.
type job struct {
	id, user, account, partition, array, name string
	from, to                                  int
	holds                                     []place
}

// place is a device: the node and its place among the node's.
type place struct{ node, device int }

var (
	resting = exporter.Use{Size: 80 * gib, Reserved: gib / 2, Watts: 70, Limit: 700, Celsius: 30, MemoryCelsius: 35, Hertz: 345e6}
	nodes   = []node{
		{name: "n1", label: true, clique: cliqueA, block: "b1", health: "healthy", imex: "READY", devices: []device{
			h100Device(1, 0, 0.5, 40, 350), h100Device(1, 1, 0, 0, 70), h100Device(1, 2, 0.75, 60, 525), h100Device(1, 3, 1, 20, 700)}},
		{name: "n2", since49: true, clique: cliqueB, block: "b2", health: "healthy", imex: "READY", devices: []device{
			h100Device(2, 0, 1, 20, 700), h100Device(2, 1, 0.5, 10, 350), h100Device(2, 2, 0, 0, 70), h100Device(2, 3, 0, 0, 70)}},
		{name: "n3", since49: true, health: "", devices: []device{migDevice(1, 0.25), migDevice(2, 0.5)}},
		{name: "n4", since49: true, clique: cliqueB, block: "b2", health: "unhealthy", imex: "UNAVAILABLE", devices: []device{gb200Device(0, 0), gb200Device(1, 48)}},
	}
	jobs = []job{
		{id: "101", user: "alice", account: "physics", partition: "gpu", to: 61, holds: []place{{0, 0}}}, // shares its GPU
		{id: "102", user: "bob", account: "biology", partition: "gpu", to: 61, holds: []place{{0, 0}}},
		{id: "103", user: "carol", account: "physics", partition: "gpu", name: "sleeps", to: 61, holds: []place{{0, 1}}},
		{id: "104", user: "dave", account: "chemistry", partition: "gpu", to: 61, holds: []place{{0, 2}}},
		{id: "106", array: "105", user: "erin", account: "chemistry", partition: "large", to: 61, holds: []place{{0, 3}, {1, 0}}}, // straddles
		{id: "107", user: "bob", account: "biology", partition: "gpu", to: 30, holds: []place{{1, 1}}},                            // ends halfway
		{id: "108", user: "alice", account: "physics", partition: "mig", to: 61, holds: []place{{2, 0}}},
		{id: "109", user: "bob", account: "biology", partition: "mig", to: 61, holds: []place{{2, 1}}},
	}
)

func h100Device(n, gpu int, utilization, used, watts float64) device {
	held := resting
	held.Utilization, held.Engine, held.SM, held.Tensor, held.DRAM = utilization, utilization, utilization/2, utilization/4, utilization/8
	held.Used, held.Watts = used*gib, watts
	held.NVLink, held.PCIeTX, held.PCIeRX = utilization*1e9, utilization*2e9, utilization*4e9
	held.Celsius, held.MemoryCelsius, held.Hertz = 30+utilization*40, 35+utilization*40, 1980e6
	return device{exporter.Device{GPU: gpu, UUID: fmt.Sprintf("GPU-%d%d000000-1111-4222-8333-444455556666", n, gpu), Model: h100}, held, resting}
}

// migDevice is an instance of n3's only GPU, which draws 200 W in all.
func migDevice(instance int, engine float64) device {
	use := exporter.Use{Engine: engine, SM: engine / 2, Used: 5 * gib, Size: 20 * gib, Watts: 200, Limit: 400, Celsius: 40, MemoryCelsius: 45, Hertz: 1410e6}
	return device{exporter.Device{UUID: "GPU-30000000-1111-4222-8333-444455556666", Model: "NVIDIA A100-SXM4-40GB", Profile: "3g.20gb", Instance: instance}, use, use}
}

// gb200Device is one whose exporter tells no power limit.
func gb200Device(gpu, xid int) device {
	use := exporter.Use{Size: 186 * gib, Watts: 150, Celsius: 30, MemoryCelsius: 30, Hertz: 345e6, Xid: xid, RowRemapFailed: xid != 0}
	return device{exporter.Device{GPU: gpu, UUID: fmt.Sprintf("GPU-4%d000000-1111-4222-8333-444455556666", gpu), Model: "NVIDIA GB200"}, use, use}
}

// exporterID is the device's name in the mapping.
func (d *device) exporterID() string {
	if d.Profile != "" {
		return fmt.Sprintf("%d.%d", d.GPU, d.Instance)
	}
	return fmt.Sprint(d.GPU)
}

// holders returns the jobs that hold a device at a minute.
func holders(p place, minute int) []*job {
	var found []*job
	for i := range jobs {
		j := &jobs[i]
		for _, h := range j.holds {
			if h == p && j.from <= minute && minute < j.to {
				found = append(found, j)
			}
		}
	}
	return found
}

// at returns the device's use at a minute, with the energy since minute 0.
func (d *device) at(p place, minute int) exporter.Use {
	energy, use := 1e6, d.free
	for m := 0; m <= minute; m++ {
		use = d.free
		if len(holders(p, m)) > 0 {
			use = d.held
		}
		if m > 0 {
			energy += 60 * use.Watts
		}
	}
	use.Joules = energy
	return use
}

// text is a target's exposition at a minute.
type text struct {
	labels string // of the target
	body   string
}

// hour plays the script; each node's exporter reads a job mapping directory that
// the hook's own code keeps.
type hour struct {
	mappings []dcgm.Mapping
	counters map[bool]string // by since49
}

func newHour(t *testing.T) *hour {
	t.Helper()
	h := &hour{counters: map[bool]string{}}
	for since49, name := range map[bool]string{false: "dcgm/counters-before-4.9.csv", true: "dcgm/counters-4.9.csv"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		h.counters[since49] = string(data)
	}
	for range nodes {
		h.mappings = append(h.mappings, dcgm.Mapping{Dir: filepath.Join(t.TempDir(), "job-mapping")})
		if err := os.Mkdir(h.mappings[len(h.mappings)-1].Dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// at starts and ends the minute's jobs and returns what all targets print then.
func (h *hour) at(t *testing.T, minute int) []text {
	t.Helper()
	for i := range jobs {
		j := &jobs[i]
		for _, p := range j.holds {
			id := []string{nodes[p.node].devices[p.device].exporterID()}
			var err error
			switch minute {
			case j.from:
				err = h.mappings[p.node].Add(j.id, id)
			case j.to:
				err = h.mappings[p.node].Remove(j.id, id)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	texts := []text{{`instance="pub-0",job="quoin-publisher"`, publisherText(1)}, {`instance="pub-1",job="quoin-publisher"`, publisherText(0)}}
	for i := range nodes {
		agent := fmt.Sprintf(`instance="10.0.0.%d:9835",job="quoin-agent"`, i+1)
		if nodes[i].label {
			agent += fmt.Sprintf(`,node="%s"`, nodes[i].name)
		}
		texts = append(texts, text{fmt.Sprintf(`instance="10.0.0.%d:9400",job="dcgm-exporter"`, i+1), h.exporterText(t, i, minute)},
			text{agent, agentText(i, minute)})
	}
	return texts
}

func (h *hour) exporterText(t *testing.T, n, minute int) string {
	t.Helper()
	x := exporter.Exporter{Since49: nodes[n].since49, Hostname: nodes[n].name, Driver: "580.95.05", Mapping: h.mappings[n].Dir, Counters: h.counters[nodes[n].since49]}
	var devices []exporter.Device
	for i := range nodes[n].devices {
		d := nodes[n].devices[i].Device
		d.Use = nodes[n].devices[i].at(place{n, i}, minute)
		devices = append(devices, d)
	}
	var out bytes.Buffer
	if err := x.Write(&out, devices); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// node's word for a device that the fabric knows nothing of.
func (n *node) fabric() string {
	return cmp.Or(map[bool]string{true: "completed"}[n.clique != ""], "notSupported")
}
