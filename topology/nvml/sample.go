//go:build cgo

package nvml

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// sampler reads how devices are used. It calls the devices of the last reading, in
// the same goroutine: so a call that hangs is noticed in the same way.
type sampler struct {
	api nvml.Interface
	has symbols
	// xids count the Xids.
	xids *xids
	// root is where the machine's files are.
	root string
	// allPIDs: the driver lists the programs of all namespaces to this process.
	allPIDs bool
	// found has the devices of the last reading by UUID.
	found map[string]place
	// wanted are the UUIDs to sample, in this order. gpm has the last counters of
	// GPM.
	wanted []string
	gpm    map[string]*activity
	// metrics is GPM's answer, which is large.
	metrics nvml.GpmMetricsGetType
}

// place is a device: a GPU, or in one a MIG instance.
type place struct {
	device nvml.Device
	// parent is the GPU of an instance, and gi its GPU instance.
	parent nvml.Device
	gi     int
}

func newSampler(api nvml.Interface, has symbols, x *xids, root string) *sampler {
	return &sampler{api: api, has: has, xids: x, root: root, allPIDs: seesPIDs(root), gpm: map[string]*activity{}}
}

// seesPIDs reports whether this process is in the kernel's first PID namespace. The
// driver lists only programs that the caller's namespace can see (os_find_ns_pid in
// its sources). A container's namespace sees no program of a job.
func seesPIDs(root string) bool {
	const first = "pid:[4026531836]" // PROC_PID_INIT_INO
	const link = "proc/self/ns/pid"
	namespace, err := os.Readlink(filepath.Join(root, link))
	if err != nil { // a root without the kernel's processes
		namespace, err = os.Readlink("/" + link)
	}
	return err == nil && namespace == first
}

// SampleDevices sets the devices that Sample reads, by UUID. An empty list ends the
// sampling.
func (l *Library) SampleDevices(uuids []string) { l.sampler.want(uuids) }

// Sample reads how these devices are used. A device that is not there, or that cannot be
// read, is absent. SM activity needs two moments, so it is absent in the first sample of a
// device.
func (l *Library) Sample() topology.Sample { return l.sampler.sample() }

// Look reads the programs on all devices, and their Xids. It says nothing of how they are used.
func (l *Library) Look() topology.Sample { return l.sampler.lookAll() }

func (s *sampler) want(uuids []string) {
	s.wanted = uuids
	keep := make(map[string]bool, len(uuids))
	for _, uuid := range uuids {
		keep[uuid] = true
		if p, ok := s.found[uuid]; ok {
			s.begin(uuid, p)
		}
	}
	for uuid, a := range s.gpm {
		if !keep[uuid] {
			a.free()
			delete(s.gpm, uuid)
		}
	}
}

// begin starts GPM's counters when a device is wanted for the first time.
func (s *sampler) begin(uuid string, p place) {
	if _, begun := s.gpm[uuid]; !begun {
		s.gpm[uuid] = s.newActivity(p)
		s.since(s.gpm[uuid], p)
	}
}

func (s *sampler) sample() topology.Sample {
	out := topology.Sample{Devices: []topology.DeviceUse{}, Xids: map[string]topology.XidCounts{}, Programs: map[string][]topology.Program{}}
	for _, uuid := range s.wanted {
		s.look(uuid, &out)
		d := topology.DeviceUse{UUID: uuid}
		if p, ok := s.found[uuid]; ok {
			s.read(&d, p)
			if programs, known := out.Programs[uuid]; known {
				count := len(programs)
				d.Processes = &count
			}
		}
		if d != (topology.DeviceUse{UUID: uuid}) {
			out.Devices = append(out.Devices, d)
		}
	}
	return out
}

// lookAll looks at all devices, and at wanted ones that are lost.
func (s *sampler) lookAll() topology.Sample {
	out := topology.Sample{Xids: map[string]topology.XidCounts{}, Programs: map[string][]topology.Program{}}
	for uuid := range s.found {
		s.look(uuid, &out)
	}
	for _, uuid := range s.wanted {
		if _, found := s.found[uuid]; !found {
			s.look(uuid, &out)
		}
	}
	return out
}

// look adds the Xids and the programs of a device to a sample.
func (s *sampler) look(uuid string, out *topology.Sample) {
	if x := s.xids.count(uuid); x != nil {
		out.Xids[uuid] = *x
	}
	if p, found := s.found[uuid]; found {
		if programs := s.programs(p); programs != nil {
			out.Programs[uuid] = programs
		}
	}
}

// read reads one device. Values that the device does not tell stay nil.
func (s *sampler) read(d *topology.DeviceUse, p place) {
	if s.has[utilization] {
		if v, ret := p.device.GetUtilizationRates(); ret == nvml.SUCCESS && v.Gpu <= 100 {
			share := float64(v.Gpu) / 100
			d.Utilization = &share
		}
	}
	if total, used, ret := s.memory(p.device); ret == nvml.SUCCESS {
		d.MemoryTotal, d.MemoryUsed = &total, &used
	}
	if s.has[power] {
		if mw, ret := p.device.GetPowerUsage(); ret == nvml.SUCCESS && mw < maxMilliwatts {
			watts := float64(mw) / 1000
			d.Power = &watts
		}
	}
	if s.has[energy] {
		if mj, ret := p.device.GetTotalEnergyConsumption(); ret == nvml.SUCCESS {
			joules := float64(mj) / 1000
			d.Energy = &joules
		}
	}
	s.begin(d.UUID, p)
	graphics, sm := s.since(s.gpm[d.UUID], p)
	d.SMActivity = sm
	if d.Utilization == nil {
		d.Utilization = graphics
	}
}

