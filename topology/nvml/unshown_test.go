//go:build cgo

package nvml

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/sysfs"
)

// t4s are the four GPUs of the fake machine t4 on PCI.
func t4s() (site sysfs.Site) {
	for _, bus := range []string{"3b", "86", "af", "d8"} {
		site.GPUs = append(site.GPUs, fmt.Sprintf("pci0000:%[1]s 0000:%[1]s:00.0", bus))
	}
	return site
}

// TestLoadedUnshown has machines with GPUs on PCI that NVML does not show: each is a problem, unless
// there is a reason for it.
func TestLoadedUnshown(t *testing.T) {
	const more = "pci0000:e0 0000:e0:01.0 0000:e1:00"
	lost := func(address string) string {
		return "GPULost: the driver has a GPU at PCI address " + address + " that NVML does not show: look at dmesg; reset the GPU or restart the machine"
	}
	for _, tt := range []struct {
		name  string
		gpus  []string // more of them on PCI
		class string   // of the last one
		vf    bool     // the last one is a part of a GPU
		fake  []string
		given string // a variable of the environment
		whole string // set for an agent
		want  []string
	}{
		{name: "all are shown"},
		{name: "one is not", gpus: []string{more + ".0"}, want: []string{lost("00000000:E1:00.0")}},
		{name: "a display without a monitor", gpus: []string{more + ".0"}, class: "0x030200", want: []string{lost("00000000:E1:00.0")}},
		{name: "two", gpus: []string{more + ".0", more + ".1"}, want: []string{lost("00000000:E1:00.0"), lost("00000000:E1:00.1")}},
		{name: "NVML counts it and cannot open it", fake: []string{"gpu 1", "lost"}, want: []string{"GPUUnreadable: open GPU 1: GPU_IS_LOST"}},
		{name: "an address that cannot be read", fake: []string{"gpu 1", "call nvmlDeviceGetPciInfo_v3 error 999"},
			want: []string{"FactUnreadable: PCI address of GPU GPU-00000074-0000-0000-0000-000000000001: UNKNOWN"}},
		{name: "the driver leaves it out", gpus: []string{more + ".0"}, fake: []string{"excluded 00000000:E1:00.0"}},
		{name: "the driver leaves another one out", gpus: []string{more + ".0"}, fake: []string{"excluded 00000000:E2:00.0"}, want: []string{lost("00000000:E1:00.0")}},
		{name: "a part of a GPU", gpus: []string{more + ".4"}, vf: true},
		{name: "a switch", gpus: []string{more + ".0"}, class: "0x068000"},
		{name: "a container with some GPUs", gpus: []string{more + ".0"}, given: "NVIDIA_VISIBLE_DEVICES=0,1,2,3"},
		{name: "a container with all", gpus: []string{more + ".0"}, given: "NVIDIA_VISIBLE_DEVICES=all", want: []string{lost("00000000:E1:00.0")}},
		{name: "a container by CDI", gpus: []string{more + ".0"}, given: "NVIDIA_VISIBLE_DEVICES=void"},
		{name: "an agent's container by CDI", gpus: []string{more + ".0"}, given: "NVIDIA_VISIBLE_DEVICES=void", whole: "1", want: []string{lost("00000000:E1:00.0")}},
		{name: "an agent's container with some GPUs", gpus: []string{more + ".0"}, given: "NVIDIA_VISIBLE_DEVICES=0", whole: "1"},
		{name: "a job", gpus: []string{more + ".0"}, given: "SLURM_JOB_ID=7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			site := t4s()
			site.GPUs = append(site.GPUs, tt.gpus...)
			tree := sysfs.Make(t, site)
			last := "devices/" + strings.ReplaceAll(site.GPUs[len(site.GPUs)-1], " ", "/")
			if tt.class != "" {
				tree.Write(t, last+"/class", tt.class)
			}
			if tt.vf {
				tree.Write(t, last+"/physfn/vendor", "0x10de")
			}
			p := startWith(t, fake.Library(t, 580), fake.New(t, "t4", tt.fake...), sysVariable+"="+string(tree), wholeVariable+"="+tt.whole, tt.given)
			if diff := cmp.Diff(tt.want, words(p.read())); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("NVML shows none", func(t *testing.T) {
		t.Parallel()
		m := fake.New(t, "t4")
		text, err := os.ReadFile(m.File)
		if err != nil {
			t.Fatal(err)
		}
		common, _, _ := strings.Cut(string(text), "gpu 0\n")
		put.File(t, m.File, common, 0o600)
		p := startWith(t, fake.Library(t, 580), m, sysVariable+"="+string(sysfs.Make(t, t4s())))
		want := []string{lost("00000000:3B:00.0"), lost("00000000:86:00.0"), lost("00000000:AF:00.0"), lost("00000000:D8:00.0")}
		if n := p.read(); len(n.GPUs) != 0 || cmp.Diff(want, words(n)) != "" {
			t.Errorf("%d GPUs, problems (-want +got):\n%s", len(n.GPUs), cmp.Diff(want, words(n)))
		}
	})
}
