package publisher

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// draDevice is a device as dra-driver-nvidia-gpu v0.4.1 writes it.
func draDevice(name, kind string, attributes map[string]string) resourcev1.Device {
	d := resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: &kind}},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: *resource.NewQuantity(189471<<20, resource.BinarySI)}}}
	version := "580.65.6"
	d.Attributes["driverVersion"] = resourcev1.DeviceAttribute{VersionValue: &version}
	for key, value := range attributes {
		d.Attributes[resourcev1.QualifiedName(key)] = resourcev1.DeviceAttribute{StringValue: &value}
	}
	return d
}

func draGPU(minor int, product string) resourcev1.Device {
	return draDevice(fmt.Sprintf("gpu-%d", minor), "gpu", map[string]string{"uuid": fmt.Sprintf("GPU-%d", minor), "productName": product,
		"resource.kubernetes.io/pciBusID": fmt.Sprintf("0000:%02x:00.0", minor)})
}

func draMIG(minor int, uuid string) resourcev1.Device {
	attributes := map[string]string{"parentUUID": fmt.Sprintf("GPU-%d", minor), "productName": "NVIDIA A100", "profile": "1g.10gb"}
	if uuid != "" {
		attributes["uuid"] = uuid
	}
	return draDevice(fmt.Sprintf("gpu-%d-mig-1g10gb-19-0", minor), "mig", attributes)
}

// draSlice is one of a node's pool.
func draSlice(node string, generation, of int64, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{GenerateName: node + "-gpu.nvidia.com-"},
		Spec: resourcev1.ResourceSliceSpec{Driver: kube.GPUDriver, NodeName: &node, Devices: devices,
			Pool: resourcev1.ResourcePool{Name: node, Generation: generation, ResourceSliceCount: of}}}
}

func readAll(t *testing.T, all ...*resourcev1.ResourceSlice) map[string]*topology.Node {
	t.Helper()
	var kept []*inputs.Slice
	for i, s := range all {
		s.Name = fmt.Sprint("slice-", i)
		slice := kube.SliceOf(s)
		kept = append(kept, &slice)
	}
	return inputs.ReadSlices(kept)
}

