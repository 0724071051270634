package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// daySite is a rack of GB200 whose machines run nvidia-imex.service, and four machines of H100.
const daySite = `name: a rack and four boxes
groups:
  - name: tray
    racks: 1
    nodes: 18
    node: n{node:02}
    nvlink: rack
    platform: true
    imex: {major: 235, channels: 2048, daemon: READY, domain: UP, hostService: true}
    gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144, nvlinks: 18}
  - name: box
    racks: 1
    nodes: 4
    node: h{node:02}
    nvlink: node
    gpus: {count: 8, product: NVIDIA H100 80GB HBM3, memoryMiB: 81559, numaNodes: 2, cpus: 192, nvlinks: 18}
  - name: stranger
    racks: 1
    nodes: 2
    node: s{node:02}
    nvlink: node
    platform: true
    imex: {major: 235, channels: 2048, daemon: READY, domain: UP, hostService: true}
    gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144, nvlinks: 18}
`

// fabricDay is a site on which a publisher and the agents' gates run, in fake time.
type fabricDay struct {
	t           *testing.T
	ctx         context.Context //nolint:containedctx // of the test
	step        string
	dir, config string
	conf        *config.Config
	store       *dayStore
	site        *simulated.Cluster
	edits       map[string]func(*topology.Node)
	series      *prometheus.Registry
	gates       map[string]*dayGate
}

// dayStore is a directory that keeps conditions of nodes too, as a cluster does.
type dayStore struct {
	*dir.Store
	changes    chan struct{}
	mu         sync.Mutex
	conditions map[string]map[string]inputs.Condition
}

func (s *dayStore) Changes() <-chan struct{} { return s.changes }

func (s *dayStore) Snapshot(ctx context.Context) (*inputs.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range snap.Nodes {
		snap.Nodes[i].Conditions = maps.Clone(s.conditions[snap.Nodes[i].Name])
	}
	return snap, err
}

func (s *dayStore) SetConditions(_ context.Context, node string, conditions []inputs.Condition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conditions[node] == nil {
		s.conditions[node] = map[string]inputs.Condition{}
	}
	for _, c := range conditions {
		s.conditions[node][c.Type] = c
	}
	return nil
}

// dayGate is the gate of one node's agent.
type dayGate struct {
	runDir  string
	reports chan *topology.Node
	series  *prometheus.Registry
}

