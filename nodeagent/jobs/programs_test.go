package jobs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

const gib = uint64(1) << 30

// on is a program with so much memory.
func on(pid uint32, memory uint64) topology.Program {
	return topology.Program{PID: pid, Memory: &memory}
}

// programs lets time pass and takes a sample of GPU 0 with these programs; a busy one if running.
func (r *jobsRig) programs(running float64, all ...topology.Program) {
	r.now = moment{r.now.wall.Add(10 * time.Second), r.now.up + 10*time.Second}
	d := topology.DeviceUse{UUID: gpuUUID(0), Utilization: &running, Processes: new(len(all)), MemoryUsed: new(uint64(0)), MemoryTotal: new(80 * gib)}
	for _, p := range all {
		*d.MemoryUsed += *p.Memory
	}
	r.j.count(topology.Sample{Devices: []topology.DeviceUse{d}, Programs: map[string][]topology.Program{d.UUID: append([]topology.Program{}, all...)}}, r.now)
}

// look lets a minute pass and looks at GPU 0.
func (r *jobsRig) look(all ...topology.Program) {
	r.now = moment{r.now.wall.Add(time.Minute), r.now.up + time.Minute}
	r.j.count(topology.Sample{Programs: map[string][]topology.Program{gpuUUID(0): append([]topology.Program{}, all...)}}, r.now)
}

// begins lets a second pass and runs a Prolog, as after one that ended.
func (r *jobsRig) begins(id, started string) {
	r.t.Helper()
	r.now = moment{r.now.wall.Add(time.Second), r.now.up + time.Second}
	rec := r.record(id, 0)
	rec.StartTime = started
	r.write(id, rec)
	r.j.round(r.t.Context())
}

func (r *jobsRig) ends(id string) {
	r.t.Helper()
	r.must(rundir.Dir(r.run).RemoveRecord(id))
	r.j.round(r.t.Context())
}

// step puts a program below a step of a job.
func (r *jobsRig) step(pid uint32, job string) {
	r.t.Helper()
	for _, p := range []struct {
		pid, parent uint32
		name, title string
	}{{pid, pid + 1000, "python3", "train.py"}, {pid + 1000, 1, "slurmstepd", "slurmstepd: [" + job + ".0]"}} {
		dir := filepath.Join(r.Proc, fmt.Sprint(p.pid))
		r.must(errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (%s) S %d 1 1", p.pid, p.name, p.parent), 0o600),
			os.WriteFile(filepath.Join(dir, "cmdline"), append([]byte(p.title), 0), 0o600), os.WriteFile(filepath.Join(dir, "status"), []byte("Name:\tx\nUid:\t0\t0\t0\t0\n"), 0o600)))
	}
}

