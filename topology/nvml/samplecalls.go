//go:build cgo

package nvml

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// These are the calls of samples, on a GPU or a MIG instance. Each looks its symbol
// up first.

func (g gpu) utilization() (nvml.Utilization, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetUtilizationRates", g.GetUtilizationRates)
}

// memory returns all memory and the used memory in bytes. The older form of the
// call counts the driver's own memory as used.
func (g gpu) memory() (total, used uint64, ret nvml.Return) {
	v2, ret := guarded(g.has, "nvmlDeviceGetMemoryInfo_v2", g.GetMemoryInfo_v2)
	if failure(ret) != errUnsupported { //nolint:errorlint // never wrapped
		return v2.Total, v2.Used, ret
	}
	v1, ret := g.GetMemoryInfo()
	return v1.Total, v1.Used, ret
}

// power is in milliwatts.
func (g gpu) power() (uint32, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetPowerUsage", g.GetPowerUsage)
}

// energy is in millijoules since the driver was loaded.
func (g gpu) energy() (uint64, nvml.Return) {
	return guarded(g.has, "nvmlDeviceGetTotalEnergyConsumption", g.GetTotalEnergyConsumption)
}

// programs counts the programs with a context for compute, for graphics, or for
// both.
func (g gpu) programs() (int, nvml.Return) {
	compute, ret := g.processes("nvmlDeviceGetComputeRunningProcesses", g.GetComputeRunningProcesses)
	if ret != nvml.SUCCESS {
		return 0, ret
	}
	pids := make(map[uint32]bool, len(compute))
	for _, p := range compute {
		pids[p.Pid] = true
	}
	graphics, ret := g.processes("nvmlDeviceGetGraphicsRunningProcesses", g.GetGraphicsRunningProcesses)
	for i := 0; ret == nvml.SUCCESS && i < len(graphics); i++ {
		pids[graphics[i].Pid] = true
	}
	return len(pids), nvml.SUCCESS
}

// processes calls a function. go-nvml takes its newest version that the library
// has.
func (g gpu) processes(name string, call func() ([]nvml.ProcessInfo, nvml.Return)) ([]nvml.ProcessInfo, nvml.Return) {
	if !g.has[name] && !g.has[name+"_v2"] && !g.has[name+"_v3"] {
		return nil, nvml.ERROR_FUNCTION_NOT_FOUND
	}
	return call()
}

// hasGPM reports whether GPU and library support GPM.
func (g gpu) hasGPM() bool {
	support, ret := guarded(g.has, "nvmlGpmQueryDeviceSupport", g.GpmQueryDeviceSupport)
	return ret == nvml.SUCCESS && support.IsSupportedDevice != 0
}

// takeGPM writes the present counters into a sample of GPM.
func (p place) takeGPM(into nvml.GpmSample) nvml.Return {
	if p.parent == nil {
		_, ret := guarded(p.device.has, "nvmlGpmSampleGet", func() (struct{}, nvml.Return) { return struct{}{}, into.Get(p.device.Device) })
		return ret
	}
	_, ret := guarded(p.device.has, "nvmlGpmMigSampleGet", func() (struct{}, nvml.Return) { return struct{}{}, into.MigGet(p.parent.Device, p.gi) })
	return ret
}
