//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	h100a = "GPU-01000100-0000-0000-0000-000000000000"
	h100b = "GPU-01000100-0000-0000-0000-000000000001"
)

// sampling is a process that has read the machine and samples devices.
func sampling(t testing.TB, driver int, m *fake.Machine, uuids ...string) *process {
	t.Helper()
	m.Namespace(fake.FirstNamespace)
	p := start(t, driver, m)
	p.read()
	p.sampleOf(uuids...)
	return p
}

// sampleOf sets the devices that are sampled. A first sample shows that the process has
// done so, because GPM counts from then on.
func (p *process) sampleOf(uuids ...string) {
	p.t.Helper()
	p.say("want " + strings.Join(uuids, " "))
	p.sample()
}

// sample returns how the devices are used now, by UUID.
func (p *process) sample() map[string]topology.DeviceUse {
	p.t.Helper()
	out := map[string]topology.DeviceUse{}
	for _, d := range p.whole().Devices {
		out[d.UUID] = d
	}
	return out
}

// xids are the Xids of a sample.
func (p *process) xids() map[string]topology.XidCounts { return p.whole().Xids }

func (p *process) whole() topology.Sample {
	p.t.Helper()
	s, err := probe.ParseSample(p.ask("sample"))
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// later returns a sample at a time when GPM has counted for long enough.
func (p *process) later() map[string]topology.DeviceUse {
	p.t.Helper()
	time.Sleep(2 * gpmPause) // NVML wants the time; nothing is waited for
	return p.sample()
}

func (p *process) check(what string, want, got map[string]topology.DeviceUse) {
	p.t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		p.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestLoadedSample samples a busy GPU, an idle one and a stranger's, and follows
// what changes.
func TestLoadedSample(t *testing.T) {
	busy := []string{"gpu 0", "utilization 97", "used 8589934592", "power 650500", "energy 7200000", "processes 1000,1007", "gpm 95.5 40"}
	m := fake.New(t, "h100", busy...)
	p := sampling(t, 580, m, h100a, h100b, "GPU-unknown")
	want := map[string]topology.DeviceUse{
		h100a: {UUID: h100a, Utilization: new(0.97), MemoryUsed: new(uint64(8 << 30)), MemoryTotal: new(uint64(80 << 30)), Power: new(650.5), Energy: new(7200.0), Processes: new(2)},
		h100b: {UUID: h100b, Utilization: new(0.0), MemoryUsed: new(uint64(0)), MemoryTotal: new(uint64(80 << 30)), Power: new(71.0), Energy: new(6134400.0), Processes: new(0)},
	}
	p.check("at once", want, withoutGPM(p.sample()))
	set := func(uuid string, sm float64) {
		d := want[uuid]
		d.SMActivity = &sm
		want[uuid] = d
	}
	set(h100a, 0.4)
	set(h100b, 0)
	p.check("when GPM has counted", want, p.later())

	m.Change("gpu 0", "utilization 1", "used 0", "power 80000", "energy 7300000", "gpm 100.2 nan", "gpu 1", "gpm 3 7")
	want[h100a] = topology.DeviceUse{UUID: h100a, Utilization: new(0.01), MemoryUsed: new(uint64(0)), MemoryTotal: new(uint64(80 << 30)), Power: new(80.0), Energy: new(7300.0), Processes: new(0)}
	set(h100b, 0.07)
	p.check("after a change", want, p.later())

	p.sampleOf(h100b)
	delete(want, h100a)
	p.check("of one GPU", want, p.later())
	p.sampleOf()
	p.check("of none", map[string]topology.DeviceUse{}, p.later())
}

// TestLoadedSampleMIG samples instances: their own memory and programs, and what
// GPM counts of their GPU instance.
func TestLoadedSampleMIG(t *testing.T) {
	for _, tt := range []struct {
		name, gpm         string
		utilization, busy *float64
	}{{"without GPM", "", nil, nil}, {"with GPM", " 50 25", new(0.5), new(0.25)}} {
		t.Run(tt.name, func(t *testing.T) {
			m := fake.New(t, "gb200", append(withMIG, "gpm 1 1", "miguse 0 25769803776 1073741824 4711"+tt.gpm, "miguse 2 25769803776 0 none")...)
			p := sampling(t, 580, m, "MIG-a", "MIG-b", "GPU-b200b200-0000-0000-0000-000000000001")
			total := new(uint64(24 << 30))
			want := map[string]topology.DeviceUse{
				"MIG-a": {UUID: "MIG-a", MemoryUsed: new(uint64(1 << 30)), MemoryTotal: total, Processes: new(1), Utilization: tt.utilization, SMActivity: tt.busy},
				"MIG-b": {UUID: "MIG-b", MemoryUsed: new(uint64(0)), MemoryTotal: total, Processes: new(0)},
			}
			got := p.later()
			delete(got, "GPU-b200b200-0000-0000-0000-000000000001")
			p.check("instances", want, got)

			m.Change(append(withMIG, "migdevice none")...)
			p.read()
			if got := p.sample(); len(got) != 1 {
				t.Errorf("the instances are gone: %v", got)
			}
		})
	}
}

// TestLoadedSampleNamespace is a container, in which the driver lists no program
// of a job: that there is none is then known of a GPU without memory in use alone.
func TestLoadedSampleNamespace(t *testing.T) {
	const c = "GPU-01000100-0000-0000-0000-000000000002"
	for driver, idle := range map[int]bool{580: true, 470: false} { // which counts its own memory as used
		m := fake.New(t, "h100", "gpu 0", "used 67108863", "gpu 1", "used 9999999999", "processes 12", "gpu 2", "used 67108864")
		m.Namespace(fake.FirstNamespace + 100)
		p := start(t, driver, m)
		p.read()
		p.sampleOf(h100a, h100b, c)
		got := p.sample()
		if a, b, c := got[h100a], got[h100b], got[c]; a.Idle() != idle || b.Processes == nil || *b.Processes != 1 || c.Processes != nil {
			t.Errorf("driver %d:\n%+v\n%+v\n%+v", driver, a, b, c)
		}
	}
}

// TestLoadedPrograms lists programs for compute with their memory: MPS's clients and not its
// server, and no X server.
func TestLoadedPrograms(t *testing.T) {
	const server = 4000
	for _, tt := range []struct {
		name    string
		machine []string
		without []string
		want    []uint32
	}{
		{"compute", []string{"processes 1007,1000", "used 2048"}, nil, []uint32{1000, 1007}},
		{"no program for compute, as beside an X server", []string{"processes none", "used 41943040"}, nil, []uint32{}},
		{"MPS", []string{"processes 4000", "mps 1000,1001"}, nil, []uint32{1000, 1001}},
		{"MPS whose clients are among the programs", []string{"processes 4000,1000", "mps 1000"}, nil, []uint32{1000}},
		{"MPS without a client", []string{"processes 4000", "mps none"}, nil, []uint32{}},
		{"MPS of a driver that lists no clients", []string{"processes 4000"}, mpsPrograms, []uint32{4000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			library := fake.Library(t, 580)
			for _, function := range tt.without {
				library = fake.Without(t, library, function)
			}
			m := fake.New(t, "h100", append([]string{"gpu 0"}, tt.machine...)...)
			m.Namespace(fake.FirstNamespace)
			comm := filepath.Join(m.Root(), "proc", fmt.Sprint(server), "comm")
			if err := errors.Join(os.MkdirAll(filepath.Dir(comm), 0o755), os.WriteFile(comm, []byte("nvidia-cuda-mps\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			p := startWith(t, library, m)
			p.read()
			p.sampleOf(h100a)
			s := p.whole()
			got := []uint32{}
			for _, program := range s.Programs[h100a] {
				if got = append(got, program.PID); program.Memory == nil {
					t.Errorf("the memory of %d is not known", program.PID)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || *s.Devices[0].Processes != len(tt.want) {
				t.Errorf("%d programs (-want +got):\n%s", *s.Devices[0].Processes, diff)
			}
		})
	}
}

// sampleCalls are the calls of a sample, and how a device's use is without each.
var sampleCalls = []struct {
	call    string
	without func(*topology.DeviceUse)
}{
	{"nvmlDeviceGetUtilizationRates", func(d *topology.DeviceUse) { d.Utilization = new(0.955) }}, // of GPM
	{"nvmlDeviceGetMemoryInfo_v2", func(d *topology.DeviceUse) { d.MemoryUsed, d.MemoryTotal = nil, nil }},
	{"nvmlDeviceGetPowerUsage", func(d *topology.DeviceUse) { d.Power = nil }},
	{"nvmlDeviceGetTotalEnergyConsumption", func(d *topology.DeviceUse) { d.Energy = nil }},
	{"nvmlDeviceGetComputeRunningProcesses_v3", func(d *topology.DeviceUse) { d.Processes = nil }},
	{"nvmlDeviceGetMPSComputeRunningProcesses_v3", func(*topology.DeviceUse) {}},
	{"nvmlGpmSampleGet", func(d *topology.DeviceUse) { d.SMActivity = nil }},
	{"nvmlGpmMetricsGet", func(d *topology.DeviceUse) { d.SMActivity = nil }},
}

var busyGPU = []string{"gpu 0", "utilization 97", "used 8589934592", "power 650500", "energy 7200000", "processes 1000,1007", "gpm 95.5 40"}

// TestLoadedSampleErrors has each call of a sample answer each of NVML's errors:
// what it says is absent, all else is there, and the other GPU is as it was.
func TestLoadedSampleErrors(t *testing.T) {
	for _, tt := range sampleCalls {
		t.Run(tt.call, func(t *testing.T) {
			t.Parallel()
			m := fake.New(t, "h100", busyGPU...)
			p := sampling(t, 580, m, h100a, h100b)
			good, codes, take := p.later(), errorCodes(), p.later
			if d := good[h100a]; d.SMActivity == nil || *d.Processes != 2 {
				t.Fatalf("%+v", d)
			}
			if strings.Contains(tt.call, "Gpm") || strings.Contains(tt.call, "Utilization") {
				codes = codes[:4] // GPM takes its time
			} else {
				take = func() map[string]topology.DeviceUse { return withoutGPM(p.sample()) }
				good = withoutGPM(good)
			}
			for _, ret := range codes {
				if strings.Contains(tt.call, "Processes") && ret == nvml.ERROR_INSUFFICIENT_SIZE {
					continue // go-nvml asks again with twice the room, for ever
				}
				m.Change(append(busyGPU, fmt.Sprintf("call %s error %d", tt.call, ret))...)
				got := take()
				want := map[string]topology.DeviceUse{h100b: good[h100b], h100a: good[h100a]}
				a := want[h100a]
				if older := ret == 3 || ret == 13 || ret == 25; older && tt.call == "nvmlDeviceGetMemoryInfo_v2" {
					a.MemoryUsed = new(uint64(8<<30 + 600<<20)) // the older form has it
				} else {
					tt.without(&a)
				}
				want[h100a] = a
				p.check(code(ret), want, got)
			}
			m.Change(busyGPU...)
			take()
			p.check("when it works again", good, take())
		})
	}
}

func withoutGPM(uses map[string]topology.DeviceUse) map[string]topology.DeviceUse {
	for uuid, d := range uses {
		d.SMActivity = nil
		uses[uuid] = d
	}
	return uses
}

// TestLoadedSampleWithoutFunction takes each optional call of a sample out of the library.
func TestLoadedSampleWithoutFunction(t *testing.T) {
	full := fake.Library(t, 580)
	for _, call := range slices.Concat([]string{memoryInfoV2, utilization, power, energy}, computePrograms, mpsPrograms, gpm) {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			m := fake.New(t, "h100", busyGPU...)
			m.Namespace(fake.FirstNamespace)
			p := startWith(t, fake.Without(t, full, call), m)
			p.read()
			p.sampleOf(h100a)
			want := topology.DeviceUse{UUID: h100a, Utilization: new(0.97), SMActivity: new(0.4), MemoryUsed: new(uint64(8 << 30)), MemoryTotal: new(uint64(80 << 30)),
				Power: new(650.5), Energy: new(7200.0), Processes: new(2)} // another version counts the processes
			switch {
			case call == memoryInfoV2:
				want.MemoryUsed = new(uint64(8<<30 + 600<<20))
			case call == utilization:
				want.Utilization = new(0.955) // GPM says that a kernel ran
			case call == power:
				want.Power = nil
			case call == energy:
				want.Energy = nil
			case slices.Contains(gpm, call):
				want.SMActivity = nil
			}
			p.check("sample", map[string]topology.DeviceUse{h100a: want}, p.later())
			p.sampleOf()
			p.sample()
		})
	}
}

// TestLoadedSampleWithoutPrograms has libraries that list no programs, or only by versions: the
// machine is read all the same, and a newer version counts the programs.
func TestLoadedSampleWithoutPrograms(t *testing.T) {
	full := fake.Library(t, 580)
	for _, tt := range []struct {
		name    string
		without []string
		want    *int
	}{
		{"no list of compute", computePrograms, nil},
		{"no list of MPS", mpsPrograms, new(2)},
		{"no list at all", slices.Concat(computePrograms, mpsPrograms), nil},
		{"versions alone", []string{computePrograms[0], mpsPrograms[0]}, new(2)},
		{"the second version alone", []string{computePrograms[0], computePrograms[2], mpsPrograms[0], mpsPrograms[2]}, new(2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			library := full
			for _, function := range tt.without {
				library = fake.Without(t, library, function)
			}
			m := fake.New(t, "h100", busyGPU...)
			m.Namespace(fake.FirstNamespace)
			p := startWith(t, library, m)
			if n := p.read(); len(n.GPUs) != 8 || len(n.Problems) > 0 {
				t.Fatalf("%d GPUs, problems %v", len(n.GPUs), n.Problems)
			}
			p.sampleOf(h100a)
			if diff := cmp.Diff(tt.want, p.later()[h100a].Processes); diff != "" {
				t.Errorf("programs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLoadedSampleOldDrivers samples through libraries that lack what came later.
func TestLoadedSampleOldDrivers(t *testing.T) {
	for _, driver := range []int{470, 510, 525, 550} {
		t.Run(fmt.Sprint(driver), func(t *testing.T) {
			t.Parallel()
			p := sampling(t, driver, fake.New(t, "h100", busyGPU...), h100a)
			want := topology.DeviceUse{UUID: h100a, Utilization: new(0.97), MemoryUsed: new(uint64(8 << 30)), MemoryTotal: new(uint64(80 << 30)), Power: new(650.5), Energy: new(7200.0), Processes: new(2)}
			if driver < 510 {
				want.MemoryUsed = new(uint64(8<<30 + 600<<20))
			}
			if driver >= 525 {
				want.SMActivity = new(0.4)
			}
			p.check("sample", map[string]topology.DeviceUse{h100a: want}, p.later())
		})
	}
}

// TestLoadedSampleLostGPU loses a GPU that is sampled, and gets it back.
func TestLoadedSampleLostGPU(t *testing.T) {
	m := fake.New(t, "h100", busyGPU...)
	p := sampling(t, 580, m, h100a, h100b)
	good := p.later()
	m.Change(append(busyGPU, "lost")...)
	p.check("lost", map[string]topology.DeviceUse{h100b: good[h100b]}, p.later())
	p.read()
	p.check("not found any more", map[string]topology.DeviceUse{h100b: good[h100b]}, p.later())
	p.sampleOf() // and what it is wanted for begins anew, while it is lost
	p.sampleOf(h100a, h100b)
	m.Change(busyGPU...)
	p.read()
	p.later()
	p.check("back", good, p.later())
}
