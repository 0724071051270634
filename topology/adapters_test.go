package topology_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// adapterOf returns an adapter of one port. A change adds what the test is about.
func adapterOf(name, layer string, rate int, change ...func(*topology.Adapter)) topology.Adapter {
	a := topology.Adapter{Name: name, Model: "MT4129", Ports: []topology.AdapterPort{{Port: 1, LinkLayer: layer, RateGbps: rate}}}
	for _, f := range change {
		f(&a)
	}
	return a
}

func TestComputeAdapters(t *testing.T) {
	ib := func(name string, change ...func(*topology.Adapter)) topology.Adapter {
		return adapterOf(name, topology.LinkInfiniBand, 400, change...)
	}
	eth := func(name string, rate int, change ...func(*topology.Adapter)) topology.Adapter {
		return adapterOf(name, topology.LinkEthernet, rate, change...)
	}
	gpu := func(a *topology.Adapter) { a.GPUs = []string{"00000000:18:00.0"} }
	model := func(model string) func(*topology.Adapter) { return func(a *topology.Adapter) { a.Model = model } }
	for _, tt := range []struct {
		name     string
		adapters []topology.Adapter
		names    []string
		want     []string
	}{
		{name: "no adapter"},
		{"adapters on rails, and others of InfiniBand", []topology.Adapter{ib("mlx5_0", gpu), ib("mlx5_1"), ib("mlx5_2", gpu)}, nil, []string{"mlx5_0", "mlx5_2"}},
		{"Ethernet on rails, and others of InfiniBand", []topology.Adapter{eth("mlx5_0", 400, gpu), ib("mlx5_1")}, nil, []string{"mlx5_0"}},
		{"a BlueField on a rail", []topology.Adapter{eth("mlx5_0", 400, gpu, model("MT41692")), eth("mlx5_1", 400)}, nil, []string{"mlx5_0"}},
		{"no rail: InfiniBand before Ethernet that is faster", []topology.Adapter{ib("mlx5_0"), eth("mlx5_1", 800), ib("mlx5_2")}, nil, []string{"mlx5_0", "mlx5_2"}},
		{"the second port is of InfiniBand", []topology.Adapter{eth("mlx4_0", 40, func(a *topology.Adapter) {
			a.Ports = append(a.Ports, topology.AdapterPort{Port: 2, LinkLayer: topology.LinkInfiniBand})
		}), eth("mlx5_1", 400)}, nil, []string{"mlx4_0"}},
		{"no rail, Ethernet: the fastest", []topology.Adapter{eth("mlx5_0", 400), eth("mlx5_1", 100, model("MT4119")), eth("mlx5_2", 400)}, nil, []string{"mlx5_0", "mlx5_2"}},
		{"no rail, Ethernet: a BlueField is as fast", []topology.Adapter{eth("mlx5_0", 400), eth("mlx5_1", 400, model("MT41692")), eth("mlx5_2", 800, model("mt41686"))}, nil, []string{"mlx5_0"}},
		{"BlueFields alone", []topology.Adapter{eth("mlx5_0", 400, model("MT41692")), eth("mlx5_1", 100, model("MT41686"))}, nil, []string{"mlx5_0"}},
		{"a port that never had a link", []topology.Adapter{eth("mlx5_0", 400), eth("mlx5_1", 0), eth("mlx5_2", 0, model("MT4119")), eth("mlx5_3", 100, model("MT4119"))}, nil, []string{"mlx5_0", "mlx5_1"}},
		{"no port ever had a link", []topology.Adapter{eth("mlx5_0", 0), eth("mlx5_1", 0)}, nil, []string{"mlx5_0", "mlx5_1"}},
		{"an unknown link layer", []topology.Adapter{adapterOf("efa_0", "", 100)}, nil, []string{"efa_0"}},
		{"names", []topology.Adapter{ib("mlx5_0", gpu), ib("mlx5_1"), ib("mlx5_10")}, []string{"mlx5_1", "other_*"}, []string{"mlx5_1"}},
		{"a pattern", []topology.Adapter{ib("mlx5_0", gpu), ib("mlx5_1"), ib("mlx5_10")}, []string{"mlx5_1*"}, []string{"mlx5_1", "mlx5_10"}},
		{"names that the machine does not have", []topology.Adapter{ib("mlx5_0", gpu)}, []string{"ibp1s0"}, nil},
		{"a pattern that is none", []topology.Adapter{ib("mlx5_0", gpu)}, []string{"["}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // in whatever order they come
				var got []string
				for _, a := range (&topology.Node{Adapters: tt.adapters}).ComputeAdapters(tt.names) {
					got = append(got, a.Name)
				}
				slices.Sort(got)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				slices.Reverse(tt.adapters)
			}
		})
	}
}

func TestCheckAdapterPatterns(t *testing.T) {
	if err := topology.CheckAdapterPatterns([]string{"mlx5_0", "mlx5_*", "ibp[0-9]*s0"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "mlx5_[", `mlx5_\`} {
		if err := topology.CheckAdapterPatterns([]string{"mlx5_0", bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