// TestProgramsOfJob gives a job the programs on its device that are not somebody else's.
func TestProgramsOfJob(t *testing.T) {
	left := on(4242, 70*gib)
	for _, tt := range []struct {
		name string
		run  func(*jobsRig)
		// of job 101: what was there before, its largest memory, and whether it has used the GPU.
		before, memory uint64
		used           bool
	}{
		{"a program that the last job left", func(r *jobsRig) {
			r.begins("100", "100")
			r.programs(0.5, left)
			r.ends("100")
			r.begins("101", "200")
			r.programs(0.5, left)
			r.programs(0, left)
		}, 70, 0, false},
		{"and the job's own beside it", func(r *jobsRig) {
			r.look(left)
			r.begins("101", "200")
			r.programs(0, left)
			r.programs(0.5, left, on(7, 5*gib))
		}, 70, 5, true},
		{"it was there while no job was", func(r *jobsRig) {
			r.look(left)
			r.begins("101", "200")
			r.programs(0, left)
		}, 70, 0, false},
		{"it ends while the job runs", func(r *jobsRig) {
			r.look(left)
			r.begins("101", "200")
			r.programs(0, left)
			r.programs(0)
			r.programs(0.5, on(7, gib))
		}, 70, 1, true},
		{"it had ended before the job", func(r *jobsRig) {
			r.look(left)
			r.begins("101", "200")
			r.programs(0.5, on(7, gib))
		}, 0, 1, true},
		{"nobody has looked before the job", func(r *jobsRig) {
			r.begins("101", "200")
			r.programs(0.5, left)
		}, 0, 70, true},
		{"MPS of the Prolog: clients come after its record, and the server is in no list", func(r *jobsRig) {
			r.look()
			r.begins("101", "200")
			r.programs(0)
			r.programs(0.5, on(7, gib), on(8, gib))
		}, 0, 2, true},
		{"MPS of the site: a client of the last job, and the job's own", func(r *jobsRig) {
			r.begins("100", "100")
			r.programs(0.5, on(7, gib))
			r.ends("100")
			r.begins("101", "200")
			r.programs(0, on(7, gib))
			r.programs(0.5, on(7, gib), on(8, 2*gib))
		}, 1, 2, true},
		{"requeue: the first run's program is not the second's", func(r *jobsRig) {
			r.begins("101", "100")
			r.programs(0.5, left)
			r.ends("101")
			r.begins("101", "200")
			r.programs(0, left)
		}, 70, 0, false},
		{"requeue whose first Epilog was lost", func(r *jobsRig) {
			r.begins("101", "100")
			r.programs(0.5, left)
			r.begins("101", "200")
			r.programs(0, left)
		}, 70, 0, false},
		{"the agent restarts within the job", func(r *jobsRig) {
			r.look(left)
			r.begins("101", "200")
			r.programs(0, left)
			r.start()
			r.programs(0, left)
			r.look(left, on(7, gib))
			r.programs(0.5, left, on(7, gib))
		}, 70, 1, true},
		{"the clock goes back within the job", func(r *jobsRig) {
			r.look(left)
			r.begins("101", "200")
			r.now.wall = r.now.wall.Add(-time.Hour)
			r.j.round(r.t.Context())
			r.programs(0.5, left, on(7, gib))
		}, 70, 1, true},
		{"shared with a job whose step is seen", func(r *jobsRig) {
			r.begins("101", "200")
			r.begins("102", "300")
			r.step(7, "101")
			r.step(8, "102")
			r.programs(0.5, on(7, gib), on(8, 40*gib))
		}, 0, 1, true},
		{"shared, and the other's step is not seen", func(r *jobsRig) {
			r.begins("101", "200")
			r.begins("102", "300")
			r.programs(0.5, on(7, gib), on(8, 40*gib))
		}, 0, 41, true},
		{"a step of a job without a record", func(r *jobsRig) {
			r.begins("101", "200")
			r.step(7, "9")
			r.programs(0.5, on(7, gib))
		}, 0, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newJobsRig(t)
			tt.run(r)
			use, err := rundir.Dir(r.run).Uses().Read("101")
			if err != nil || use == nil {
				t.Fatalf("use %v, %v", use, err)
			}
			d := use.Devices[0]
			if memory := uint64(d.Memory.Max) / gib; d.BeforeMemory != tt.before*gib || memory != tt.memory || d.Used != tt.used {
				t.Errorf("%d GiB before, %d GiB of the job, used %t; want %d, %d, %t", d.BeforeMemory/gib, memory, d.Used, tt.before, tt.memory, tt.used)
			}
		})
	}
}

// TestUnownedMemory counts what programs have on a device that no job holds, and tells Prologs.
func TestUnownedMemory(t *testing.T) {
	r := newJobsRig(t)
	series := fmt.Sprintf(`quoin_gpu_unowned_memory_bytes{GPU_I_ID="",UUID=%q,gpu="0"} `, gpuUUID(0))
	want := func(what, bytes string, told ...rundir.Unowned) {
		t.Helper()
		r.wantSeries(series + bytes)
		got, err := rundir.Dir(r.run).UnownedOn([]string{gpuUUID(0)})
		if diff := cmp.Diff(told, got); diff != "" || err != nil {
			t.Errorf("%s: %v, told to Prologs (-want +got):\n%s", what, err, diff)
		}
	}
	want("nobody has looked", "")
	r.look()
	want("no program", "0")
	r.look(on(7, gib/2))
	want("a little", "5.36870912e+08")
	r.look(on(7, gib/2), on(8, 70*gib))
	want("much", "7.5698798592e+10", rundir.Unowned{UUID: gpuUUID(0), GiB: 70})
	r.start()
	want("another agent has not looked", "")
	r.look(on(8, 70*gib))
	want("and has looked", "7.516192768e+10", rundir.Unowned{UUID: gpuUUID(0), GiB: 70})
	r.begins("101", "200")
	want("a job holds the device", "")
	r.programs(0.5, on(8, 70*gib))
	r.ends("101")
	want("the job has left it", "7.516192768e+10", rundir.Unowned{UUID: gpuUUID(0), GiB: 70})
	r.look(topology.Program{PID: 8})
	want("its memory is not known", "")
	group := filepath.Join(r.Proc, "9", "cgroup")
	r.must(errors.Join(os.MkdirAll(filepath.Dir(group), 0o755), os.WriteFile(group, []byte("0::/kubepods/pod8fa92f3c-1111/c1\n"), 0o600)))
	r.look(on(9, 70*gib))
	want("a Pod's program", "0")
}
