package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/sysfs"
)

// TestNVMLFaults has machines of eight H100 with a fault that stands: quoin discover and quoin doctor on the node
// name it. Doctor reads what a Prolog warns of.
func TestNVMLFaults(t *testing.T) {
	t.Parallel()
	const (
		waits = "fabric inProgress"
		ecc   = "MemoryErrors: GPU GPU-01000100-0000-0000-0000-000000000000 has had uncorrected ECC errors since the driver was loaded"
		inFab = "FabricInProgress: 8 of 8 GPUs have not registered with the NVLink switches of the machine, and no CUDA program can use them"
	)
	lost := func(bus string) string {
		return "GPULost: the driver has a GPU at PCI address 00000000:" + bus + ":00.0 that NVML does not show"
	}
	buses := []string{"1A", "1B", "4A", "4B", "8A", "8B", "CA", "CB"}
	var all []string // a problem for each GPU
	for _, bus := range buses {
		all = append(all, lost(bus))
	}
	for _, tt := range []struct {
		name  string
		fake  []string
		mode  string   // of Fabric Manager
		shown int      // GPUs that NVML shows
		want  []string // what each problem begins with
	}{
		{"all is well", nil, "", 8, nil},
		{"Fabric Manager does not run", []string{waits}, "", 8, []string{inFab}},
		{"Fabric Manager does not run, as its configuration says", []string{waits}, "0", 8, []string{inFab}},
		{"Fabric Manager gives out partitions", []string{waits}, "1", 8, nil},
		{"ECC errors from before", []string{"gpu 0", "field 4 7"}, "", 8, []string{ecc}},
		{"a GPU that NVML does not show", nil, "", 7, []string{lost("CB")}},
		{"NVML shows none", nil, "", 0, all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := fake.New(t, "h100", tt.fake...)
			if tt.mode != "" {
				put.File(t, filepath.Join(m.Root(), "usr/share/nvidia/nvswitch/fabricmanager.cfg"), "FABRIC_MODE="+tt.mode+"\n", 0o600)
			}
			if tt.shown < len(buses) {
				text, err := os.ReadFile(m.File)
				if err != nil {
					t.Fatal(err)
				}
				shown, _, _ := strings.Cut(string(text), fmt.Sprintf("gpu %d\n", tt.shown))
				put.File(t, m.File, shown, 0o600)
			}
			var site sysfs.Site
			for _, bus := range buses {
				site.GPUs = append(site.GPUs, fmt.Sprintf("pci0000:%[1]s 0000:%[1]s:00.0", strings.ToLower(bus)))
			}
			sys := []string{"--set", "agent.sysRoot=" + string(sysfs.Make(t, site))}
			problems := func(out []byte, before string) (found []string) {
				for line := range strings.Lines(string(out)) {
					if text, is := strings.CutPrefix(line, before); is {
						text, _, _ = strings.Cut(strings.TrimSpace(text), ": Fabric Manager")
						text, _, _ = strings.Cut(text, ": re") // reset the GPU
						text, _, _ = strings.Cut(text, ": look at dmesg")
						found = append(found, text)
					}
				}
				return found
			}
			out, err := command(t, programs.QuoinTest(t), 580, m, slices.Concat([]string{"discover"}, sys)...).Output()
			if diff := cmp.Diff(tt.want, problems(out, "problem: ")); err != nil || diff != "" {
				t.Errorf("discover: %v (-want +got):\n%s", err, diff)
			}

			p := newAgentProcess(t)
			cmd := p.onNVML(programs.QuoinTest(t), 580, m, "20ms")
			cmd.Args = append(cmd.Args, sys...)
			p.start(cmd)
			p.until("a report that is stored", p.settled)
			p.until("the hook's configuration", func() bool { _, err := os.Stat(filepath.Join(p.node.Run(), "hook.json")); return err == nil })
			doctor := func() []byte { // which ends with 1, because no hook runs here
				out, _ := exec.Command(programs.QuoinTest(t), slices.Concat([]string{"doctor", "--only", "node", "--set", "agent.hostRoot=" + m.Root()}, p.node.Files())...).Output()
				return out
			}
			if tt.shown == 0 {
				if out := doctor(); !strings.Contains(string(out), "fatal    inventory    there is no inventory of GPUs") {
					t.Errorf("doctor says:\n%s", out)
				}
				return
			}
			var want []string
			for _, text := range tt.want {
				if !strings.HasPrefix(text, "Fabric") {
					_, text, _ = strings.Cut(text, ": ")
				}
				want = append(want, text)
			}
			p.until("doctor's findings", func() bool { return cmp.Equal(want, problems(doctor(), "warning  hardware")) })
		})
	}
}
