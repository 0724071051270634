package nodeagent

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/test/rig/sysfs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/adapters"
)

// machineOf is a machine whose adapters an agent reads by hand.
type machineOf struct {
	t     *testing.T
	tree  sysfs.Tree
	agent *Agent
	store *memory
	log   strings.Builder
	said  string // by the last reading
}

// adapterMachine returns a machine. Its agent starts with what store has.
func adapterMachine(t *testing.T, tree sysfs.Tree, lldp string, store *memory) *machineOf {
	t.Helper()
	m := &machineOf{t: t, tree: tree, store: store}
	m.agent = New(Config{Node: "n1", Adapters: adapters.New(string(tree), lldp)}, store, nil, NewMetrics(prometheus.NewRegistry()),
		slog.New(slog.NewTextHandler(&m.log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	return m
}

// report has the probe report in a boot.
func (m *machineOf) report(boot string) {
	m.t.Helper()
	m.agent.hear(event(m.t, strings.Replace(goodLine, `"node":"n1"`, `"node":"n1","bootID":"`+boot+`"`, 1)))
}

// read reads the adapters, and stores the report if it has changed.
func (m *machineOf) read() {
	m.t.Helper()
	reading, err := m.agent.config.Adapters.Read()
	m.log.Reset()
	m.agent.onAdapters(adapterAnswer{reading, err})
	m.agent.publish()
	m.said = m.log.String()
	if err := m.agent.syncNow(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// stored returns the stored report.
func (m *machineOf) stored() *topology.Node {
	m.t.Helper()
	n, err := topology.ParseReport("stored", m.store.report)
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// TestFlappingPort lets ports flap and fail, an adapter go and come back, and LLDP fall
// silent, again and again: the report is written once.
func TestFlappingPort(t *testing.T) {
	s := sysfs.DGXH100()
	tree := sysfs.Make(t, s)
	lldp := filepath.Join(t.TempDir(), "lldp.json")
	texts := []string{`{"lldp":{"interface":{"enp38s0f1np1":{"via":"LLDP","chassis":{"leaf-1":{"id":{"value":"1c:34:da:00:00:01"}}},"port":{"id":{"value":"swp1"}}}}}}`, `{"lldp":{}}`, `{"ll`}
	write := func(text string) {
		if err := os.WriteFile(lldp, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(texts[0])
	m := adapterMachine(t, tree, lldp, &memory{})
	m.report("b")
	m.read()
	want := m.stored()
	if len(want.Adapters) != 12 || want.Adapters[2].Ports[0].Neighbor.SystemName != "leaf-1" || want.Adapters[0].Ports[0].RateGbps != 400 {
		t.Fatalf("%+v", want.Adapters)
	}
	changes := []func(){
		func() { tree.Set(t, &s.Adapters[0], 1, "400 DOWN") },
		func() { tree.Set(t, &s.Adapters[0], 1, "400 INIT") },
		func() { tree.Set(t, &s.Adapters[0], 1, "400 ACTIVE") },
		func() { tree.Set(t, &s.Adapters[2], 1, "200 DOWN"); write(texts[1]) },
		func() { write(texts[2]) },
		func() { tree.Set(t, &s.Adapters[2], 1, "200 ACTIVE"); write(texts[0]) },
		func() {
			tree.Remove(t, "class/infiniband/mlx5_3")
			tree.Remove(t, tree.Home(&s.Adapters[3])+"/node_guid")
		},
		func() {
			if err := os.Symlink("../../"+tree.Home(&s.Adapters[3]), filepath.Join(string(tree), "class/infiniband/mlx5_3")); err != nil {
				t.Fatal(err)
			}
		},
		func() { tree.Remove(t, "bus/pci/drivers/nvidia") },
		func() { tree.Remove(t, "devices/pci0000:25/0000:25:01.0/0000:26:00.1/net/enp38s0f1np1") },
	}
	for i := range 220 {
		changes[i%len(changes)]()
		if i%len(changes) == 6 {
			m.report("b") // NVML says the same again
		}
		m.read()
		if m.store.puts != 1 {
			t.Fatalf("%d writes after change %d (-want +got)\n%s", m.store.puts, i%len(changes), cmp.Diff(want, m.stored()))
		}
	}
}

// TestSlowLink has a link that trains low, at first or after a cable was put in again: the report says so
// until the link has the rate of the others. While the link is down, the report stays.
func TestSlowLink(t *testing.T) {
	s := sysfs.HGXB200()
	tree := sysfs.Make(t, s)
	m := adapterMachine(t, tree, "", &memory{})
	m.report("b")
	slow := topology.Finding{Reason: topology.ReasonAdapterSlow, Message: "the link of mlx5_5 port 1 has 200 Gb/s; other ports of its model have 400 Gb/s"}
	for i, step := range []struct {
		state  string
		slow   bool
		writes int
	}{
		{"200 ACTIVE", true, 1}, {"400 ACTIVE", false, 2}, {"200 ACTIVE", true, 3},
		{"200 DOWN", true, 3}, {"200 ACTIVE", true, 3}, {"400 DOWN", true, 3}, {"400 ACTIVE", false, 4},
	} {
		tree.Set(t, &s.Adapters[5], 1, step.state)
		m.read()
		n := m.stored()
		if slices.Contains(n.Problems, slow) != step.slow || m.store.puts != step.writes {
			t.Errorf("step %d, %s: %d writes, want %d; problems %v", i, step.state, m.store.puts, step.writes, n.Problems)
		}
		if rate := n.Adapters[5].Ports[0].RateGbps; i > 0 && rate != 400 {
			t.Errorf("step %d, %s: the highest rate is %d", i, step.state, rate)
		}
	}
}

// TestAdaptersOverRestarts starts an agent again in the same boot and in another.
func TestAdaptersOverRestarts(t *testing.T) {
	s := sysfs.BondedEthernet()
	tree := sysfs.Make(t, s)
	lldp := filepath.Join(t.TempDir(), "lldp.json")
	if err := os.WriteFile(lldp, []byte(`{"lldp":{"interface":{"enp38s0np0":{"via":"LLDP","chassis":{"id":{"value":"1c:34:da:00:00:01"}},"port":{"id":{"value":"swp1"}}}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	store := &memory{}
	m := adapterMachine(t, tree, lldp, store)
	m.report("b")
	m.read()
	first := m.stored()

	// The same boot: all links are down now, an adapter is dead, and lldpd is off.
	for i := range s.Adapters {
		tree.Set(t, &s.Adapters[i], 1, "400 DOWN")
	}
	tree.Remove(t, "class/infiniband/mlx5_bond_0")
	_ = os.Remove(lldp)
	m = adapterMachine(t, tree, lldp, store)
	m.report("b")
	m.read()
	if diff := cmp.Diff(first, m.stored()); diff != "" || store.puts != 1 {
		t.Errorf("%d writes after a restart (-want +got)\n%s", store.puts, diff)
	}
	if !strings.Contains(m.said, "no such file") {
		t.Errorf("a file that is not there: said %q", m.said)
	}

	// The same boot, and the first report comes before the adapters are read.
	m = adapterMachine(t, tree, lldp, store)
	m.report("b")
	if err := m.agent.syncNow(t.Context()); err != nil || store.puts != 1 {
		t.Errorf("%d writes before the adapters are read (%v)", store.puts, err)
	}

	// Another boot: what was seen before it does not count, but for the neighbor.
	m = adapterMachine(t, tree, lldp, store)
	m.report("c")
	m.read()
	want := slices.Clone(first.Adapters[1:])
	for i := range want {
		want[i].Ports = slices.Clone(want[i].Ports)
		want[i].Ports[0].RateGbps = 0
	}
	if got := m.stored().Adapters; cmp.Diff(want, got) != "" || got[0].Ports[0].Neighbor.PortID != "swp1" {
		t.Errorf("after a boot (-want +got)\n%s", cmp.Diff(want, got))
	}
}

// TestUnreadableAdapter has an adapter that does not say its GUID, and comes and goes.
func TestUnreadableAdapter(t *testing.T) {
	s := sysfs.GB200()
	tree := sysfs.Make(t, s)
	a := &s.Adapters[2]
	guid := tree.Home(a) + "/node_guid"
	link := filepath.Join(string(tree), "class/infiniband/mlx5_2")
	broken := func() { tree.Remove(t, guid); tree.Write(t, guid+"/x", "") }
	broken()
	m := adapterMachine(t, tree, "", &memory{})
	m.report("b")
	m.read()
	want := topology.Finding{Reason: topology.ReasonFactUnreadable, Message: "node GUID of mlx5_2: is a directory"}
	if got := m.stored().Problems; !slices.Contains(got, want) {
		t.Fatalf("problems %v", got)
	}
	for range 5 {
		tree.Remove(t, "class/infiniband/mlx5_2")
		m.read()
		if err := os.Symlink("../../"+tree.Home(a), link); err != nil {
			t.Fatal(err)
		}
		tree.Remove(t, guid)
		m.read()
		broken()
		m.read()
	}
	if m.store.puts != 1 {
		t.Errorf("%d writes while it comes and goes", m.store.puts)
	}
	tree.Remove(t, guid)
	tree.Write(t, guid, "946d:ae03:0000:3002")
	for range 3 {
		m.read()
		broken() // it was read once in this boot
	}
	if got := m.stored(); slices.Contains(got.Problems, want) || m.store.puts != 2 || got.Adapters[2].NodeGUID != "946dae0300003002" {
		t.Errorf("%d writes, problems %v, adapter %+v", m.store.puts, got.Problems, got.Adapters[2])
	}
}

// TestAdaptersThatCannotBeListed has a container without the machine's sysfs: nothing is known of
// adapters, and the report says so until they are read.
func TestAdaptersThatCannotBeListed(t *testing.T) {
	tree := sysfs.Tree(t.TempDir())
	m := adapterMachine(t, tree, "", &memory{})
	m.report("b")
	for range 3 {
		m.read()
	}
	problem := func() bool {
		return slices.ContainsFunc(m.stored().Problems, func(p topology.Finding) bool {
			return p.Reason == topology.ReasonFactUnreadable && strings.HasPrefix(p.Message, "list network adapters: ")
		})
	}
	if !problem() || m.store.puts != 1 {
		t.Errorf("%d writes, problems %v", m.store.puts, m.stored().Problems)
	}
	tree.Write(t, "class/net/x", "")
	m.read()
	if problem() || m.store.puts != 2 {
		t.Errorf("a machine without adapters: %d writes, problems %v", m.store.puts, m.stored().Problems)
	}
	tree.Remove(t, "class")
	m.read()
	if problem() || m.store.puts != 2 {
		t.Errorf("the adapters were read once: %d writes, problems %v", m.store.puts, m.stored().Problems)
	}
}

// stuckReader is a reader whose second reading waits for an adapter.
type stuckReader struct {
	readings atomic.Int32
	stuck    chan struct{}
}

func (r *stuckReader) Read() (*adapters.Reading, error) {
	if r.readings.Add(1) == 2 {
		<-r.stuck
	}
	return &adapters.Reading{Adapters: []topology.Adapter{{Name: "mlx5_0", PCIBusID: "00000000:05:00.0", Ports: []topology.AdapterPort{{Port: 1}}}}}, nil
}

// TestStuckAdapter has a reading that does not end: the report stays, no other reading begins, and
// nobody waits for it.
func TestStuckAdapter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &stuckReader{stuck: make(chan struct{})}
		var log strings.Builder
		says := make(fed)
		a := New(Config{Node: "n1", Probe: says, Stale: 1000 * time.Hour, Adapters: r}, &memory{}, nil, NewMetrics(prometheus.NewRegistry()), slog.New(slog.NewTextHandler(&log, nil)))
		defer start(t, a)()
		says <- event(t, goodLine)
		adaptersOf := func() int {
			synctest.Wait()
			return len(a.reported.Adapters)
		}
		synctest.Wait()
		if adaptersOf() != 1 {
			t.Fatal("no adapter after the first reading")
		}
		time.Sleep(time.Hour)
		if got := r.readings.Load(); adaptersOf() != 1 || got != 2 {
			t.Errorf("stuck for an hour: %d adapters, %d readings", adaptersOf(), got)
		}
		close(r.stuck)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.readings.Load(); got < 10 {
			t.Errorf("after it answered: %d readings", got)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "one may be dead") {
			t.Errorf("%d warnings in\n%s", n, log.String())
		}
	})
}

// TestStuckAdapterAtTheEnd ends an agent while a reading does not.
func TestStuckAdapterAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &stuckReader{stuck: make(chan struct{})}
		r.readings.Add(1) // the first one is stuck
		says := make(fed)
		a := New(Config{Node: "n1", Probe: says, Stale: 1000 * time.Hour, Adapters: r}, &memory{}, nil, NewMetrics(prometheus.NewRegistry()), discard())
		stop := start(t, a)
		says <- event(t, goodLine)
		time.Sleep(time.Hour)
		stop()
		if n := a.reported; len(n.Problems) != 2 || n.Problems[1].Reason != topology.ReasonFactUnreadable {
			t.Errorf("problems %v", n.Problems)
		}
		close(r.stuck)
	})
}

// TestNoAdapterReader leaves what the probe says of adapters, as of a simulated machine.
func TestNoAdapterReader(t *testing.T) {
	a := New(Config{Node: "n1"}, &memory{}, nil, NewMetrics(prometheus.NewRegistry()), discard())
	a.hear(event(t, strings.Replace(goodLine, `"node":"n1"`, `"node":"n1","adapters":[{"name":"mlx5_0"}]`, 1)))
	if n := a.reported; len(n.Adapters) != 1 {
		t.Errorf("%+v", n.Adapters)
	}
}
