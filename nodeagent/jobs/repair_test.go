package jobs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
)

// TestRepairNotAfterEpilog leaves lines away that an Epilog has taken which was
// killed before it came to the record, and ends the job; not where it is seen.
func TestRepairNotAfterEpilog(t *testing.T) {
	r := newJobsRig(t)
	r.Step("18.extern")
	r.prolog("17", 0, 1)
	r.prolog("18", 2)
	r.after(time.Minute)
	m := dcgm.Mapping{Dir: r.maps}
	r.must(m.Clear("17", []string{"0"}))
	r.must(m.Clear("18", []string{"2"}))
	r.after(10 * time.Second)
	r.want("taken from one GPU of two", "1:17 2:18")
	r.must(m.Clear("17", []string{"1"}))
	r.start()
	r.after(10 * time.Second)
	r.want("taken, another agent", "2:18")
	if !r.hasRecord("17") {
		t.Error("the record is gone within the grace")
	}
	r.after(20 * time.Second)
	if r.hasRecord("17") || len(r.summaries()) != 1 || !r.hasRecord("18") {
		t.Error("want job 17 ended with a summary, and job 18 not")
	}
}

// TestRepairNamesLater moves lines when DCGM's ids become known, and those of a
// job that began without an inventory; the Epilog finds them by the record.
func TestRepairNamesLater(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0, 1)
	r.prolog("18", 2)
	r.prolog("19", 2)
	written := r.j.records.jobs["17"].record.Written
	r.inventory(1, 0, 5, 3) // 0 and 1 change places
	r.after(10 * time.Second)
	r.want("0 and 1 have changed places, 2 is 5", "0:17 1:17 5:18,19")
	r.inventory(7, 0, -1, 2) // GPU 2 is lost, and another has its id
	r.after(10 * time.Second)
	r.want("0 is 7, 2 is lost", "0:17 7:17")
	rec, err := rundir.Dir(r.run).ReadRecord("17")
	if err != nil || !slices.Equal(rec.GPUs, []string{"7", "0"}) || !rec.Written.Equal(written) {
		t.Errorf("record %+v, %v: want GPUs 7 and 0 and the time as it was", rec, err)
	}
	r.wantReleased(0, 0, 0, 0)
	r.wantSeries("quoin_agent_mapping_repairs_total 8")
}

// TestRepairUnresolved finds the GPUs of a job that began before there was an
// inventory.
func TestRepairUnresolved(t *testing.T) {
	r := newJobsRig(t)
	r.must(os.Remove(filepath.Join(r.run, rundir.InventoryFile)))
	r.start()
	rec := r.record("17")
	rec.GPUs, rec.Indices, rec.Devices, rec.Unresolved = []string{"1", "0"}, "0,1", []string{"/dev/nvidia1", "/dev/nvidia0"}, true
	r.write("17", rec)
	r.must(dcgm.Mapping{Dir: r.maps}.Set("17", rec.GPUs))
	mig := r.record("18")
	mig.Visible, mig.UUIDs, mig.Unresolved = gpuUUID(3), []string{gpuUUID(3)}, true
	r.write("18", mig)
	r.after(time.Minute)
	r.want("without an inventory the numbers of device files are taken", "0:17 1:17")
	r.inventory(4, 5, 6, 7)
	r.after(10 * time.Second)
	r.want("with one", "4:17 5:17 7:18")
	if inv, current, err := rundir.Dir(t.TempDir()).FindInventory(dcgm.Mapping{Dir: r.maps}.Folder(), r.boot); inv == nil || inv.Entries[0].ExporterID != "4" || current || err == nil {
		t.Errorf("the copy for the hook after a boot: %+v, current %t, %v", inv, current, err)
	}
	for _, key := range []string{"17", "18"} {
		if rec, err := rundir.Dir(r.run).ReadRecord(key); err != nil || rec.Unresolved || len(rec.UUIDs) == 0 {
			t.Errorf("record %+v, %v", rec, err)
		}
	}
	if want := []string{gpuUUID(0), gpuUUID(1), gpuUUID(3)}; !slices.Equal(r.j.usage.wanted, want) {
		t.Errorf("samples wanted of %v, want %v", r.j.usage.wanted, want)
	}
}

// TestSweepNeverMakesTheDirectory leaves a mapping directory alone that nobody has
// made, and bears one that cannot be written.
func TestSweepNeverMakesTheDirectory(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0)
	r.must(os.RemoveAll(r.maps))
	r.after(time.Minute)
	r.Step("17.extern")
	r.after(time.Minute)
	if isThere(r.maps) {
		t.Fatal("it was made")
	}
	r.StepEnds("17.extern")
	r.after(time.Minute)
	if isThere(r.maps) || r.hasRecord("17") {
		t.Error("it was made, or the record stays")
	}
	r.must(os.WriteFile(r.maps, nil, 0o600)) // no directory: nothing can be read or written
	r.prologWithout("18", 1)
	r.after(time.Minute)
	if !r.hasRecord("18") || !strings.Contains(r.log.String(), `about="job mapping"`) {
		t.Errorf("record 18 is gone, or nothing is said: %s", r.log.String())
	}
}

// prologWithout is a Prolog that cannot write the mapping.
func (r *jobsRig) prologWithout(id string, gpus ...int) {
	r.write(id, r.record(id, gpus...))
	r.j.round(r.t.Context())
}

// TestSweepWaitsForHooks does nothing while a hook has the lock, and looks again
// when it has it.
func TestSweepWaitsForHooks(t *testing.T) {
	r := newJobsRig(t)
	unlock, err := rundir.Dir(r.run).Lock(t.Context(), time.Second)
	r.must(err)
	r.must(os.WriteFile(filepath.Join(r.maps, "0"), []byte("17\n"), 0o600))
	r.after(time.Minute)
	r.want("while a hook works", "0:17")
	r.wantSeries("quoin_agent_sweep_errors_total 4") // the line belongs to nobody for the grace, and from then on the lock is wanted
	r.write("17", r.record("17", 0))                 // not seen before the lock
	unlock()
	r.now.up += 10 * time.Second
	r.j.sweep(t.Context(), r.now)
	r.want("the record came before the lock was free", "0:17")
	r.must(rundir.Dir(r.run).RemoveRecord("17"))
	r.after(40 * time.Second)
	r.want("the record is gone", "")
}

// TestTwoClusters keeps jobs of one id apart.
func TestTwoClusters(t *testing.T) {
	r := newJobsRig(t)
	r.Step("17.extern")
	r.Process(nodedir.Step(2000, "17.extern"))
	r.prolog("17", 0, 1)
	other := r.record("17", 1, 2)
	other.Cluster, other.Node = "c2", "n2"
	r.write("17@c2@n2", other)
	r.must(dcgm.Mapping{Dir: r.maps}.Set("17", other.GPUs))
	r.after(time.Minute)
	r.want("both", "0:17 1:17 2:17")
	r.Ends(2000)
	r.after(time.Minute)
	if r.want("the ids are alike: it cannot be told whose step lives", "0:17 1:17 2:17"); !r.hasRecord("17@c2@n2") {
		t.Error("a record is gone")
	}
	r.must(rundir.Dir(r.run).End(rundir.MarkOf(other.Identity(), other.Run, r.now.wall, "")))
	r.after(10 * time.Second)
	r.want("the other's Epilog", "0:17 1:17")
}
