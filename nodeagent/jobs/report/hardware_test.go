package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// gpuWith is a GPU with what its counters counted in an hour: "pcie_replays 3",
// "nvlink_recoveries 412 9:400 3:12" with links, "pcie_replays ? GPU_IS_LOST".
func gpuWith(id int, counts ...string) rundir.DeviceUse {
	d := used(fmt.Sprint(id), 0.5)
	d.Hardware = &rundir.Hardware{Seconds: 3600, Counts: map[string]float64{}, Unknown: map[string]string{}, Links: map[string]map[int]float64{}}
	for _, text := range counts {
		words := strings.Fields(text)
		if words[1] == "?" {
			d.Hardware.Unknown[words[0]] = strings.Join(words[2:], " ")
			continue
		}
		var v float64
		_, _ = fmt.Sscan(words[1], &v)
		d.Hardware.Counts[words[0]] = v
		for _, of := range words[2:] {
			var link int
			_, _ = fmt.Sscanf(of, "%d:%g", &link, &v)
			if d.Hardware.Links[words[0]] == nil {
				d.Hardware.Links[words[0]] = map[int]float64{}
			}
			d.Hardware.Links[words[0]][link] = v
		}
	}
	return d
}

// withXids is a GPU to which these Xids came.
func withXids(d rundir.DeviceUse, codes ...int) rundir.DeviceUse {
	for _, code := range codes {
		i := slices.IndexFunc(d.Hardware.Xids, func(x rundir.XidCount) bool { return x.Code == code })
		if i < 0 {
			i = len(d.Hardware.Xids)
			d.Hardware.Xids = append(d.Hardware.Xids, rundir.XidCount{Code: code, Class: fabric.XidOf(code).Class})
		}
		d.Hardware.Xids[i].Count++
	}
	return d
}

// alike are so many GPUs that counted the same.
func alike(n int, counts ...string) (all []rundir.DeviceUse) {
	for i := range n {
		all = append(all, gpuWith(i, counts...))
	}
	return all
}

func TestHardwareSentences(t *testing.T) {
	pending := gpuWith(3)
	pending.Hardware.RowsPending = new(true)
	const reset = "the counter ecc_corrected went back: the GPU was reset, or its driver was loaded again"
	for _, tt := range []struct {
		name    string
		devices []rundir.DeviceUse
		want    []string
	}{
		{"nothing was counted", alike(8, "nvlink_recoveries 0", "thermal 0"), nil},
		{"no counters", []rundir.DeviceUse{used("0", 1)}, nil},
		{"one GPU, one link", append(alike(7, "nvlink_recoveries 0"), gpuWith(7, "nvlink_recoveries 412 9:412")),
			[]string{"GPU 7 of n07: 412 NVLink recoveries on link 9; the others 0."}},
		{"several links, the worst first", append(alike(7, "nvlink_recoveries 3 1:3"), gpuWith(7, "nvlink_recoveries 412 3:12 9:400")),
			[]string{"GPU 7 of n07: 412 NVLink recoveries on links 9 (400), 3 (12); the others at most 3."}},
		{"several counters", append(alike(1, "ecc_uncorrected 0", "pcie_replays 0"), gpuWith(1, "ecc_uncorrected 1", "pcie_replays 2")),
			[]string{"GPU 1 of n07: 1 uncorrected ECC error; the others 0. 2 PCIe replays; the others 0."}},
		{"a job of one GPU", alike(1, "pcie_replays 2", "thermal 1800"),
			[]string{"GPU 0 of n07: 2 PCIe replays. clocks held down by heat for 00:30:00."}},
		{"all have about as many", append(alike(7, "pcie_replays 100"), gpuWith(7, "pcie_replays 150")),
			[]string{"8 of 8 GPUs: 100 to 150 PCIe replays on each."}},
		{"one is hotter", append(alike(7, "thermal 30"), gpuWith(7, "thermal 1200")),
			[]string{"GPU 7 of n07: clocks held down by heat for 00:20:00; the others at most 00:00:30."}},
		{"a little heat is not worth a word", append(alike(7, "thermal 0"), gpuWith(7, "thermal 100")), nil},
		{"all are hot", alike(8, "thermal 1200"),
			[]string{"8 of 8 GPUs: clocks held down by heat for 00:20:00 on each."}},
		{"the power limit of a busy GPU is no news", alike(8, "power_cap 3500"), nil},
		{"unless it differs", append(alike(7, "power_cap 500"), gpuWith(7, "power_cap 3500")),
			[]string{"GPU 7 of n07: clocks held down by the power limit for 00:58:20; the others at most 00:08:20."}},
		{"rows wait", append(alike(3), pending),
			[]string{"GPU 3 of n07: memory rows wait until a reset of the GPU remaps them."}},
		{"an Xid of one GPU", append(alike(7), withXids(gpuWith(7, "pcie_replays 0"), 119, 119, 63)),
			[]string{"GPU 7 of n07: 2 times Xid 119 (GSP does not answer): drain the node and reset the GPU."}},
		{"an Xid of several, and cleanup after it", []rundir.DeviceUse{withXids(gpuWith(0), 31, 45), withXids(gpuWith(1), 31), gpuWith(2)},
			[]string{"Xid 31 (GPU memory page fault) on 2 of 3 GPUs (GPU 0 of n07, GPU 1 of n07): start the job again."}},
		{"an Xid that nobody knows", []rundir.DeviceUse{withXids(gpuWith(0), 999)},
			[]string{"GPU 0 of n07: Xid 999 (which Quoin does not know): look at dmesg and NVIDIA's Xid catalogue."}},
		{"what is not known", append(alike(2, "pcie_replays 0", "nvlink_replays ? "+topology.NoCounter), gpuWith(2, "pcie_replays ? "+reset, "ecc_corrected ? "+reset)),
			[]string{"Hardware counters of GPU 2 of n07 are not all known: " + reset + "."}},
		{"a MIG instance", []rundir.DeviceUse{gpuWith(0, "* ? "+topology.OfWholeGPU)},
			[]string{"Hardware counters of GPU 0 of n07 are not all known: " + topology.OfWholeGPU + "."}},
		{"Xids in a time without a probe", []rundir.DeviceUse{withXids(gpuWith(0, "xids ? nobody watched"), 119)},
			[]string{"GPU 0 of n07: Xid 119 (GSP does not answer): drain the node and reset the GPU.", "Xids of GPU 0 of n07 are not all known: nobody watched."}},
		{"many", append(alike(10), func() (all []rundir.DeviceUse) {
			for i := range 9 {
				all = append(all, gpuWith(10+i, "pcie_replays 1"))
			}
			return append(all, alike(10, "pcie_replays 0")...)
		}()...),
			append(func() (all []string) {
				for i := range 8 {
					all = append(all, fmt.Sprintf("GPU %d of n07: 1 PCIe replay; the others 0.", 10+i))
				}
				return all
			}(), "The counters of one more GPU stand out: quoin job -o json has them all.")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs := groupRuns([]nodeRun{on("7", "n07", 3600, tt.devices...)})
			if diff := cmp.Diff(tt.want, runs[0].hardware()); diff != "" {
				t.Errorf("sentences (-want +got):\n%s", diff)
			}
		})
	}
}
