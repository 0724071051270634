package topology_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// machine returns a node of four GPUs in one NVLink domain.
func machine() *topology.Node {
	n := &topology.Node{Name: "r001n01"}
	for g := range 4 {
		n.GPUs = append(n.GPUs, topology.GPU{Index: g, UUID: fmt.Sprintf("GPU-%s-%d", n.Name, g), Minor: &g,
			Fabric: topology.Fabric{ClusterUUID: topology.UUID{0: 0x9e, 15: 1}, CliqueID: 1, State: topology.FabricCompleted}})
	}
	n.Domain = n.Joined()
	return n
}

// TestReportRoundTrip writes a report and reads it, with a key of a later release.
func TestReportRoundTrip(t *testing.T) {
	want := machine()
	data, err := topology.EncodeReport(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := topology.ParseReport("r", bytes.Replace(data, []byte("{"), []byte(`{"ofLater":1,`), 1))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const zeroUUID = "00000000-0000-0000-0000-000000000000"

func TestParseReportRefuses(t *testing.T) {
	const head = `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport",`
	tests := map[string]string{
		``:                              "r:1: report is not JSON",
		"{\n\n}x":                       "r:3: report is not JSON",
		`{"apiVersion":"quoin.dev/v2"}`: `apiVersion "quoin.dev/v2"`,
		`{"apiVersion":2}`:              `r:1: report: found number, want string for key "apiVersion"`,
		`[]`:                            `r:1: report: found array, want topology.report for key ""`,
		head + "\n" + `"gpus":"x"}`:     `r:2: report: found string, want []topology.GPU for key "gpus"`,
		head + "\n" + `"node":{}}`:      `r:2: report: found object, want string for key "node"`,
		head + `"node":"n"} {}`:         `r:1: report is not JSON`,
		head + "\n" + `"node":"n",` + "\n" + `"gpus":[{},` + "\n" + `{"index":"0"}]}`:  `r:4: report: found string, want int for key "gpus.index"`,
		head + `"node":"n","gpus":[{"memoryMiB":-1}]}`:                                 `found number -1, want uint64 for key "gpus.memoryMiB"`,
		head + `"node":"n","gpus":[{"fabric":{"healthFields":{"routeUnhealthy":1}}}]}`: `found number, want bool for key "gpus.fabric.healthFields.routeUnhealthy"`,
		head + `"gpus":[]}`:             `node: empty: want`,
		head + `"node":"n","domain":7}`: `r:1: report: found number, want topology.NVLinkDomain for key "domain"`,
		head + `"node":"n","domain":{"clusterUUID":"` + zeroUUID + `","cliqueID":1}}`:                                    `r:1: report: found object, want topology.NVLinkDomain for key "domain"`,
		head + `"node":"n","domain":"` + zeroUUID + `.1"}`:                                                               `r: report: clique "` + zeroUUID + `.1": all-zero cluster UUID`,
		head + `"node":"n","domain":"8a61c302"}`:                                                                         `r: report: clique "8a61c302": want <cluster UUID>.<clique id>, or none`,
		head + `"node":"n","gpus":[{"index":0,"uuid":"a","minor":-1}]}`:                                                  `r: report: gpus[0].minor: -1: want 0 to 1048575`,
		head + `"node":"n","gpus":[{"index":0,"uuid":"a"},{"index":1,"uuid":"a"}]}`:                                      `r: report: gpus[1].uuid: "a" is also that of gpus[0]`,
		head + `"node":"n","gpus":[{"index":0,"uuid":"a","fabric":{"cliqueID":1,"state":"almost"}}]}`:                    `gpus[0].fabric.state: "almost": want notSupported`,
		head + `"node":"n","gpus":[{"index":0,"uuid":"a","fabric":{"clusterUUID":"zz","state":"completed"}}]}`:           `r: report: UUID "zz": want 8-4-4-4-12`,
		head + `"node":"n","gpus":[{"index":0,"uuid":"a","fabric":{"cliqueID":1,"state":"completed","health":"fine"}}]}`: `gpus[0].fabric.health: "fine"`,
		head + `"node":"n","gpus":[{"index":0,"uuid":"a","fabric":{"cliqueID":4294967296,"state":"completed"}}]}`:        `found number 4294967296, want uint32 for key "gpus.fabric.cliqueID"`,
	}
	for text, want := range tests {
		if _, err := topology.ParseReport("r", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v, want %q", text, err, want)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	with := machine()
	with.Adapters = []topology.Adapter{{Name: "mlx5_0", NodeGUID: "946dae0300001234", GPUs: []string{"00000000:07:00.0"},
		Ports: []topology.AdapterPort{{Port: 1, LinkLayer: topology.LinkEthernet, RateGbps: 400, Neighbor: topology.Neighbor{ChassisID: "1c:34:da:00:00:01", PortID: "swp7"}}}}}
	for _, n := range []*topology.Node{machine(), with} {
		data, err := topology.EncodeReport(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := topology.ParseReport("f", data)
		if err != nil {
			return
		}
		once, err := topology.EncodeReport(n)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := topology.ParseReport("f", once)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := topology.EncodeReport(again); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s\nthen\n%s\n%v", once, twice, err)
		}
	})
}

func FuzzParseClique(f *testing.F) {
	f.Add("8a61c302-0000-4000-8000-000000000001.32766")
	f.Add("[N/A].[N/A]")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := topology.ParseClique(s)
		if err != nil {
			return
		}
		if c.ClusterUUID.IsZero() || !strings.EqualFold(c.String(), s) {
			t.Fatalf("%q became %s", s, c)
		}
	})
}
