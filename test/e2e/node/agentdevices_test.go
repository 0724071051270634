//go:build cgo

package node_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/topology"
)

// exporter serves what DCGM Exporter answers on the machine h100, with ids that
// are neither NVML's indices nor minor numbers.
type exporter struct {
	*httptest.Server
	shift, scrapes atomic.Int32
	down           atomic.Bool
}

func startExporter(t *testing.T) *exporter {
	t.Helper()
	e := &exporter{}
	e.shift.Store(3)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		e.scrapes.Add(1)
		if e.down.Load() {
			http.Error(w, "readdir: no such file or directory", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		fmt.Fprint(w, "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n")
		for i := range 8 {
			id := (i + int(e.shift.Load())) % 8
			fmt.Fprintf(w, "DCGM_FI_DEV_GPU_UTIL{gpu=\"%d\",UUID=\"GPU-01000100-0000-0000-0000-00000000000%d\",pci_bus_id=\"00000000:%d0:00.0\",device=\"nvidia%d\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"n1\"} 0\n", id, i, i+1, id)
		}
	}))
	t.Cleanup(e.Close)
	return e
}

// TestDCGMIDs follows the exporter's ids from its series to the file that the
// hook writes for it: configuration, agent, report, inventory, hook.
func TestDCGMIDs(t *testing.T) {
	t.Parallel()
	e, p := startExporter(t), newAgentProcess(t)
	config := filepath.Join(p.dir, "quoin.yaml")
	text := fmt.Sprintf("agent:\n  dcgmExporter: %s/metrics\n", e.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := fake.New(t, "h100")
	m.RealBoot()
	cmd := p.onNVML(programs.QuoinTest(t), 550, m, "20ms")
	cmd.Args = append(cmd.Args, "--config", config, "--times", "ids: 50ms")
	p.start(cmd)
	p.until("report and inventory", func() bool { return p.hasInventory() && p.settled() && p.metric("quoin_agent_report_stored") == 1 })
	writes := p.writes() // two where the domain was confirmed after the first
	if diff := cmp.Diff([]int{3, 4, 5, 6, 7, 0, 1, 2}, reportedIDs(t, p)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}

	// Devices 0 and 4 are NVML's 3 and 7, which are the exporter's 6 and 2.
	if code, said := p.hook("prolog", "SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0,4", "SLURM_JOB_START_TIME=100",
		"SLURM_CONF="+nodedir.SlurmConf(t, "Name=gpu File=/dev/nvidia[0-7]\n")); code != 0 || said != "" {
		t.Fatalf("prolog: %d, %s", code, said)
	}
	for name, want := range map[string]string{"6": "7\n", "2": "7\n"} {
		if got, err := os.ReadFile(filepath.Join(p.node.Mapping(), name)); err != nil || string(got) != want {
			t.Errorf("file %s: %q, %v; want %q", name, got, err, want)
		}
	}

	rest := func(what string) {
		t.Helper()
		before, from := p.files(), e.scrapes.Load()
		p.until(what, func() bool { return e.scrapes.Load() > from+3 })
		if diff := cmp.Diff(before, p.files()); diff != "" {
			t.Errorf("%s: files written (-before +after):\n%s", what, diff)
		}
	}
	rest("scrapes of the same ids")
	e.down.Store(true)
	rest("scrapes that fail")
	p.until("they are counted", func() bool { return p.metric(`quoin_agent_dcgm_reads_total{result="error",source="exporter"}`) >= 3 })
	e.shift.Store(4)
	e.down.Store(false)
	p.until("the changed ids", func() bool { return strings.Contains(p.report(), `"dcgmID":4,`) && reportedIDs(t, p)[0] == 4 })
	p.until("their write is logged", func() bool { return p.writes() > writes })
	if n := p.writes(); n != writes+1 || writes > 2 {
		t.Errorf("%d writes first and then %d in all, want one or two, and one", writes, n)
	}
}

// reportedIDs returns DCGM's ids of the report, in NVML's order.
func reportedIDs(t *testing.T, p *agentProcess) (out []int) {
	t.Helper()
	n, err := topology.ParseReport("report", []byte(p.report()))
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Problems) > 0 {
		t.Errorf("problems %v", n.Problems)
	}
	for _, g := range n.GPUs {
		if g.DCGMID == nil {
			t.Fatalf("GPU %s without an id", g.UUID)
		}
		out = append(out, *g.DCGMID)
	}
	return out
}
