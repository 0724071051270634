package show

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

// TestPlatform prints where a machine sits, and a dash for what the driver does not say.
func TestPlatform(t *testing.T) {
	for want, p := range map[string]topology.Platform{
		"Platform  chassis 17, slot 3, tray 2, host 1\n":   {ChassisSerial: "17", Slot: 3, Tray: 2, HostID: 1},
		"Platform  rack GUID ab, slot 0, tray 0, host 1\n": {RackGUID: "ab", HostID: 1},
		"Platform  chassis -, slot 0, tray 0, host 1\n":    {HostID: 1}, // as an H200 answers
	} {
		var b strings.Builder
		Node(&b, &topology.Node{Name: "n", Platform: &p}, nil)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%+v: want %q in\n%s", p, want, b.String())
		}
	}
}

// TestAdapters prints the adapters of a machine with their roles, and a dash for what is not known.
func TestAdapters(t *testing.T) {
	minor, numa := 3, 1
	n := &topology.Node{Name: "n", GPUs: []topology.GPU{{UUID: "GPU-1", Minor: &minor, PCIBusID: "00000000:1b:00.0"}}, Adapters: []topology.Adapter{
		{Name: "mlx5_0", Model: "MT4129", NodeGUID: "946dae0300001000", PCIBusID: "00000000:18:00.0", NUMANode: &numa, GPUs: []string{"00000000:1B:00.0", "00000000:1C:00.0"}, NetDevs: []string{"ibp24s0"},
			Ports: []topology.AdapterPort{{Port: 1, GUID: "946dae0300001001", LinkLayer: topology.LinkInfiniBand, RateGbps: 400}}},
		{Name: "mlx5_1", Ports: []topology.AdapterPort{{Port: 1, LinkLayer: topology.LinkEthernet, Neighbor: topology.Neighbor{ChassisID: "1c:34:da:00:00:01", PortID: "swp7", SystemName: "leaf-01"}},
			{Port: 2, Neighbor: topology.Neighbor{ChassisID: "1c:34:da:00:00:02"}}}},
		{Name: "mlx5_2", NodeGUID: "946dae0300001002"},
	}}
	const want = `
ADAPTER  ROLE     MODEL   PCI               NUMA  GPUS                           INTERFACES  PORT  LINK        RATE      GUID              NEIGHBOR
mlx5_0   compute  MT4129  00000000:18:00.0  1     /dev/nvidia3 00000000:1C:00.0  ibp24s0     1     InfiniBand  400 Gb/s  946dae0300001001  -
mlx5_1   other    -       -                 -     -                              -           1     Ethernet    -         -                 leaf-01 swp7
mlx5_1   other    -       -                 -     -                              -           2     -           -         -                 1c:34:da:00:00:02
mlx5_2   other    -       -                 -     -                              -           -     -           -         946dae0300001002  -
compute: below the PCI switch or root port of a GPU
`
	var b strings.Builder
	Node(&b, n, nil)
	if got := b.String(); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s, want at its end\n%s", got, want)
	}
}

// TestDoubt prints a doubt about roles, and no witness for a machine without adapters.
func TestDoubt(t *testing.T) {
	adapter := func(name, layer string, rate int) topology.Adapter {
		return topology.Adapter{Name: name, Model: name, Ports: []topology.AdapterPort{{Port: 1, LinkLayer: layer, RateGbps: rate}}}
	}
	for _, tt := range []struct {
		name     string
		adapters []topology.Adapter
		want     string
	}{
		{"none", nil, "GPUs      none\n"},
		{"doubt", []topology.Adapter{adapter("mlx5_0", topology.LinkInfiniBand, 100), adapter("mlx5_1", topology.LinkEthernet, 400)},
			"compute: InfiniBand\nproblem: AdaptersUnsure: jobs may compute with mlx5_0, with mlx5_1, or with both; set computeAdapters\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			Node(&b, &topology.Node{Name: "n", Adapters: tt.adapters}, nil)
			if got := b.String(); !strings.HasSuffix(got, tt.want) {
				t.Errorf("got\n%s, want at its end\n%s", got, tt.want)
			}
		})
	}
}
