//go:build cgo

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A call to a symbol that the library lacks ends the process, so each call goes
// through [guarded], which looks the symbol up first.

// symbols tells which of the functions in [functions] the library has.
type symbols map[string]bool

// need says what follows if the library lacks a function.
type need int

const (
	// newer: only newer drivers have it. The fact is absent, without a problem.
	newer need = iota
	// sampled: only samples use it. The value is absent in samples; reports are
	// complete.
	sampled
	// expected: every supported driver has it. The fact is absent, with a problem.
	expected
	// essential: nothing can be read without it.
	essential
)

// oldest is the first driver release that is supported.
const oldest = 470

// functions are all functions of NVML that are called, by their symbols. go-nvml
// takes the newest version of a function that the library has.
var functions = [...]struct {
	name string
	need need
}{
	{"nvmlInit_v2", essential},
	{"nvmlDeviceGetCount_v2", essential},
	{"nvmlDeviceGetHandleByIndex_v2", essential},
	{"nvmlDeviceGetUUID", essential},

	{"nvmlShutdown", expected},
	{"nvmlSystemGetDriverVersion", expected},
	{"nvmlSystemGetNVMLVersion", expected},
	{"nvmlSystemGetCudaDriverVersion_v2", expected},
	{"nvmlDeviceGetMinorNumber", expected},
	{"nvmlDeviceGetPciInfo_v3", expected},
	{"nvmlDeviceGetName", expected},
	{"nvmlDeviceGetMemoryInfo", expected},
	{"nvmlDeviceGetMemoryAffinity", expected},
	{"nvmlDeviceGetCpuAffinity", expected},
	{"nvmlDeviceGetTopologyCommonAncestor", expected},
	{"nvmlDeviceGetNvLinkState", expected},
	{"nvmlDeviceGetNvLinkRemotePciInfo_v2", expected},
	{"nvmlDeviceGetMigMode", expected},
	{"nvmlDeviceGetMaxMigDeviceCount", expected},
	{"nvmlDeviceGetMigDeviceHandleByIndex", expected},
	{"nvmlDeviceGetGpuInstanceId", expected},
	{"nvmlDeviceGetComputeInstanceId", expected},
	{"nvmlEventSetCreate", expected},
	{"nvmlEventSetFree", expected},
	{"nvmlEventSetWait_v2", expected},
	{"nvmlDeviceGetSupportedEventTypes", expected},
	{"nvmlDeviceRegisterEvents", expected},

	{"nvmlDeviceGetNvLinkRemoteDeviceType", newer},
	{"nvmlDeviceGetGpuFabricInfo", newer},
	{"nvmlDeviceGetGpuFabricInfoV", newer},
	{"nvmlDeviceGetPlatformInfo", newer},

	{"nvmlDeviceGetUtilizationRates", sampled},
	{"nvmlDeviceGetMemoryInfo_v2", sampled},
	{"nvmlDeviceGetPowerUsage", sampled},
	{"nvmlDeviceGetTotalEnergyConsumption", sampled},
	{"nvmlDeviceGetComputeRunningProcesses", sampled},
	{"nvmlDeviceGetComputeRunningProcesses_v2", sampled},
	{"nvmlDeviceGetComputeRunningProcesses_v3", sampled},
	{"nvmlDeviceGetGraphicsRunningProcesses", sampled},
	{"nvmlDeviceGetGraphicsRunningProcesses_v2", sampled},
	{"nvmlDeviceGetGraphicsRunningProcesses_v3", sampled},
	{"nvmlGpmQueryDeviceSupport", sampled},
	{"nvmlGpmSampleAlloc", sampled},
	{"nvmlGpmSampleFree", sampled},
	{"nvmlGpmSampleGet", sampled},
	{"nvmlGpmMigSampleGet", sampled},
	{"nvmlGpmMetricsGet", sampled},
}

// defaultLibrary is what the loader looks for.
const defaultLibrary = "libnvidia-ml.so.1"

// loadSymbols loads the library and looks up its functions. An empty path lets the
// loader find the library. The library stays loaded.
func loadSymbols(path string) (symbols, error) {
	name, advice := path, "correct --nvml-library or agent.nvmlLibrary"
	if path == "" {
		name, advice = defaultLibrary, "is the NVIDIA driver installed here, and in a container NVIDIA_VISIBLE_DEVICES set?"
	}
	library := dl.New(name, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := library.Open(); err != nil {
		return nil, fmt.Errorf("load NVML: %w; %s", err, advice)
	}
	has := symbols{}
	for _, f := range functions {
		has[f.name] = library.Lookup(f.name) == nil
		if f.need == essential && !has[f.name] {
			return nil, fmt.Errorf("load NVML: %s lacks %s: it is no NVML, or that of a driver before %d; %s", name, f.name, oldest, advice)
		}
	}
	return has, nil
}

// missing names the functions that the library should have and lacks.
func (s symbols) missing() []string {
	var names []string
	for _, f := range functions {
		if f.need == expected && !s[f.name] {
			names = append(names, f.name)
		}
	}
	return names
}

// guarded makes a call if the library has it.
func guarded[T any](has symbols, name string, call func() (T, nvml.Return)) (T, nvml.Return) {
	if !has[name] {
		var none T
		return none, nvml.ERROR_FUNCTION_NOT_FOUND
	}
	return call()
}
