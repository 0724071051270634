//go:build cgo

package node_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/sysfs"
	"github.com/quoin-hpc/quoin/topology"
)

// cabled is the network side of the loaded machine h100: each of two GPUs has an adapter on
// its PCI switch, and there is one of Ethernet for storage.
func cabled() sysfs.Site {
	path := func(device string) string {
		return "pci0000:16 0000:16:01.0 0000:17:00.0 0000:18:0" + device + ".0 0000:19:00.0 0000:1" + device
	}
	return sysfs.Site{GPUs: []string{path("a") + ":00.0", path("b") + ":00.0"}, Adapters: []sysfs.Adapter{
		{Name: "mlx5_0", Path: "pci0000:16 0000:16:01.0 0000:17:00.0 0000:18:0a.0 0000:20:00.0", Model: "MT4129", GUID: 1, Ports: []string{"IB 400 ACTIVE"}, NetDevs: []string{"ib0"}},
		{Name: "mlx5_1", Path: "pci0000:16 0000:16:01.0 0000:17:00.0 0000:18:0b.0 0000:21:00.0", Model: "MT4129", GUID: 2, Ports: []string{"IB 400 ACTIVE"}, NetDevs: []string{"ib1"}},
		{Name: "mlx5_2", Path: "pci0000:40 0000:40:01.0 0000:41:00.0", Model: "MT4125", GUID: 3, Ports: []string{"Ethernet 100 ACTIVE"}, NetDevs: []string{"ens3"}},
	}}
}

// lldpText is what lldpcli -f json show neighbors prints of the storage network.
const lldpText = `{"lldp":{"interface":{"ens3":{"via":"LLDP","rid":"1","age":"0 day, 00:00:17","chassis":{"leaf-01":{"id":{"type":"mac","value":"1c:34:da:00:00:01"}}},"port":{"id":{"type":"ifname","value":"swp7"}}}}}}`

// TestNVMLAgentAdapters runs an agent on a machine with adapters. A port goes down, and the report has its
// adapter as before. A link that comes back slower is a problem until the link is as fast as before.
func TestNVMLAgentAdapters(t *testing.T) {
	t.Parallel()
	site := cabled()
	tree := sysfs.Make(t, site)
	lldp := filepath.Join(t.TempDir(), "lldp.json")
	if err := os.WriteFile(lldp, []byte(lldpText), 0o600); err != nil {
		t.Fatal(err)
	}
	m := fake.New(t, "h100")
	p := newAgentProcess(t)
	cmd := p.onNVML(programs.QuoinTest(t), 550, m, "20ms")
	cmd.Args = append(cmd.Args, "--set", "agent.sysRoot="+string(tree), "--set", "agent.lldpFile="+lldp)
	p.start(cmd)
	p.until("the report is stored with adapters", func() bool { return p.settled() && strings.Contains(p.report(), `"adapters":`) })
	report := p.report()
	n, err := topology.ParseReport("report", []byte(report))
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Adapters) != 3 || len(n.ComputeAdapters(nil).Adapters) != 2 || n.Adapters[2].Ports[0].Neighbor.SystemName != "leaf-01" {
		t.Errorf("adapters %+v", n.Adapters)
	}
	tree.Set(t, &site.Adapters[1], 1, "400 DOWN")
	tree.Set(t, &site.Adapters[0], 1, "200 ACTIVE")
	p.until("the slow link is a problem", func() bool { return strings.Contains(p.report(), `"reason":"AdapterSlow"`) })
	down, err := topology.ParseReport("report", []byte(p.report()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(n.Adapters, down.Adapters); diff != "" {
		t.Errorf("adapters while a link is down (-want +got):\n%s", diff)
	}
	tree.Set(t, &site.Adapters[0], 1, "400 ACTIVE")
	tree.Set(t, &site.Adapters[1], 1, "400 ACTIVE")
	p.until("the report is as before", func() bool { return p.report() == report })
}

// TestDiscoverAdapters shows the adapters of a machine, with their roles.
func TestDiscoverAdapters(t *testing.T) {
	t.Parallel()
	tree := sysfs.Make(t, cabled())
	m := fake.New(t, "h100")
	run := func(more ...string) string {
		t.Helper()
		cmd := command(t, programs.QuoinTest(t), 550, m, append([]string{"discover", "--set", "agent.sysRoot=" + string(tree)}, more...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	text := run()
	for _, row := range []string{
		`(?m)^mlx5_0 +compute +MT4129 +00000000:20:00.0 +0 +/dev/nvidia3 +ib0 +1 +InfiniBand +400 Gb/s +946dae0300000001 +-$`,
		`(?m)^mlx5_1 +compute +MT4129 +00000000:21:00.0 +0 +/dev/nvidia2 +ib1 `,
		`(?m)^mlx5_2 +other +MT4125 +00000000:41:00.0 +0 +- +ens3 +1 +Ethernet +100 Gb/s +946dae0300000003 +-$`,
	} {
		if !regexp.MustCompile(row).MatchString(text) {
			t.Errorf("no line %s in\n%s", row, text)
		}
	}
	if strings.Contains(text, "problem:") {
		t.Errorf("a problem in\n%s", text)
	}
	missing := filepath.Join(t.TempDir(), "lldp.json")
	if text := run("--set", "agent.lldpFile="+missing); !strings.Contains(text, "problem: FactUnreadable: ") || !strings.Contains(text, missing) {
		t.Errorf("a file that is not there is no problem in\n%s", text)
	}
	if text := run("-o", "json"); !strings.Contains(text, `"nodeGUID": "946dae0300000001"`) {
		t.Errorf("no adapter in\n%s", text)
	}
}
