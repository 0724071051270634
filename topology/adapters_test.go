package topology_test

import (
	"fmt"
	"slices"
	"strings"
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
	leaf := func(a *topology.Adapter) { a.Ports[0].Neighbor.ChassisID = "1c:34:da:00:00:01" }
	const (
		rail    = "below the PCI switch or root port of a GPU"
		fastIB  = "InfiniBand, and no adapter is faster"
		cabled  = "a switch as neighbor, and no adapter is faster"
		slowIB  = "InfiniBand"
		fastest = "the fastest"
		named   = "named by computeAdapters"
	)
	for _, tt := range []struct {
		name          string
		adapters      []topology.Adapter
		names         []string
		want          []string
		witness       string
		doubtAboutOne string // an adapter that the doubt names, beside one that is for compute
	}{
		{name: "no adapter"},
		{"adapters on rails, and others of InfiniBand", []topology.Adapter{ib("mlx5_0", gpu), ib("mlx5_1"), ib("mlx5_2", gpu)}, nil, []string{"mlx5_0", "mlx5_2"}, rail, ""},
		{"Ethernet on rails, and others of InfiniBand", []topology.Adapter{eth("mlx5_0", 400, gpu), ib("mlx5_1")}, nil, []string{"mlx5_0"}, rail, ""},
		{"a BlueField on a rail", []topology.Adapter{eth("mlx5_0", 400, gpu, model("MT41692")), eth("mlx5_1", 400)}, nil, []string{"mlx5_0"}, rail, ""},
		{"InfiniBand, and slower BlueFields with a switch", []topology.Adapter{ib("mlx5_0"), ib("mlx5_1"), eth("mlx5_2", 200, model("MT41692"), leaf)}, nil, []string{"mlx5_0", "mlx5_1"}, fastIB, ""},
		{"InfiniBand, and BlueFields as fast with a switch", []topology.Adapter{ib("mlx5_0"), eth("mlx5_1", 400, model("MT41692"), leaf)}, nil, []string{"mlx5_0"}, fastIB, ""},
		{"InfiniBand, and a slower model for storage", []topology.Adapter{ib("mlx5_0"), adapterOf("mlx5_1", topology.LinkInfiniBand, 200, model("MT4123"))}, nil, []string{"mlx5_0"}, fastIB, ""},
		{"InfiniBand of two models, as fast", []topology.Adapter{ib("mlx5_0"), ib("mlx5_1", model("MT41692"))}, nil, []string{"mlx5_0", "mlx5_1"}, fastIB, "mlx5_1"},
		{"InfiniBand of another model, without a link", []topology.Adapter{ib("mlx5_0"), adapterOf("mlx5_1", topology.LinkInfiniBand, 0, model("MT4123"))}, nil, []string{"mlx5_0", "mlx5_1"}, fastIB, ""},
		{"rails of two models", []topology.Adapter{ib("mlx5_0", gpu), ib("mlx5_1", gpu, model("MT41692"))}, nil, []string{"mlx5_0", "mlx5_1"}, rail, ""},
		{"a link of InfiniBand trained badly", []topology.Adapter{ib("mlx5_0"), ib("mlx5_1", func(a *topology.Adapter) { a.Ports[0].RateGbps = 100 }), eth("mlx5_2", 200)}, nil, []string{"mlx5_0", "mlx5_1"}, fastIB, ""},
		{"InfiniBand without a link yet, after a boot", []topology.Adapter{adapterOf("mlx5_0", topology.LinkInfiniBand, 0), eth("mlx5_1", 200, leaf)}, nil, []string{"mlx5_0"}, fastIB, ""},
		{"Ethernet that is faster than InfiniBand", []topology.Adapter{ib("mlx5_0"), eth("mlx5_1", 800), ib("mlx5_2")}, nil, []string{"mlx5_0", "mlx5_2"}, slowIB, "mlx5_1"},
		{"Ethernet that is faster than InfiniBand, with a switch", []topology.Adapter{adapterOf("mlx5_0", topology.LinkInfiniBand, 100), eth("mlx5_1", 400, leaf), eth("mlx5_2", 400, leaf)}, nil, []string{"mlx5_1", "mlx5_2"}, cabled, "mlx5_0"},
		{"the second port is of InfiniBand", []topology.Adapter{eth("mlx4_0", 40, func(a *topology.Adapter) {
			a.Ports = append(a.Ports, topology.AdapterPort{Port: 2, LinkLayer: topology.LinkInfiniBand})
		}), eth("mlx5_1", 400)}, nil, []string{"mlx4_0"}, slowIB, "mlx5_1"},
		{"Ethernet: the fastest", []topology.Adapter{eth("mlx5_0", 400), eth("mlx5_1", 100, model("MT4119")), eth("mlx5_2", 400)}, nil, []string{"mlx5_0", "mlx5_2"}, fastest, ""},
		{"Ethernet: a switch is at the slower one alone", []topology.Adapter{eth("mlx5_0", 400), eth("mlx5_1", 25, model("MT4117"), leaf)}, nil, []string{"mlx5_0"}, fastest, ""},
		{"Ethernet: a switch is at one of two models", []topology.Adapter{eth("mlx5_0", 400, leaf), eth("mlx5_1", 400, model("MT41692"))}, nil, []string{"mlx5_0"}, cabled, ""},
		{"Ethernet: two models of one speed, one BlueField", []topology.Adapter{eth("mlx5_0", 400), eth("mlx5_1", 400, model("MT41692"))}, nil, []string{"mlx5_0", "mlx5_1"}, fastest, "mlx5_1"},
		{"Ethernet: a BlueField in NIC mode beside a small adapter", []topology.Adapter{eth("mlx5_0", 400, model("MT41692")), eth("mlx5_1", 25, model("MT4117"))}, nil, []string{"mlx5_0"}, fastest, ""},
		{"BlueFields alone", []topology.Adapter{eth("mlx5_0", 400, model("MT41692")), eth("mlx5_1", 100, model("MT41686"))}, nil, []string{"mlx5_0"}, fastest, ""},
		{"a port that never had a link", []topology.Adapter{eth("mlx5_0", 400), eth("mlx5_1", 0), eth("mlx5_2", 0, model("MT4119")), eth("mlx5_3", 100, model("MT4119"))}, nil, []string{"mlx5_0", "mlx5_1"}, fastest, ""},
		{"no port ever had a link", []topology.Adapter{eth("mlx5_0", 0), eth("mlx5_1", 0, model("MT4119"))}, nil, []string{"mlx5_0", "mlx5_1"}, fastest, ""},
		{"an unknown link layer", []topology.Adapter{adapterOf("efa_0", "", 100)}, nil, []string{"efa_0"}, fastest, ""},
		{"names", []topology.Adapter{ib("mlx5_0", gpu), ib("mlx5_1"), ib("mlx5_10")}, []string{"mlx5_1", "other_*"}, []string{"mlx5_1"}, named, ""},
		{"names where the machine leaves doubts", []topology.Adapter{ib("mlx5_0"), eth("mlx5_1", 800)}, []string{"mlx5_1"}, []string{"mlx5_1"}, named, ""},
		{"a pattern", []topology.Adapter{ib("mlx5_0", gpu), ib("mlx5_1"), ib("mlx5_10")}, []string{"mlx5_1*"}, []string{"mlx5_1", "mlx5_10"}, named, ""},
		{"names that the machine does not have", []topology.Adapter{ib("mlx5_0", gpu)}, []string{"ibp1s0"}, nil, named, ""},
		{"a pattern that is none", []topology.Adapter{ib("mlx5_0", gpu)}, []string{"["}, nil, named, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // in whatever order they come
				c := (&topology.Node{Adapters: tt.adapters}).ComputeAdapters(tt.names)
				var got []string
				for _, a := range c.Adapters {
					got = append(got, a.Name)
				}
				slices.Sort(got)
				if diff := cmp.Diff(tt.want, got); diff != "" || c.Witness != tt.witness {
					t.Errorf("witness %q, want %q (-want +got)\n%s", c.Witness, tt.witness, diff)
				}
				doubt := ""
				for _, f := range c.Doubt {
					doubt += f.Reason + ": " + f.Message
				}
				if (doubt == "") != (tt.doubtAboutOne == "") || !strings.Contains(doubt, tt.doubtAboutOne) {
					t.Errorf("doubt %q, want one that names %q", doubt, tt.doubtAboutOne)
				}
				slices.Reverse(tt.adapters)
			}
		})
	}
}

