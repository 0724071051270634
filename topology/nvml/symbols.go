//go:build cgo

package nvml

import (
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/dl"
)

// oldest is the first driver release that is supported.
const oldest = 470

// required are the functions of NVML that a node's place and devices are read by, by their
// symbols. Every supported driver has them. A call to a missing symbol ends the process, so
// Open refuses a library that lacks one of them.
var required = []string{
	"nvmlInit_v2", "nvmlShutdown",
	"nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion", "nvmlSystemGetCudaDriverVersion_v2",
	"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID",
	"nvmlDeviceGetMinorNumber", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo",
	"nvmlDeviceGetMemoryAffinity", "nvmlDeviceGetCpuAffinity",
	"nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo_v2",
	"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
	"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId",
}

// optional are the functions that only newer drivers have, and those that only Xids and the
// use of GPUs are read by. A caller looks each of them up in symbols first. Without one its
// fact is absent, which is no problem.
var optional = slices.Concat([]string{remoteDeviceType, fabricInfo, fabricInfoV, platformInfo, memoryInfoV2, fieldValues, utilization, power, energy}, computePrograms, mpsPrograms, events, exclusions, gpm)

// events are the functions of event sets, exclusions those of GPUs that the driver leaves out, and gpm
// those of GPM.
var events = []string{"nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents"}

var exclusions = []string{"nvmlGetExcludedDeviceCount", "nvmlGetExcludedDeviceInfoByIndex"}

// computePrograms and mpsPrograms are the versions of one function each. go-nvml calls the
// newest that the library has.
var (
	computePrograms = []string{"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3"}
	mpsPrograms     = []string{"nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses_v3"}
)

var gpm = []string{
	"nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree",
	"nvmlGpmSampleGet", "nvmlGpmMigSampleGet", "nvmlGpmMetricsGet",
}

const (
	remoteDeviceType = "nvmlDeviceGetNvLinkRemoteDeviceType"
	fabricInfo       = "nvmlDeviceGetGpuFabricInfo"
	fabricInfoV      = "nvmlDeviceGetGpuFabricInfoV"
	platformInfo     = "nvmlDeviceGetPlatformInfo"
	memoryInfoV2     = "nvmlDeviceGetMemoryInfo_v2"
	fieldValues      = "nvmlDeviceGetFieldValues"
	utilization      = "nvmlDeviceGetUtilizationRates"
	power            = "nvmlDeviceGetPowerUsage"
	energy           = "nvmlDeviceGetTotalEnergyConsumption"
)

// symbols tells which of the optional functions the library has.
type symbols map[string]bool

// defaultLibrary is what the loader looks for.
const defaultLibrary = "libnvidia-ml.so.1"

// loadSymbols loads the library and looks up its functions. An empty path lets the
// loader find the library. The library stays loaded.
func loadSymbols(path string) (symbols, error) {
	name, remedy := path, "correct --nvml-library or agent.nvmlLibrary"
	if path == "" {
		name, remedy = defaultLibrary, "is the NVIDIA driver installed here, and in a container NVIDIA_VISIBLE_DEVICES set?"
	}
	library := dl.New(name, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := library.Open(); err != nil {
		return nil, fmt.Errorf("load NVML: %w; %s", err, remedy)
	}
	for _, f := range required {
		if library.Lookup(f) != nil {
			return nil, fmt.Errorf("load NVML: %s lacks %s: it is no NVML, or that of a driver before %d; %s", name, f, oldest, remedy)
		}
	}
	has := symbols{}
	for _, f := range optional {
		has[f] = library.Lookup(f) == nil
	}
	return has, nil
}

// all reports whether the library has all of these functions, and any whether it has one.
func (s symbols) all(functions []string) bool {
	return !slices.ContainsFunc(functions, func(f string) bool { return !s[f] })
}

func (s symbols) any(functions []string) bool {
	return slices.ContainsFunc(functions, func(f string) bool { return s[f] })
}
