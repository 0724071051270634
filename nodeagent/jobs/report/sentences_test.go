package report

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// withXids is a GPU to which these Xids came.
func withXids(id int, codes ...int) rundir.DeviceUse {
	d := used(fmt.Sprint(id), 0.5)
	d.Xids = map[int]uint64{}
	for _, code := range codes {
		d.Xids[code]++
	}
	return d
}

func TestXidLines(t *testing.T) {
	gap := withXids(0, 119)
	gap.XidGap = true
	var many []rundir.DeviceUse
	for i := range 10 {
		many = append(many, withXids(i, 31))
	}
	for _, tt := range []struct {
		name    string
		devices []rundir.DeviceUse
		want    []string
	}{
		{"none came", []rundir.DeviceUse{withXids(0), used("1", 1)}, nil},
		{"one GPU, and an Xid that asks for nothing", []rundir.DeviceUse{withXids(0), withXids(7, 119, 119, 63)},
			[]string{"2 times Xid 119 (GSP does not answer) on GPU 7 of n07: drain the node and reset the GPU."}},
		{"several GPUs, and cleanup after it", []rundir.DeviceUse{withXids(0, 31, 45), withXids(1, 31), withXids(2)},
			[]string{"2 times Xid 31 (GPU memory page fault) on GPU 0 of n07, GPU 1 of n07: start the job again."}},
		{"cleanup alone", []rundir.DeviceUse{withXids(0, 45)},
			[]string{"Xid 45 (cleanup of a program, and no error before it) on GPU 0 of n07: look at dmesg and NVIDIA's Xid catalogue."}},
		{"one that nobody knows", []rundir.DeviceUse{withXids(0, 999)},
			[]string{"Xid 999 (which Quoin does not know) on GPU 0 of n07: look at dmesg and NVIDIA's Xid catalogue."}},
		{"a time without a probe", []rundir.DeviceUse{gap},
			[]string{"Xid 119 (GSP does not answer) on GPU 0 of n07: drain the node and reset the GPU.", "Xids of GPU 0 of n07 are not all known: Quoin's probe of NVML did not watch all the time."}},
		{"many GPUs", many,
			[]string{"10 times Xid 31 (GPU memory page fault) on GPU 0 of n07, GPU 1 of n07, GPU 2 of n07, GPU 3 of n07, GPU 4 of n07, GPU 5 of n07, GPU 6 of n07, GPU 7 of n07 and 2 more: start the job again."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs := groupRuns([]nodeRun{on("7", "n07", 3600, tt.devices...)})
			if diff := cmp.Diff(tt.want, runs[0].xids()); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBeforeLine says how much memory was in use before the job.
func TestBeforeLine(t *testing.T) {
	with := func(id string, before uint64) rundir.DeviceUse {
		d := used(id, 0.5)
		d.BeforeMemory = before
		return d
	}
	for _, tt := range []struct {
		name    string
		devices []rundir.DeviceUse
		want    []string
	}{
		{"none", []rundir.DeviceUse{used("0", 1)}, nil},
		{"a little", []rundir.DeviceUse{with("0", 300<<20)}, nil},
		{"one GPU", []rundir.DeviceUse{with("0", 0), with("3", 70<<30)}, []string{"70 GiB were in use before this job on GPU 3 of n07, by programs that are not the job's."}},
		{"two GPUs", []rundir.DeviceUse{with("0", 70<<30), with("3", 10<<30)}, []string{"80 GiB were in use before this job on GPU 0 of n07, GPU 3 of n07, by programs that are not the job's."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs := groupRuns([]nodeRun{on("7", "n07", 3600, tt.devices...)})
			if diff := cmp.Diff(tt.want, runs[0].before()); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}
