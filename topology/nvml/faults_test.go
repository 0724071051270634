//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/topology"
)

// withMIG gives GPU 1 two MIG devices, and an NVLink to GPU 0.
var withMIG = []string{"gpu 1", "links 0 gpu 00000000:0A:00.0", "mig on 7",
	"migdevice 0 MIG-a 1 0 NVIDIA GB200 MIG 1g.24gb", "migdevice 2 MIG-b 2 0 NVIDIA GB200 MIG 1g.24gb"}

// TestLoadedErrors has each call answer each of NVML's errors, on one GPU. The
// fact is absent and named, all others are as they were.
func TestLoadedErrors(t *testing.T) {
	type node = topology.Node
	noEnds := func(n *node) { n.GPUs[1].Links = &topology.Links{Unknown: n.GPUs[1].Links.Active()} }
	noMIG := func(n *node) { n.GPUs[1].MIG = nil }
	noGPU := func(n *node) { n.GPUs = slices.Delete(n.GPUs, 1, 2) }
	noMinor := func(n *node) {
		n.GPUs[1].Minor, n.GPUs[1].MIG[0].Capabilities, n.GPUs[1].MIG[1].Capabilities = nil, nil, nil
	}
	const one = " of GPU GPU-b200b200-0000-0000-0000-000000000001"
	tests := []struct {
		call, fact string
		// without takes the fact from the good report.
		without func(*node)
		// none are the codes that say that there is nothing to read.
		none []nvml.Return
		// loud are the codes that are otherwise no problem.
		loud []nvml.Return
		// every has the call fail on every GPU.
		every bool
	}{
		{call: "nvmlSystemGetDriverVersion", fact: "driver version", without: func(n *node) { n.DriverVersion = "" }, every: true},
		{call: "nvmlSystemGetNVMLVersion", fact: "NVML version", without: func(n *node) { n.NVMLVersion = "" }, every: true},
		{call: "nvmlSystemGetCudaDriverVersion_v2", fact: "CUDA version", without: func(n *node) { n.CUDAVersion = "" }, every: true},
		{call: "nvmlDeviceGetHandleByIndex_v2", fact: "open GPU 1", without: noGPU},
		{call: "nvmlDeviceGetUUID", fact: "GPU 1: read UUID", without: noGPU},
		{call: "nvmlDeviceGetMinorNumber", fact: "minor number" + one, without: noMinor},
		{call: "nvmlDeviceGetPciInfo_v3", fact: "PCI address" + one, without: func(n *node) { n.GPUs[1].PCIBusID = "" }},
		{call: "nvmlDeviceGetName", fact: "product name" + one, without: func(n *node) {
			n.GPUs[1].Product, n.GPUs[1].MIG[0].Profile, n.GPUs[1].MIG[1].Profile = "", "", ""
		}},
		{call: "nvmlDeviceGetMemoryInfo", fact: "memory" + one, without: func(n *node) { n.GPUs[1].MemoryMiB = 0 }},
		{call: "nvmlDeviceGetMemoryAffinity", fact: "NUMA node" + one, without: func(n *node) { n.GPUs[1].NUMANode = nil }},
		{call: "nvmlDeviceGetCpuAffinity", fact: "CPU affinity" + one, without: func(n *node) { n.GPUs[1].CPUAffinity = "" }},
		{call: "nvmlDeviceGetNvLinkState", fact: "NVLink 0" + one, without: func(n *node) { n.GPUs[1].Links = nil }, none: []nvml.Return{nvml.ERROR_INVALID_ARGUMENT}},
		{call: "nvmlDeviceGetNvLinkRemoteDeviceType", fact: "other end of an NVLink" + one, without: noEnds},
		{call: "nvmlDeviceGetNvLinkRemotePciInfo_v2", fact: "other end of an NVLink" + one, without: func(n *node) { n.GPUs[1].Links.GPUs[0].PCIBusID = "" }},
		{call: "nvmlDeviceGetMigMode", fact: "MIG mode" + one, without: noMIG},
		{call: "nvmlDeviceGetMaxMigDeviceCount", fact: "MIG devices" + one, without: noMIG},
		{call: "nvmlDeviceGetMigDeviceHandleByIndex", fact: "MIG device 0" + one, without: noMIG, none: []nvml.Return{nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_NOT_FOUND}},
		{call: "nvmlDeviceGetGpuInstanceId", fact: "MIG GPU instance id" + one, without: noMIG},
		{call: "nvmlDeviceGetComputeInstanceId", fact: "MIG compute instance id" + one, without: noMIG},
		{call: "nvmlDeviceGetGpuFabricInfoV", fact: "fabric" + one, without: func(n *node) { n.GPUs[1].Fabric = topology.Fabric{} }},
		{call: "nvmlDeviceGetPlatformInfo", fact: "platform of GPU GPU-b200b200-0000-0000-0000-000000000000", without: func(n *node) { n.Platform = nil }, every: true, loud: []nvml.Return{nvml.ERROR_ARGUMENT_VERSION_MISMATCH}},
	}
	for _, tt := range tests {
		t.Run(tt.call, func(t *testing.T) {
			t.Parallel()
			m := fake.New(t, "gb200", withMIG...)
			p := start(t, 580, m)
			good := p.read()
			if len(good.Problems) > 0 || len(good.GPUs[1].MIG) != 2 {
				t.Fatalf("%+v", good)
			}
			for _, ret := range errorCodes() {
				if ends := []nvml.Return{nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH}; tt.fact == "open GPU 1" && slices.Contains(ends, ret) {
					continue // TestLoadedInit has them
				}
				where := "gpu 1"
				if tt.every {
					where = "gpu *"
				}
				m.Change(append(withMIG, where, fmt.Sprintf("call %s error %d", tt.call, ret))...)
				got := p.read()
				problems := got.Problems
				got.Problems = nil
				want := clone(t, good)
				fabric := tt.call == "nvmlDeviceGetGpuFabricInfoV"
				switch {
				case fabric && ret == nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
					want.GPUs[1].Fabric.Health, want.GPUs[1].Fabric.HealthFields = "", topology.FabricHealth{} // an older form has the rest
				case fabric && ret == nvml.ERROR_NOT_SUPPORTED:
					want.GPUs[1].Fabric = topology.Fabric{State: topology.FabricNotSupported}
				case tt.call == "nvmlDeviceGetMigDeviceHandleByIndex" && slices.Contains(tt.none, ret):
					want.GPUs[1].MIG, want.GPUs[1].MIGEmpty = nil, true // MIG is on, and no slot has an instance
				case tt.call == "nvmlDeviceGetNvLinkState" && (slices.Contains(tt.none, ret) || errors.Is(failure(ret), errUnsupported)):
					want.GPUs[1].Links = &topology.Links{} // NVML has none
				default:
					tt.without(want)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", code(ret), diff)
				}
				unsupported := errors.Is(failure(ret), errUnsupported) && !slices.Contains(tt.loud, ret)
				silent := unsupported && len(got.GPUs) == len(good.GPUs) || slices.Contains(tt.none, ret)
				switch {
				case silent != (len(problems) == 0):
					t.Errorf("%s: problems %v", code(ret), problems)
				case silent:
				case !strings.HasPrefix(problems[0].Message, tt.fact+": "), !errors.Is(failure(ret), errUnsupported) && !strings.HasSuffix(problems[0].Message, ": "+code(ret)):
					t.Errorf("problem %q, want %q and %s", problems[0].Message, tt.fact, code(ret))
				}
			}
		})
	}
}

