package switches

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// described returns adapters with descriptions. Their GUIDs are 0x100, 0x200 and so on.
func described(texts []string) *Fabric {
	f := &Fabric{}
	for i, text := range texts {
		f.devices = append(f.devices, device{kind: adapterKind, guid: uint64(i+1) << 8, text: text})
	}
	return f
}

// counts writes how many adapters each host or description has.
func counts(guids map[string][]string) string {
	var all []string
	for _, text := range slices.Sorted(maps.Keys(guids)) {
		all = append(all, fmt.Sprintf("%s:%d", text, len(guids[text])))
	}
	return strings.Join(all, " ")
}

// times returns a text a number of times, with a number from 01 in place of its %d.
func times(n int, text string) (all []string) {
	for i := range n {
		all = append(all, strings.ReplaceAll(text, "%d", fmt.Sprintf("%02d", i+1)))
	}
	return all
}

// TestHostsByTheData: all descriptions together say which first words are hosts.
func TestHostsByTheData(t *testing.T) {
	const product, second = "MT4129 ConnectX7   Mellanox Technologies", "MT4123 ConnectX6   Mellanox Technologies"
	for _, test := range []struct {
		name, hosts, nameless string // hosts with their numbers of adapters, and descriptions
		texts                 []string
		reported              map[string]string
	}{
		{name: "names of devices as udev gives them", hosts: "t01:4 t02:4",
			texts: []string{"t01 ibp3s0", "t01 ibP2p3s0", "t01 ibP16p3s0", "t01 ibP18p3s0", "t02 ibp3s0", "t02 ibP2p3s0", "t02 ibP16p3s0", "t02 ibP18p3s0"}},
		{name: "each host has names of its own", hosts: "n01:3 n02:2", texts: []string{"n01 ibxe09d73030", "n01 ibo1", "n01 ibs3", "n02 mezz_0", "n02 mezz_1"}},
		{name: "one adapter in each host", hosts: "n01:1 n02.example.com:1", texts: []string{"n01 compute1", "n02.example.com compute1"}},
		{name: "HCA with a number", hosts: "a06-p1-dgx-02-c18:2", texts: []string{"a06-p1-dgx-02-c18 HCA-1", "a06-p1-dgx-02-c18 HCA-6"}},
		{name: "a product on many adapters", hosts: "n01:1 n02:1", nameless: product + ":3",
			texts: append(times(3, product), "n01 mlx5_0", "n02 mlx5_0")},
		{name: "a product of two words", hosts: "n01:1 n02:1", nameless: "MT4129 ConnectX7:2", texts: append(times(2, "MT4129 ConnectX7"), "n01 mlx5_0", "n02 mlx5_0")},
		{name: "a product once", hosts: "n01:2", nameless: second + ":1 " + product + ":1", texts: []string{product, "n01 mlx5_0", "n01 mlx5_1", second}},
		{name: "products alone", nameless: product + ":2", texts: times(2, product)},
		{name: "two machines without a name", hosts: "n01:2", nameless: "localhost mlx5_0:2 localhost mlx5_1:1",
			texts: []string{"localhost mlx5_0", "localhost mlx5_1", "localhost mlx5_0", "n01 mlx5_0", "n01 mlx5_1"}},
		{name: "one machine without a name", hosts: "n01:2", nameless: "localhost:1 localhost.localdomain mlx5_0:1", texts: []string{"localhost.localdomain mlx5_0", "localhost", "n01 mlx5_0", "n01 mlx5_1"}},
		{name: "two machines with one name", hosts: "n01:2", nameless: "n07 mlx5_0:2 n07 mlx5_1:1", texts: []string{"n07 mlx5_0", "n07 mlx5_1", "n07 mlx5_0", "n01 mlx5_0", "n01 mlx5_1"}},
		{name: "a node-name-map with host and product", hosts: "n01:1 n02:1 n03:1", nameless: "MT4119 ConnectX5   Mellanox Technologies:1",
			texts: append(times(3, "n%d  MT4119 ConnectX5"), "MT4119 ConnectX5   Mellanox Technologies")},
		{name: "the host alone", hosts: "atlas35:2 atlas36:1", texts: []string{"atlas35", "atlas35", "atlas36"}},
		{name: "the device alone", hosts: "n01:1 n02:1", nameless: "mlx5_0:1", texts: []string{"n01 mlx5_0", "n02 mlx5_0", "mlx5_0"}},
		{name: "hosts that have names of devices", hosts: "gpu0:2 gpu1:2", texts: []string{"gpu0 gpu0", "gpu0 gpu1", "gpu1 gpu0", "gpu1 gpu1"}},
		{name: "one word on more adapters than a host has", nameless: "ConnectX:33", texts: times(33, "ConnectX")},
		{name: "one word before more devices than a host has", nameless: strings.Join(times(33, "node %d:1"), " "), texts: times(33, "node %d")},
		{name: "two words once, in the form that others show", hosts: "n01:1 n02:1 ufm:1", texts: []string{"n01 mlx5_0", "n02 mlx5_0", "ufm hfi1_0"}},
		{name: "two words once, and nothing shows a form", nameless: "ufm hfi1_0:1 x y z:1", texts: []string{"ufm hfi1_0", "x y z"}},
		{name: "two words once, and a report proves the form", hosts: "n01:1 ufm:1", texts: []string{"ufm hfi1_0", "n01 mlx5_0"}, reported: map[string]string{"0000000000000200": "n01 mlx5_0"}},
		{name: "a report proves no form that nobody wrote", hosts: "n01:2", nameless: "ufm hfi1_0:1", texts: []string{"ufm hfi1_0", product, product},
			reported: map[string]string{"0000000000000200": "n01 mlx5_0", "0000000000000300": "n01 mlx5_1"}},
		{name: "reports name adapters whatever they say", hosts: "n01:2 n02:1", nameless: "n01 mlx5_0:1", texts: []string{product, "localhost mlx5_1", "a,b", "n01 mlx5_0"},
			reported: map[string]string{"0000000000000100": "n01 mlx5_0", "0000000000000200": "n01 mlx5_1", "0000000000000300": "n02 mlx5_0"}},
		{name: "no name of a host", hosts: "n01:2", nameless: ":1 (none) mlx5_0:1 a,b mlx5_0:1 n[1-3] mlx5_0:1", texts: []string{"a,b mlx5_0", "n[1-3] mlx5_0", "", "(none) mlx5_0", "n01 mlx5_0", "n01 mlx5_1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			hosts, nameless := readHosts([]*Fabric{described(test.texts)}, test.reported)
			if diff := cmp.Diff(test.hosts, counts(hosts)); diff != "" {
				t.Errorf("hosts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.nameless, counts(nameless)); diff != "" {
				t.Errorf("adapters without a host (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHosts: descriptions name hosts, for those that have no reports.
func TestHosts(t *testing.T) {
	f, err := Read(strings.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	l := newLab()
	l.leaf("leaf")
	l.host("n08", "leaf", "leaf")
	for i := range 8 {
		name := string(rune('a' + i))
		l.add(adapterKind, name, []string{"MT4129 ConnectX7", "MT4123 ConnectX6"}[i/5])
		l.join(name, "leaf", 1)
	}
	l.add(adapterKind, "odd", "x y z")
	l.join("odd", "leaf", 1)
	hosts, problems := Hosts([]*Fabric{f, f, l.fabric()}, nil)
	if diff := cmp.Diff([]Node{
		{Name: "n07", Adapters: []Adapter{{GUIDs: []string{"e09d730300859298"}}}},
		{Name: "n08", Adapters: []Adapter{{GUIDs: []string{"e09d730300000020"}}, {GUIDs: []string{"e09d730300000030"}}}},
	}, hosts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	const remedy = "; give reports, or have each machine write a host name of its own there (rdma-ndd)"
	if diff := cmp.Diff([]topology.Finding{
		{Severity: topology.Warning, Reason: ReasonAdapterNameless, Message: `the nodes of 5 adapters are not known: their description "MT4129 ConnectX7" does not name one host, and no report has their GUIDs: e09d730300000040, e09d730300000050, e09d730300000060 and 2 more` + remedy},
		{Severity: topology.Warning, Reason: ReasonAdapterNameless, Message: `the nodes of 3 adapters are not known: their description "MT4123 ConnectX6" does not name one host, and no report has their GUIDs: e09d730300000090, e09d7303000000a0, e09d7303000000b0` + remedy},
		{Severity: topology.Warning, Reason: ReasonAdapterNameless, Message: `the node of adapter e09d7303000000c0 is not known: its description "x y z" does not name one host, and no report has its GUID` + remedy},
	}, problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
