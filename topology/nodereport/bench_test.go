package nodereport

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

// hgx is a machine of 8 GPUs with 18 NVLinks each.
func hgx() *topology.Node {
	n := &topology.Node{Name: "n1", BootID: "8a61c302-0000-4000-8000-000000000001", DriverVersion: "580.65.06", NVMLVersion: "13.580.65.06", CUDAVersion: "13.0",
		Sockets: []topology.Socket{{CPUs: "0-27,56-83", Cores: 28}, {CPUs: "28-55,84-111", Cores: 28}}}
	for g := range 8 {
		gpu := topology.GPU{Index: g, UUID: fmt.Sprintf("GPU-8a61c302-0000-4000-8000-%012d", g), Minor: &g, PCIBusID: fmt.Sprintf("00000000:%02x:00.0", g),
			Product: "NVIDIA H100 80GB HBM3", MemoryMiB: 81559, NUMANode: new(g / 4), CPUAffinity: "0-27,56-83", Links: &topology.Links{Switch: 18}, Fabric: topology.Fabric{State: topology.FabricNotSupported}}
		n.GPUs = append(n.GPUs, gpu)
	}
	n.Domain = n.Joined()
	return n
}

func BenchmarkObject(b *testing.B) {
	text, err := topology.EncodeReport(hgx())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var o Object
		if err := json.Unmarshal(text, &o); err != nil {
			b.Fatal(err)
		}
	}
}