// TestDoubtText: a doubt says what to set.
func TestDoubtText(t *testing.T) {
	n := topology.Node{Adapters: []topology.Adapter{adapterOf("mlx5_0", topology.LinkInfiniBand, 100), adapterOf("mlx5_1", topology.LinkEthernet, 400)}}
	want := []topology.Finding{{Severity: topology.Warning, Reason: topology.ReasonAdaptersUnsure, Message: "jobs may compute with mlx5_0, with mlx5_1, or with both; set computeAdapters"}}
	if diff := cmp.Diff(want, n.ComputeAdapters(nil).Doubt); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestSlowAdapters compares ports for compute with those of the same model.
func TestSlowAdapters(t *testing.T) {
	gpu := func(a *topology.Adapter) { a.GPUs = []string{"00000000:18:00.0"} }
	ports := func(rates ...int) []topology.Adapter {
		var list []topology.Adapter
		for i, rate := range rates {
			list = append(list, adapterOf(fmt.Sprint("mlx5_", i), topology.LinkInfiniBand, rate, gpu))
		}
		return list
	}
	slow := func(name string, rate int) topology.Finding {
		return topology.Finding{Reason: topology.ReasonAdapterSlow, Message: fmt.Sprintf("the link of %s port 1 has %d Gb/s; other ports of its model have 400 Gb/s", name, rate)}
	}
	for _, tt := range []struct {
		name     string
		adapters []topology.Adapter
		want     []topology.Finding
	}{
		{"none", nil, nil},
		{"all as fast", ports(400, 400, 400, 400), nil},
		{"lanes of two cables are gone", ports(400, 200, 100, 400), []topology.Finding{slow("mlx5_1", 200), slow("mlx5_2", 100)}},
		{"one of two", ports(200, 400), []topology.Finding{slow("mlx5_0", 200)}},
		{"one is faster", ports(400, 400, 800, 400), nil},
		{"ports without a link", ports(0, 400, 0, 400), nil},
		{"only one has a link", ports(0, 200), nil},
		{"another model", append(ports(400, 400), adapterOf("mlx5_9", topology.LinkInfiniBand, 200, gpu, func(a *topology.Adapter) { a.Model = "MT4123" })), nil},
		{"another link layer", append(ports(400, 400), adapterOf("mlx5_9", topology.LinkEthernet, 200, gpu)), nil},
		{"an adapter for storage", append(ports(400, 400), adapterOf("mlx5_9", topology.LinkInfiniBand, 200)), nil},
		{"a link that came back slower", append(ports(400, 400), adapterOf("mlx5_2", topology.LinkInfiniBand, 400, gpu, func(a *topology.Adapter) { a.Ports[0].LastGbps = 100 })), []topology.Finding{slow("mlx5_2", 100)}},
		{"no rail: InfiniBand of one model", []topology.Adapter{adapterOf("mlx5_0", topology.LinkInfiniBand, 400), adapterOf("mlx5_1", topology.LinkInfiniBand, 100)}, []topology.Finding{slow("mlx5_1", 100)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, (&topology.Node{Adapters: tt.adapters}).SlowAdapters()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
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