// memory returns all memory and the used memory in bytes. The older form of the
// call counts the driver's own memory as used.
func (s *sampler) memory(d nvml.Device) (total, used uint64, ret nvml.Return) {
	if s.has[memoryInfoV2] {
		v2, ret := d.GetMemoryInfo_v2()
		if failure(ret) != errUnsupported { //nolint:errorlint // never wrapped
			return v2.Total, v2.Used, ret
		}
	}
	v1, ret := d.GetMemoryInfo()
	return v1.Total, v1.Used, ret
}

// programs returns the programs with a context for compute on a device, by PID, and nil if they
// are not known. A context for graphics alone is an X server's. The server of MPS works for its
// clients, which have a list of their own.
func (s *sampler) programs(p place) []topology.Program {
	if !s.has.any(computePrograms) {
		return nil
	}
	all, ret := p.device.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		return nil
	}
	if s.has.any(mpsPrograms) {
		if clients, ret := p.device.GetMPSComputeRunningProcesses(); ret == nvml.SUCCESS {
			all = append(slices.DeleteFunc(all, func(i nvml.ProcessInfo) bool { return s.isMPSServer(i.Pid) }), clients...)
		}
	}
	programs := make([]topology.Program, 0, len(all))
	for i := range all {
		program := topology.Program{PID: all[i].Pid}
		if used := all[i].UsedGpuMemory; used != notAvailable {
			program.Memory = &used
		}
		programs = append(programs, program)
	}
	slices.SortFunc(programs, func(a, b topology.Program) int { return cmp.Compare(a.PID, b.PID) })
	programs = slices.CompactFunc(programs, func(a, b topology.Program) bool { return a.PID == b.PID })
	if len(programs) == 0 && !s.allPIDs {
		if _, used, ret := s.memory(p.device); ret != nvml.SUCCESS || used >= leastContext {
			return nil
		}
	}
	return programs[:min(len(programs), topology.MaxPrograms)]
}

// notAvailable is NVML_VALUE_NOT_AVAILABLE as a size of memory.
const notAvailable = math.MaxUint64

// isMPSServer reports whether a process is the server of MPS, by its name as the kernel cuts it.
func (s *sampler) isMPSServer(pid uint32) bool {
	path := fmt.Sprintf("proc/%d/comm", pid)
	name, err := os.ReadFile(filepath.Join(s.root, path))
	if err != nil { // a root without the kernel's processes
		name, _ = os.ReadFile("/" + path)
	}
	return strings.TrimSpace(string(name)) == "nvidia-cuda-mps"
}

// leastContext is less memory than a program needs on any GPU. A device with less
// in use has no program, even if the driver does not list programs of other
// namespaces. An idle MIG instance has some tens of MiB in use.
const leastContext = 64 << 20

// maxMilliwatts is far more than a GPU takes. Some drivers answer nonsense for a
// GPU that starts.
const maxMilliwatts = 100e6

// activity is what GPM counted of a device.
type activity struct {
	last, next nvml.GpmSample
	taken      time.Time // when last was; zero before
}

// newActivity returns nil for a device without GPM.
func (s *sampler) newActivity(p place) *activity {
	gpu := p.device
	if p.parent != nil {
		gpu = p.parent
	}
	if !s.has.all(gpm) {
		return nil
	}
	if support, ret := gpu.GpmQueryDeviceSupport(); ret != nvml.SUCCESS || support.IsSupportedDevice == 0 {
		return nil
	}
	a := &activity{}
	for _, sample := range []*nvml.GpmSample{&a.last, &a.next} {
		allocated, ret := s.api.GpmSampleAlloc()
		if ret != nvml.SUCCESS {
			a.free()
			return nil
		}
		*sample = allocated
	}
	return a
}

func (a *activity) free() {
	if a == nil {
		return
	}
	for _, sample := range []nvml.GpmSample{a.last, a.next} {
		if sample != nil {
			_ = sample.Free() // nothing else can be done with it
		}
	}
}

// gpmPause is the least time between two samples of GPM that NVML asks for.
const gpmPause = 100 * time.Millisecond

// since returns two shares of the time since the last call: how long a kernel ran,
// and how many SMs were busy. An unknown share is nil.
func (s *sampler) since(a *activity, p place) (graphics, sm *float64) {
	now := time.Now()
	if a == nil || now.Sub(a.taken) < gpmPause+gpmPause/10 {
		return nil, nil
	}
	before := a.taken
	if ret := p.count(a.next); ret != nvml.SUCCESS {
		a.taken = time.Time{}
		return nil, nil
	}
	a.last, a.next, a.taken = a.next, a.last, now
	if before.IsZero() {
		return nil, nil
	}
	m := &s.metrics
	m.NumMetrics, m.Sample1, m.Sample2 = 2, a.next, a.last
	m.Metrics[0].MetricId, m.Metrics[1].MetricId = uint32(nvml.GPM_METRIC_GRAPHICS_UTIL), uint32(nvml.GPM_METRIC_SM_UTIL)
	if ret := s.api.GpmMetricsGet(m); ret != nvml.SUCCESS {
		return nil, nil
	}
	return shareOf(&m.Metrics[0]), shareOf(&m.Metrics[1])
}

// count writes the present counters into a sample of GPM.
func (p place) count(into nvml.GpmSample) nvml.Return {
	if p.parent == nil {
		return into.Get(p.device)
	}
	return into.MigGet(p.parent, p.gi)
}

// shareOf turns a metric of 0 to 100 into a share, nil if there is no value.
func shareOf(m *nvml.GpmMetric) *float64 {
	if nvml.Return(int32(m.NvmlReturn)) != nvml.SUCCESS || math.IsNaN(m.Value) || m.Value < 0 { //nolint:gosec // NVML's return codes fit
		return nil
	}
	share := min(m.Value/100, 1) // the quotient of two counters may be a little more
	return &share
}