// TestFabricDay lets one thing after the other go wrong with the fabric of a site. All that answer for the
// fabric say the same of each node at each step: quoin map, the page, the conditions of the Nodes, the series
// that alerts go by, quoin imex check, and the gates of the agents. The table says what that is.
func TestFabricDay(t *testing.T) {
	const block, alone = "block of 18", "no block"
	all := func(first, last int) string { return fmt.Sprintf("n[%02d-%02d]", first, last) }
	runFabricDay(t, func(d *fabricDay) {
		for _, step := range []struct {
			name string
			do   func(d *fabricDay)
			wait time.Duration
			// says has of some nodes: the state on the map, the place, the fabric, IMEX, and the gate of the agent.
			says map[string]string
			held string // the reason
		}{
			{"all is well", nil, time.Hour, map[string]string{
				all(1, 18): "healthy, " + block + ", FabricHealthy, Ready, open",
				"h[01-04]": "healthy, " + alone + ", FabricHealthy, NoMultiNodeNVLink, not needed",
			}, ""},
			{"a tray reboots", tray(simulated.Fault{Fabric: "inProgress", Reboot: true}), 9 * time.Minute, map[string]string{
				"n05": "waiting, " + block + ", FabricInProgress, FabricNotReady, shut", "n04": "healthy, " + block + ", FabricHealthy, Ready, open"}, ""},
			{"and goes on registering", nil, 2 * time.Minute, map[string]string{
				"n05": "degraded, " + block + ", FabricNotReady, FabricNotReady, shut", "n04": "healthy, " + block + ", FabricHealthy, Ready, open"}, ""},
			{"its GPUs have no fabric", tray(simulated.Fault{Fabric: "notSupported", Reboot: true}), time.Hour, map[string]string{
				"n05": "degraded, " + block + ", FabricMissing, FabricNotReady, shut"}, ""},
			{"a GPU has 17 of 18 links", func(d *fabricDay) {
				d.apply(simulated.Fault{Node: "n05", Clear: true, Reboot: true})
				d.report(func(n *topology.Node) { n.GPUs[3].Links = &topology.Links{Switch: 17} }, "n05")
			}, time.Hour, map[string]string{
				"n05": "degraded, " + block + ", LinksDown, Ready, open"}, ""},
			{"a GPU has no fabric", func(d *fabricDay) {
				d.report(nil, "n05")
				tray(simulated.Fault{Fabric: "notSupported", GPU: new(2), Reboot: true})(d)
			}, time.Hour, map[string]string{
				"n05": "degraded, " + block + ", GPUOutsideClique, FabricNotReady, shut"}, ""},
			{"strangers have no fabric, and their nodes_config.cfg names peers", func(d *fabricDay) {
				d.apply(simulated.Fault{Node: "n05", Clear: true, Reboot: true})
				d.report(func(n *topology.Node) {
					for i := range n.GPUs {
						n.GPUs[i].Fabric = topology.Fabric{State: topology.FabricNotSupported}
					}
					n.Domain, n.IMEXNodes = n.Joined(), new(2)
				}, "s01", "s02")
			}, time.Hour, map[string]string{
				all(1, 18): "healthy, " + block + ", FabricHealthy, Ready, open",
				"s[01-02]": "degraded, " + alone + ", FabricMissing, FabricNotReady, shut"}, ""},
			{"the rack is divided", func(d *fabricDay) {
				d.report(nil, "s01", "s02")
				d.report(func(n *topology.Node) {
					half := n.Domain.Clique
					half.ID = 9
					inClique(n, half)
					n.DomainChanged = true
				}, "n10", "n11", "n12", "n13", "n14", "n15", "n16", "n17", "n18")
			}, time.Hour, map[string]string{
				"n01": "healthy, " + block + ", FabricHealthy, Ready, open",
				"n18": "with warning, " + block + ", FabricHealthy, Ready, open"}, "Repartitioned"},
			{"somebody approves that", func(d *fabricDay) { d.approve("Repartitioned") }, time.Hour, map[string]string{
				"n[01-18]": "healthy, block of 9, FabricHealthy, Ready, open"}, "BaseSizeChange"},
			{"and the smaller base size", func(d *fabricDay) { d.approve("BaseSizeChange") }, time.Hour, map[string]string{
				"n[01-18]": "healthy, block of 9, FabricHealthy, Ready, open"}, ""},
			{"the IMEX service of a peer dies", func(d *fabricDay) {
				d.report(func(n *topology.Node) { n.IMEX = &topology.IMEX{ChannelMajor: n.IMEX.ChannelMajor, Channels: 2048} }, "n05")
				d.report(func(n *topology.Node) {
					local := *n.IMEX
					local.DomainState, local.Peers = "DEGRADED", []topology.IMEXPeer{{Address: "10.0.0.1", Name: "n01", State: topology.PeerSelf}, {Address: "10.0.0.5", Name: "n05", State: topology.PeerDead}}
					n.IMEX = &local
				}, "n01")
			}, time.Hour, map[string]string{
				"n01": "healthy, block of 9, FabricHealthy, Ready, open without n05",
				"n05": "with warning, block of 9, FabricHealthy, NotReady, shut"}, ""},
		} {
			d.step = step.name
			if step.do != nil {
				step.do(d)
			}
			d.pass(step.wait)
			d.agree()
			for names, want := range step.says {
				expanded, err := hostlist.Expand(names)
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range expanded {
					if got := d.says(name); got != want {
						t.Errorf("%s: %s: %s, want %s", step.name, name, got, want)
					}
				}
			}
			if got := d.held(); got != step.held {
				t.Errorf("%s: held %q, want %q", step.name, got, step.held)
			}
			if t.Failed() {
				return // what follows goes on from it
			}
		}
	})
}