func TestReadSlices(t *testing.T) {
	minor := func(n int) *int { return &n }
	indexed := draGPU(0, "NVIDIA GB200")
	five, zero := int64(5), int64(0)
	indexed.Attributes["minor"] = resourcev1.DeviceAttribute{IntValue: &five}
	indexed.Attributes["index"] = resourcev1.DeviceAttribute{IntValue: &zero}
	byIndex := draGPU(1, "NVIDIA GB200")
	byIndex.Attributes["index"] = resourcev1.DeviceAttribute{IntValue: &zero}
	gpu := func(n int, at *int) topology.GPU {
		return topology.GPU{UUID: fmt.Sprintf("GPU-%d", n), Minor: at, Product: "NVIDIA GB200", MemoryMiB: 189471, PCIBusID: fmt.Sprintf("00000000:%02x:00.0", n)}
	}
	mig := topology.GPU{UUID: "GPU-2", Minor: minor(2), Product: "NVIDIA A100", MIG: []topology.MIGInstance{{UUID: "MIG-a", Profile: "1g.10gb"}}}
	for _, tt := range []struct {
		name    string
		slices  []*resourcev1.ResourceSlice
		gpus    []topology.GPU
		problem string
	}{
		{"called by minor", []*resourcev1.ResourceSlice{draSlice("n", 1, 1, draGPU(1, "NVIDIA GB200"), draGPU(0, "NVIDIA GB200"))}, []topology.GPU{gpu(0, minor(0)), gpu(1, minor(1))}, ""},
		{"called by index, with the minor", []*resourcev1.ResourceSlice{draSlice("n", 1, 1, indexed)}, []topology.GPU{gpu(0, minor(5))}, ""},
		{"called by index", []*resourcev1.ResourceSlice{draSlice("n", 1, 1, byIndex)}, []topology.GPU{gpu(1, nil)}, ""},
		{"two slices", []*resourcev1.ResourceSlice{draSlice("n", 3, 2, draGPU(1, "NVIDIA GB200")), draSlice("n", 3, 2, draGPU(0, "NVIDIA GB200"))}, []topology.GPU{gpu(0, minor(0)), gpu(1, minor(1))}, ""},
		{"one of two", []*resourcev1.ResourceSlice{draSlice("n", 3, 2, draGPU(1, "NVIDIA GB200"))}, nil, "pool n has 1 of 2 ResourceSlices"},
		{"an older one", []*resourcev1.ResourceSlice{draSlice("n", 3, 1, draGPU(1, "NVIDIA GB200")), draSlice("n", 2, 1, draGPU(0, "NVIDIA GB200"))}, []topology.GPU{gpu(1, minor(1))}, ""},
		{"MIG", []*resourcev1.ResourceSlice{draSlice("n", 1, 1, draMIG(2, "MIG-a"))}, []topology.GPU{mig}, ""},
		{"MIG that could be", []*resourcev1.ResourceSlice{draSlice("n", 1, 1, draGPU(0, "NVIDIA GB200"), draMIG(0, ""))}, []topology.GPU{gpu(0, minor(0))}, ""},
		{"lent to a virtual machine", []*resourcev1.ResourceSlice{draSlice("n", 1, 1, draGPU(0, "NVIDIA GB200"), draDevice("gpu-vfio-1", "vfio", map[string]string{"uuid": "GPU-1"}))}, []topology.GPU{gpu(0, minor(0))}, ""},
		{"two of one minor", []*resourcev1.ResourceSlice{draSlice("n", 1, 1, draGPU(0, "NVIDIA GB200"), draDevice("gpu-00", "gpu", map[string]string{"uuid": "GPU-1", "productName": "NVIDIA GB200", "resource.kubernetes.io/pciBusID": "0000:01:00.0"}))},
			[]topology.GPU{gpu(0, nil), gpu(1, nil)}, "both have minor number 0"},
		{"without a UUID", []*resourcev1.ResourceSlice{draSlice("n", 1, 1, draDevice("gpu-0", "gpu", nil))}, nil, "device gpu-0 has no uuid"},
		{"another type", []*resourcev1.ResourceSlice{draSlice("n", 1, 1, draDevice("gpu-0", "fpga", nil))}, nil, `type "fpga": want`},
	} {
		n := readAll(t, tt.slices...)["n"]
		if diff := cmp.Diff(tt.gpus, n.GPUs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if tt.problem == "" && len(n.Problems) > 0 || tt.problem != "" && (len(n.Problems) != 1 || !strings.Contains(n.Problems[0].Message, tt.problem)) {
			t.Errorf("%s: problems %v, want %q", tt.name, n.Problems, tt.problem)
		}
	}
}

// TestSlicesGiveGres makes gres.conf of nodes without a report.
func TestSlicesGiveGres(t *testing.T) {
	const product = "NVIDIA GB200"
	full := []resourcev1.Device{draGPU(1, product), draGPU(0, product), draGPU(2, product), draGPU(3, product)}
	for _, tt := range []struct {
		name    string
		slices  *resourcev1.ResourceSlice
		count   string // by label
		want    string
		problem string
	}{
		{"listed", draSlice("n1", 1, 1, full...), "4", "NodeName=n1 Name=gpu Type=gb200 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env\n", ""},
		{"listed, no label", draSlice("n1", 1, 1, full...), "", "NodeName=n1 Name=gpu Type=gb200 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env\n", ""},
		{"labels count more", draSlice("n1", 1, 1, full[:2]...), "4", "File=/dev/nvidia[0-1]", inputs.ReasonBadSlices},
		{"no slice", nil, "4", "NodeName=n1 AutoDetect=nvidia\n", ""},
		{"not all slices", draSlice("n1", 1, 2, full...), "4", "NodeName=n1 AutoDetect=nvidia\n", inputs.ReasonBadSlices},
		{"MIG", draSlice("n1", 1, 1, draMIG(2, "MIG-a")), "", "", "NoGresLine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pub := complete(t, Publication{})[0]
			labels := map[string]string{nodelabels.DefaultTiers[0]: "leaf"}
			if tt.count != "" {
				labels[nodelabels.Count] = tt.count
			}
			snap := &inputs.Snapshot{Nodes: []inputs.Node{{Name: "n1", Labels: labels}}}
			if tt.slices != nil {
				snap.Slices = readAll(t, tt.slices)
			}
			made := makeFiles(t, pub, pub.Rules.Gather(snap), Previous{})
			if got := made.Files["gres.conf"]; tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("gres.conf is\n%s\nwant %s", got, tt.want)
			}
			found := tt.problem == ""
			for _, p := range made.FilePlan.Problems {
				found = found || p.Reason == tt.problem
			}
			if !found {
				t.Errorf("problems %v, want %s", made.FilePlan.Problems, tt.problem)
			}
		})
	}
}

// TestSlicesGoMissing keeps published lines while the driver is away.
func TestSlicesGoMissing(t *testing.T) {
	pub := complete(t, Publication{})[0]
	snap := &inputs.Snapshot{Nodes: []inputs.Node{{Name: "n1", Labels: map[string]string{nodelabels.DefaultTiers[0]: "leaf", nodelabels.Count: "2"}}},
		Slices: readAll(t, draSlice("n1", 1, 1, draGPU(0, "NVIDIA T4"), draGPU(1, "NVIDIA T4")))}
	made := makeOf(t, pub, pub.Rules.Gather(snap), Previous{})
	prev := previousOf(t, pub, made.Files)
	for name, slices := range map[string]map[string]*topology.Node{"away": nil, "one GPU": readAll(t, draSlice("n1", 2, 1, draGPU(0, "NVIDIA T4")))} {
		snap.Slices = slices
		again := makeOf(t, pub, pub.Rules.Gather(snap), prev)
		if diff := cmp.Diff(made.Files["gres.conf"], again.Files["gres.conf"]); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
}
