//go:build cgo

package nvml

import (
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/dl"
)

// oldest is the first driver release that is supported.
const oldest = 470

// required are the functions of NVML that are called at once, by their symbols. Every
// supported driver has them. A call to a missing symbol ends the process, so
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
	"nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents",
	"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption",
	"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses",
}

// newer are the functions that only newer drivers have. A caller looks each of them
// up in symbols first. Without one its fact is absent, which is no problem.
var newer = append([]string{remoteDeviceType, fabricInfo, fabricInfoV, platformInfo, memoryInfoV2, fieldValues}, gpm...)

// gpm are the functions of GPM, which came in one release.
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
)

// symbols tells which of the newer functions the library has.
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
	for _, f := range newer {
		has[f] = library.Lookup(f) == nil
	}
	return has, nil
}

// gpm reports whether the library has GPM.
func (s symbols) gpm() bool {
	return !slices.ContainsFunc(gpm, func(f string) bool { return !s[f] })
}