// tray is a fault of n05 alone.
func tray(f simulated.Fault) func(*fabricDay) {
	return func(d *fabricDay) {
		f.Node = "n05"
		d.apply(simulated.Fault{Node: f.Node, Clear: true}, f)
	}
}

// inClique has all GPUs of a node in a clique, which its agent has read twice.
func inClique(n *topology.Node, c topology.Clique) {
	for i := range n.GPUs {
		n.GPUs[i].Fabric.ClusterUUID, n.GPUs[i].Fabric.CliqueID = c.ClusterUUID, c.ID
	}
	n.Domain = n.Joined()
}

// runFabricDay runs publisher and agents on the site, with steps beside them.
func runFabricDay(t *testing.T, steps func(d *fabricDay)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := &fabricDay{t: t, ctx: ctx, dir: t.TempDir(), site: sites.Parse(t, daySite), series: prometheus.NewRegistry(), edits: map[string]func(*topology.Node){}, gates: map[string]*dayGate{}}
		d.config = filepath.Join(d.dir, "quoin.yaml")
		conf := fmt.Sprintf("imex: {join: host}\nagent: {hostRoot: %q}\n", filepath.Join(d.dir, "host"))
		if err := os.WriteFile(d.config, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if d.conf, err = config.Parse(config.Default(), d.config, []byte(conf), nil); err != nil {
			t.Fatal(err)
		}
		d.store = &dayStore{Store: dir.New(d.dir), changes: make(chan struct{}, 1), conditions: map[string]map[string]inputs.Condition{}}
		log := slog.New(slog.DiscardHandler)
		hosts := imex.NewHosts(d.conf.IMEX)
		pub := publisher.New(d.store, d.conf.Clusters(), publisher.Options{Conditions: d.store, Membership: hosts}, publisher.NewMetrics(d.series), log)
		var running sync.WaitGroup
		for name := range d.nodes() {
			g := &dayGate{filepath.Join(d.dir, "run", name), make(chan *topology.Node, 1), prometheus.NewRegistry()}
			d.gates[name] = g
			running.Go(func() {
				_ = nodeagent.NewGate(name, "", rundir.Dir(g.runDir), hosts, publication.AnyFabrics(d.conf.Clusters()).Alone, g.reports, g.series, log).Run(ctx)
			})
		}
		d.write()
		running.Go(func() {
			if err := pub.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		steps(d)
		cancel()
		running.Wait()
	})
}

// nodes are the present reports of all machines.
func (d *fabricDay) nodes() map[string]*topology.Node {
	out := map[string]*topology.Node{}
	for _, m := range d.site.Machines() {
		if edit := d.edits[m.Name]; edit != nil {
			edit(m.Report)
		}
		out[m.Name] = m.Report
	}
	return out
}

// apply lets faults happen.
func (d *fabricDay) apply(faults ...simulated.Fault) {
	d.site.Apply(simulated.Step{Do: faults})
	d.write()
}

// report has the agents of nodes report something else from now on. nil ends that.
func (d *fabricDay) report(edit func(*topology.Node), names ...string) {
	for _, name := range names {
		d.edits[name] = edit
	}
	d.write()
}

// write stores the reports, and gives them to the gates.
func (d *fabricDay) write() {
	for name, report := range d.nodes() {
		text, err := topology.EncodeReport(report)
		if err != nil {
			d.t.Fatal(err)
		}
		put.File(d.t, filepath.Join(d.dir, "reports", name+".json"), string(text), 0o600)
		d.gates[name].reports <- report
	}
	again.Notify(d.store.changes)
}

// pass lets time go by.
func (d *fabricDay) pass(wait time.Duration) {
	time.Sleep(wait)
	synctest.Wait()
}

// quoin runs a command on the directory.
func (d *fabricDay) quoin(code int, args ...string) string {
	d.t.Helper()
	var out, errs strings.Builder
	if got := run(d.ctx, append(args, "--config", d.config), strings.NewReader(""), &out, &errs); got != code {
		d.t.Fatalf("%s: quoin %v: exit %d, want %d: %s%s", d.step, args, got, code, &errs, &out)
	}
	return out.String()
}

// drawn is what map and page say.
type drawnDay struct {
	Plan   *topology.Plan
	Places map[string]topology.Place
	States map[string]string
	Nodes  map[string]picture.Said
	Held   *picture.Held
}

func (d *fabricDay) drawn() (out drawnDay) {
	d.t.Helper()
	if err := json.Unmarshal([]byte(d.quoin(0, "map", "--store", d.dir, "-o", "json")), &out); err != nil {
		d.t.Fatal(err)
	}
	return out
}

// held are the reasons of what is held, as quoin map says.
func (d *fabricDay) held() string {
	var reasons []string
	if held := d.drawn().Held; held != nil {
		for _, h := range held.Holds {
			reasons = append(reasons, h.Reason)
		}
	}
	return strings.Join(reasons, " ")
}

// approve approves what is held for a reason.
func (d *fabricDay) approve(reason string) {
	d.t.Helper()
	for _, h := range d.drawn().Held.Holds {
		if h.Reason == reason {
			d.quoin(0, "plan", "approve", h.Digest, "--store", d.dir)
			again.Notify(d.store.changes)
		}
	}
}

// says is the state of a node on the map, the size of its block, the fabric, IMEX, and the gate of its agent.
func (d *fabricDay) says(name string) string {
	d.t.Helper()
	m := d.drawn()
	place := "no block"
	if block := m.Places[name].Block; block != "" {
		size := 0
		for _, at := range m.Places {
			if at.Block == block {
				size++
			}
		}
		place = fmt.Sprintf("block of %d", size)
	}
	return strings.Join([]string{m.States[name], place, m.Nodes[name].Fabric.Reason, m.Nodes[name].IMEX.Reason, d.gate(name)}, ", ")
}

// gate is what the gate of a node says to a job of this node and n05.
func (d *fabricDay) gate(name string) string {
	d.t.Helper()
	g, _, err := gate.Read(d.gates[name].runDir)
	switch {
	case err != nil:
		d.t.Fatal(d.step, err)
	case g.NeedsNone():
		return "not needed"
	case !g.Ready:
		return "shut"
	}
	if missing := g.PeersOf(name, name+",n05", nil).Missing; len(missing) > 0 {
		return "open without " + strings.Join(missing, ",")
	}
	return "open"
}

// wrong has the reason of each node on which the condition reports a fault.
func (d *fabricDay) wrong(condition string) map[string]string {
	out := map[string]string{}
	for node, of := range d.store.conditions {
		if c := of[condition]; c.True {
			out[node] = c.Reason
		}
	}
	return out
}

// agree compares what all say of each node with the conditions that the publisher has written.
func (d *fabricDay) agree() {
	d.t.Helper()
	same := func(who string, want, got any) {
		d.t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			d.t.Errorf("%s: %s (-conditions of Nodes +what it says):\n%s", d.step, who, diff)
		}
	}
	fabric, imexNot := d.wrong(nodestatus.ConditionFabric), d.wrong(nodestatus.ConditionIMEX)

	// quoin map judges by itself, because a directory has no conditions. The page takes the conditions.
	site, err := page.NewSource(d.store, d.conf.Clusters(), nil, nil).Site(d.ctx, d.conf.Clusters()[0].Name)
	if err != nil {
		d.t.Fatal(err)
	}
	onPage, onMap := picture.DocumentOf(site), d.drawn()
	for _, drawn := range []map[string]picture.Said{onPage.Nodes, onMap.Nodes} {
		for node, said := range drawn {
			said.Drift.Message = "" // the page names the annotation of the cluster that says more
			drawn[node] = said
		}
	}
	same("the map's nodes", onPage.Nodes, onMap.Nodes)
	same("the map's states", onPage.States, onMap.States)
	same("the map's places", onPage.Places, onMap.Places)
	for node, is := range onMap.States {
		if fabric[node] != "" != (is == "degraded") {
			d.t.Errorf("%s: the map: %s is %s, and its condition says %q", d.step, node, is, fabric[node])
		}
	}

	// The series that alerts go by.
	faults, unready, held := map[string]string{}, 0, []string{}
	for _, g := range d.gauges(d.series) {
		switch g.name {
		case "quoin_publisher_fabric_faults":
			faults[g.labels["node"]] = g.labels["reason"]
		case "quoin_publisher_imex_nodes":
			if (imex.Verdict{Finding: topology.Finding{Reason: g.labels["reason"]}}).Problem() {
				unready += int(g.value)
			}
		case "quoin_publisher_held":
			if g.value == 1 {
				held = append(held, g.labels["reason"])
			}
		}
	}
	for node, of := range d.store.conditions {
		if c := of[nodestatus.ConditionFabric]; !c.True && strings.Contains(c.Message, "What to do: ") { // the cause is not known
			fabric[node] = c.Reason
		}
	}
	same("quoin_publisher_fabric_faults", fabric, faults)
	same("quoin_publisher_imex_nodes", len(imexNot), unready)
	same("quoin_publisher_held", strings.Fields(d.held()), held)

	// quoin imex check has the reports, and knows no plan.
	var checked struct {
		Findings []struct {
			Reason, Message string
			Nodes           []string
		}
	}
	code := 0
	if len(imexNot) > 0 {
		code = 1
	}
	reports, err := filepath.Glob(filepath.Join(d.dir, "reports", "*.json"))
	if err != nil {
		d.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(d.quoin(code, append([]string{"imex", "check", "-o", "json", "--objects", d.objects()}, reports...)...)), &checked); err != nil {
		d.t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range checked.Findings {
		for _, n := range f.Nodes {
			if f.Reason != imex.ReasonReady {
				found[n] = f.Reason
			} else if peer := "n05"; !strings.Contains(f.Message, peer) || !strings.Contains(d.store.conditions[n][nodestatus.ConditionIMEX].Message, peer) {
				d.t.Errorf("%s: a note on %s: %s; its condition: %s", d.step, n, f.Message, d.store.conditions[n][nodestatus.ConditionIMEX].Message)
			}
		}
	}
	same("quoin imex check", imexNot, found)

	// The gates. A node that has nothing to join, or has joined, may go on.
	for node := range d.gates {
		g, _, err := gate.Read(d.gates[node].runDir)
		if err != nil {
			d.t.Fatal(err)
		}
		if shut := !g.Ready && !g.NeedsNone(); shut != (imexNot[node] != "") || shut && g.Reason != imexNot[node] {
			d.t.Errorf("%s: the gate of %s: ready %t, %s, and its condition says %q", d.step, node, g.Ready, g.Reason, imexNot[node])
		}
		for _, series := range d.gauges(d.gates[node].series) {
			if series.name == "quoin_agent_imex_ready" && (series.labels["reason"] != g.Reason || series.value == 1 != g.Ready) {
				d.t.Errorf("%s: %s says %v of %s, and its gate %+v", d.step, series.name, series, node, g)
			}
		}
	}
}

// gauge is one series of a gauge.
type gauge struct {
	name   string
	labels map[string]string
	value  float64
}

// gauges are the gauges of a registry.
func (d *fabricDay) gauges(reg *prometheus.Registry) (out []gauge) {
	d.t.Helper()
	families, err := reg.Gather()
	if err != nil {
		d.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			g := gauge{f.GetName(), map[string]string{}, m.GetGauge().GetValue()}
			for _, l := range m.GetLabel() {
				g.labels[l.GetName()] = l.GetValue()
			}
			out = append(out, g)
		}
	}
	return out
}

// objects is a file with the objects of a cluster: its Nodes, and a Pod.
func (d *fabricDay) objects() string {
	items := []any{map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "a", "namespace": "b"}}}
	for name := range d.gates {
		items = append(items, map[string]any{"kind": "Node", "metadata": map[string]any{"name": name}})
	}
	text, err := json.Marshal(map[string]any{"kind": "List", "items": items})
	if err != nil {
		d.t.Fatal(err)
	}
	path := filepath.Join(d.dir, "objects")
	put.File(d.t, path, string(text), 0o600)
	return path
}