func clone(t *testing.T, n *topology.Node) *topology.Node {
	t.Helper()
	report, err := topology.EncodeReport(n)
	if err != nil {
		t.Fatal(err)
	}
	n, err = topology.ParseReport("clone", report)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// errorCodes are all that NVML's header has, and one that it has not.
func errorCodes() []nvml.Return {
	codes := []nvml.Return{nvml.ERROR_UNKNOWN, 500}
	for ret := nvml.ERROR_UNINITIALIZED; ret <= nvml.ERROR_RESET_TYPE_NOT_SUPPORTED; ret++ {
		codes = append(codes, ret)
	}
	return codes
}

// TestLoadedInit gives the errors that leave nothing to read, at the start and in
// the middle: NVML must then be opened anew.
func TestLoadedInit(t *testing.T) {
	const anew = "; NVML has to be initialised again"
	tests := []struct{ call, want string }{
		{"call nvmlInit_v2 error 9", "initialise NVML: DRIVER_NOT_LOADED; is the kernel module nvidia loaded?"},
		{"call nvmlInit_v2 error 18", "initialise NVML: LIB_RM_VERSION_MISMATCH; library and kernel module are of two releases: reboot the node, or restart the container"},
		{"call nvmlInit_v2 error 4", "initialise NVML: NO_PERMISSION; may this user open /dev/nvidiactl and /dev/nvidia0? In a container, are the devices there?"},
		{"call nvmlInit_v2 error 999", "initialise NVML: UNKNOWN"},
		{"call nvmlDeviceGetCount_v2 error 15", "count GPUs: GPU_IS_LOST"},
		{"call nvmlDeviceGetCount_v2 error 1", "count GPUs: UNINITIALIZED"},
		{"gpu 5\ncall nvmlDeviceGetHandleByIndex_v2 error 1", "open GPU 5: UNINITIALIZED" + anew},
		{"gpu 5\ncall nvmlDeviceGetHandleByIndex_v2 error 9", "open GPU 5: DRIVER_NOT_LOADED" + anew},
		{"gpu 5\ncall nvmlDeviceGetHandleByIndex_v2 error 18", "open GPU 5: LIB_RM_VERSION_MISMATCH" + anew},
	}
	for _, tt := range tests {
		t.Run(tt.call, func(t *testing.T) {
			if said := start(t, 580, fake.New(t, "gb200", tt.call)).ends(); said != tt.want {
				t.Errorf("%s\nwant %s", said, tt.want)
			}
			if strings.Contains(tt.call, "Init") {
				return
			}
			m := fake.New(t, "gb200")
			p := start(t, 580, m)
			p.read()
			m.Change(tt.call)
			if said := p.ends(); said != tt.want {
				t.Errorf("later: %s\nwant %s", said, tt.want)
			}
		})
	}
}

// TestLoadedLostGPU loses a GPU and gets it back.
func TestLoadedLostGPU(t *testing.T) {
	m := fake.New(t, "h100")
	p := start(t, 550, m)
	want := p.read()
	m.Change("gpu 2", "lost")
	got := p.read()
	problems := []topology.Finding{{Reason: "GPUUnreadable", Message: "open GPU 2: GPU_IS_LOST"}}
	if diff := cmp.Diff(problems, got.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	left := clone(t, want)
	left.GPUs = slices.Delete(left.GPUs, 2, 3)
	if diff := cmp.Diff(left.GPUs, got.GPUs); diff != "" {
		t.Errorf("the other GPUs (-want +got):\n%s", diff)
	}
	m.Change()
	if diff := cmp.Diff(want, p.read()); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

// TestLoadedOldDrivers reads a machine through libraries that lack what came
// later: no call to what is missing, and nothing but that is absent.
func TestLoadedOldDrivers(t *testing.T) {
	noHealth := func(n *topology.Node) {
		for i := range n.GPUs {
			n.GPUs[i].Fabric.Health = ""
		}
	}
	noFields := func(n *topology.Node) {
		for i := range n.GPUs {
			n.GPUs[i].Fabric.HealthFields = topology.FabricHealth{}
		}
	}
	noPlatform := func(n *topology.Node) { n.Platform = nil }
	noFabric := func(n *topology.Node) {
		for i := range n.GPUs {
			n.GPUs[i].Fabric = topology.Fabric{State: topology.FabricNotSupported}
		}
	}
	noRemote := func(n *topology.Node) {
		for i := range n.GPUs {
			n.GPUs[i].Links = &topology.Links{Unknown: n.GPUs[i].Links.Active()}
		}
	}
	tests := []struct {
		driver int
		symbol string // that it has not
		less   []func(*topology.Node)
	}{
		{570, "", []func(*topology.Node){noHealth}},
		{550, "nvmlDeviceGetPlatformInfo", []func(*topology.Node){noHealth, noPlatform}},
		{525, "nvmlDeviceGetGpuFabricInfoV", []func(*topology.Node){noHealth, noFields, noPlatform}},
		{510, "nvmlDeviceGetGpuFabricInfo", []func(*topology.Node){noPlatform, noFabric}},
		{470, "nvmlDeviceGetNvLinkRemoteDeviceType", []func(*topology.Node){noPlatform, noFabric, noRemote}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.driver), func(t *testing.T) {
			t.Parallel()
			want := start(t, 580, fake.New(t, "gb200")).read()
			for _, less := range tt.less {
				less(want)
			}
			if diff := cmp.Diff(want, start(t, tt.driver, fake.New(t, "gb200")).read()); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			for _, name := range []string{"gb300", "b200", "h100", "a100-mig", "t4"} {
				if n := start(t, tt.driver, fake.New(t, name)).read(); len(n.GPUs) == 0 || len(n.Problems) > 0 {
					t.Errorf("%s: %d GPUs, problems %v", name, len(n.GPUs), n.Problems)
				}
			}
			symbols, err := exec.CommandContext(t.Context(), "nm", "-D", fake.Library(t, tt.driver)).Output()
			if err != nil {
				t.Fatal(err)
			}
			if tt.symbol != "" && strings.Contains(string(symbols), " "+tt.symbol+"\n") {
				t.Errorf("the library has %s", tt.symbol)
			}
		})
	}
}

// TestLoadedChanges has a running reader see what changes on the machine.
func TestLoadedChanges(t *testing.T) {
	m := fake.New(t, "a100-mig")
	p := start(t, 550, m)
	if n := p.read(); len(n.GPUs[0].MIG) != 7 || len(n.GPUs[1].MIG) != 3 {
		t.Fatalf("%+v", n.GPUs[:2])
	}
	m.Change("gpu 0", "migdevice none", "migdevice 4 MIG-new 9 0 NVIDIA A100-SXM4-40GB MIG 3g.20gb", "gpu 1", "mig off 7")
	n := p.read()
	want := []topology.MIGInstance{{UUID: "MIG-new", Profile: "3g.20gb", GPUInstanceID: 9, Capabilities: []string{"/dev/nvidia-caps/nvidia-cap84", "/dev/nvidia-caps/nvidia-cap85"}}}
	if diff := cmp.Diff(want, n.GPUs[0].MIG); diff != "" {
		t.Errorf("instances after the change (-want +got):\n%s", diff)
	}
	if n.GPUs[1].MIG != nil || len(n.Problems) > 0 {
		t.Errorf("MIG is off: %+v, problems %v", n.GPUs[1].MIG, n.Problems)
	}
}

// TestLoadedStrangeFabric has answers that NVML's header does not allow, or
// that say less than they seem to.
func TestLoadedStrangeFabric(t *testing.T) {
	yes, no := true, false
	tests := []struct {
		fabric  string
		want    topology.Fabric
		problem string
	}{
		{"7", topology.Fabric{}, "state 7 is none that this version knows"},
		{"4", topology.Fabric{}, "state 4 is none that this version knows"},
		{"notStarted", topology.Fabric{State: topology.FabricNotStarted}, ""},
		{"completed 0 00 5 3 0", topology.Fabric{CliqueID: 5, State: topology.FabricCompleted, Health: topology.HealthLimitedCapacity}, ""},
		{"completed 500 00 5 9 0", topology.Fabric{CliqueID: 5, State: topology.FabricCompleted, Status: "NVML error 500"}, ""},
		{"completed 15 1122 5 1", topology.Fabric{ClusterUUID: topology.UUID{0x11, 0x22}, CliqueID: 5, State: topology.FabricCompleted, Status: "GPU_IS_LOST", Health: topology.HealthHealthy}, ""},
		{"completed 0 00 4294967295 2 1", topology.Fabric{CliqueID: 1<<32 - 1, State: topology.FabricCompleted, Health: topology.HealthUnhealthy, HealthFields: topology.FabricHealth{DegradedBandwidth: &yes}}, ""},
		{"inProgress 999 00 0 2 1", topology.Fabric{State: topology.FabricInProgress}, ""},
		{"completed 0 00 5 2 0x2c51", topology.Fabric{CliqueID: 5, State: topology.FabricCompleted, Health: topology.HealthUnhealthy,
			HealthFields: topology.FabricHealth{DegradedBandwidth: &yes, RouteUnhealthy: &yes, AccessTimeoutRecovery: &yes, PartitionAssigned: &no, IncorrectConfiguration: "12"}}, ""},
		{"notSupported", topology.Fabric{State: topology.FabricNotSupported}, ""},
	}
	m := fake.New(t, "h100")
	p := start(t, 580, m)
	for _, tt := range tests {
		t.Run(tt.fabric, func(t *testing.T) {
			m.Change("gpu 3", "fabric "+tt.fabric)
			n := p.read()
			if diff := cmp.Diff(tt.want, n.GPUs[3].Fabric); diff != "" {
				t.Errorf("fabric (-want +got):\n%s", diff)
			}
			if tt.problem == "" && len(n.Problems) > 0 || tt.problem != "" && !strings.Contains(fmt.Sprint(n.Problems), tt.problem) {
				t.Errorf("problems %v, want %q", n.Problems, tt.problem)
			}
		})
	}
}
