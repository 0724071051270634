//go:build cgo

package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/topology"
)

// startNVMLAgent runs quoin agent on a machine of a loaded NVML until it has
// reported.
func startNVMLAgent(t *testing.T, driver int, m *fake.Machine) *agentProcess {
	t.Helper()
	p := runNVMLAgent(t, driver, m)
	p.until("report and inventory", func() bool { return p.hasInventory() && p.settled() && p.metric("quoin_agent_probe_up") == 1 })
	return p
}

func runNVMLAgent(t *testing.T, driver int, m *fake.Machine) *agentProcess {
	t.Helper()
	p := newAgentProcess(t)
	p.start(p.onNVML(programs.QuoinTest(t), driver, m, "20ms"))
	return p
}

// onNVML is quoin agent on a machine of a loaded NVML.
func (p *agentProcess) onNVML(quoin string, driver int, m *fake.Machine, interval string) *exec.Cmd {
	p.t.Helper()
	return command(p.t, quoin, driver, m, append([]string{"agent", "--store", p.dir, "--listen", p.address, p.health(), "--times", "read: " + interval}, p.node.Files()...)...)
}

// TestNVMLAgent follows a report from the library to the files that others read.
func TestNVMLAgent(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "h100")
	p := startNVMLAgent(t, 550, m)
	n, err := topology.ParseReport("report", []byte(p.report()))
	if err != nil {
		t.Fatal(err)
	}
	if n.Name != "n1" || n.DriverVersion != "550.163.01" || len(n.GPUs) != 8 || len(n.Problems) > 0 {
		t.Errorf("%+v", n)
	}
	data, err := os.ReadFile(filepath.Join(p.dir, "run", "inventory.json"))
	if err != nil {
		t.Fatal(err)
	}
	var inventory rundir.Inventory
	if err := json.Unmarshal(data, &inventory); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range inventory.Entries {
		got = append(got, fmt.Sprintf("%d %s %s %s", e.GRESIndex, e.Device, e.ExporterID, e.UUID[len(e.UUID)-1:]))
	}
	want := []string{ // GRES indices follow minor numbers, exporter ids NVML's order
		"0 /dev/nvidia0 3 3", "1 /dev/nvidia1 2 2", "2 /dev/nvidia2 1 1", "3 /dev/nvidia3 0 0",
		"4 /dev/nvidia4 7 7", "5 /dev/nvidia5 6 6", "6 /dev/nvidia6 5 5", "7 /dev/nvidia7 4 4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}

	if inventory.Clique == "" { // no GPU is in one after this
		t.Errorf("the inventory has no clique:\n%s", data)
	}
	m.Change("fabric completed 15 00 0 0")
	p.until("the changed report", func() bool { return strings.Contains(p.report(), `"status":"GPU_IS_LOST"`) })
	m.Change("call nvmlDeviceGetMinorNumber error 10")
	p.until("the problem is counted", func() bool { return p.metric(`quoin_agent_problems{reason="FactUnreadable"}`) == 8 })
	var after rundir.Inventory
	if data, err := os.ReadFile(filepath.Join(p.dir, "run", "inventory.json")); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(data, &after); err != nil {
		t.Error(err)
	} else if diff := cmp.Diff(inventory.Entries, after.Entries); diff != "" || after.Clique != "" {
		t.Errorf("inventory without minor numbers: clique %q, entries (-was +is):\n%s", after.Clique, diff)
	}
	ended := endOf(p.probe())
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v: want exit status 0", err)
	}
	p.until("the probe ends", ended)
}

// TestNVMLAgentOutlives has a call of the library end the probe or hang: the
// last good report stays, the end is counted, and all is well when the library
// is.
func TestNVMLAgentOutlives(t *testing.T) {
	tests := []struct{ name, statement, reason, log string }{
		{"undefined symbol", "call nvmlDeviceGetGpuFabricInfoV exit 127", "exit", "exit status 127: symbol lookup error: undefined symbol: nvmlDeviceGetGpuFabricInfoV"},
		{"crash", "gpu 3\ncall nvmlDeviceGetNvLinkState crash", "exit", "exit status 2: NVML crashed in nvmlDeviceGetNvLinkState: SIGSEGV: segmentation violation\""},
		{"abort", "gpu 3\ncall nvmlDeviceGetNvLinkState abort", "exit", "exit status 2: NVML crashed in nvmlDeviceGetNvLinkState: SIGABRT: abort\""},
		{"driver gone", "call nvmlDeviceGetCount_v2 error 1", "exit", "count GPUs: UNINITIALIZED"},
		{"hang", "gpu 3\ncall nvmlDeviceGetNvLinkState hang", "hang", "NVML may hang on a faulty GPU"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.reason == "hang" && testing.Short() {
				t.Skip("takes 16 s, after which the agent calls it a hang")
			}
			t.Parallel()
			m := fake.New(t, "gb200")
			p := startNVMLAgent(t, 580, m)
			report, before, firstEnded := p.report(), p.files(), endOf(p.probe())
			m.Change(tt.statement)
			restarts := fmt.Sprintf("quoin_agent_probe_restarts_total{reason=%q}", tt.reason)
			p.until("the end of the probe is counted", func() bool { return p.metric(restarts) > 0 })
			if p.report() != report {
				t.Errorf("the report has changed:\n%s", p.report())
			}
			if diff := cmp.Diff(before, p.files()); diff != "" {
				t.Errorf("files written (-before +after):\n%s", diff)
			}
			p.until("/readyz", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK })
			p.until("the first probe has gone", firstEnded)
			m.Change("gpu 3\nfabric completed 0 00 0 2")
			p.until("a new probe reports", func() bool { return strings.Contains(p.report(), "unhealthy") && p.metric("quoin_agent_probe_up") == 1 })
			lastEnded := endOf(p.probe())
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("%v: want exit status 0", err)
			}
			p.until("no probe is left", lastEnded)
			if !strings.Contains(p.log.String(), tt.log) {
				t.Errorf("no word of %q in the log:\n%s", tt.log, &p.log)
			}
		})
	}
}

// TestNVMLAgentEndsHungProbe ends an agent whose probe hangs, in the midst or
// from the start.
func TestNVMLAgentEndsHungProbe(t *testing.T) {
	tests := []struct {
		name, statement string
		ready           int
	}{
		{"later", "call nvmlDeviceGetName hang", http.StatusOK},
		{"from the start", "call nvmlInit_v2 hang", http.StatusServiceUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := fake.New(t, "t4")
			var p *agentProcess
			if tt.ready == http.StatusOK {
				p = startNVMLAgent(t, 470, m)
				m.Change(tt.statement)
			} else {
				m.Change(tt.statement)
				p = runNVMLAgent(t, 470, m)
			}
			p.until("the probe hangs", func() bool { return m.Hung() && p.probe() != 0 })
			p.until("/readyz answers", func() bool { code, _ := p.get("/readyz"); return code == tt.ready })
			ended := endOf(p.probe())
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("%v: want exit status 0", err)
			}
			p.until("the probe ends", ended)
		})
	}
}

// TestNVMLAgentLostGPU starts the agent, with an empty run directory, on a machine with a GPU
// that NVML cannot read. The GRES indices of the others are as before, and the hook labels
// the right ones.
func TestNVMLAgentLostGPU(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "h100")
	m.Change("gpu 7", "call nvmlDeviceGetHandleByIndex_v2 error 15") // /dev/nvidia4
	p := startNVMLAgent(t, 550, m)
	inventory, err := rundir.Dir(p.node.Run()).ReadInventory()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range inventory.Entries {
		got = append(got, fmt.Sprintf("%d %s %s %t", e.GRESIndex, e.Device, e.ExporterID, e.Lost))
	}
	want := []string{
		"0 /dev/nvidia0 3 false", "1 /dev/nvidia1 2 false", "2 /dev/nvidia2 1 false", "3 /dev/nvidia3 0 false",
		"4 /dev/nvidia4  true", "5 /dev/nvidia5 6 false", "6 /dev/nvidia6 5 false", "7 /dev/nvidia7 4 false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	p.until("the lost GPU is counted", func() bool {
		return p.metric(`quoin_gpus{state="lost"}`) == 1 && p.metric(`quoin_gpus{state="idle"}`) == 7
	})
	code, said := p.hook("prolog", "SLURM_JOB_ID=7", "SLURM_JOB_GPUS=3-5", "SLURM_CONF="+nodedir.SlurmConf(t, "Name=gpu File=/dev/nvidia[0-7]\n"))
	if code != 0 || !strings.Contains(said, "/dev/nvidia4 is lost: the exporter has no id for it") {
		t.Errorf("%d, said %s", code, said)
	}
	for exporterID, want := range map[string]bool{"0": true, "6": true, "4": false, "5": false, "7": false} {
		if _, err := os.Stat(filepath.Join(p.node.Mapping(), exporterID)); (err == nil) != want {
			t.Errorf("label of the exporter's GPU %s: %v, want %t", exporterID, err, want)
		}
	}
	discover := command(t, programs.QuoinTest(t), 550, m, "discover")
	text, err := discover.Output()
	if err != nil || !regexp.MustCompile(`(?m)^5 +6 +/dev/nvidia5 `).Match(text) {
		t.Errorf("discover: %v\n%s", err, text)
	}
}

// TestNVMLAgentLostMIG has the same of a machine with MIG. How many instances the GPU had is
// not known: an index labels nothing, and the hook says why. A UUID is exact.
func TestNVMLAgentLostMIG(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "a100-mig")
	m.RealBoot()
	m.Change("gpu 0", "call nvmlDeviceGetHandleByIndex_v2 error 15")
	p := startNVMLAgent(t, 550, m)
	inventory, err := rundir.Dir(p.node.Run()).ReadInventory()
	if err != nil || !inventory.Unordered {
		t.Fatalf("inventory %+v, %v, want one that is not in order", inventory, err)
	}
	programs.PutTest(t, p.dir, programs.Hook)
	for _, job := range []struct{ visible, label, says string }{
		{"", "", "AutoDetect=nvml: it is not known whether slurmd counts a GPU that cannot be read"},
		{inventory.Entries[1].UUID, inventory.Entries[1].ExporterID, ""},
	} {
		maps := t.TempDir()
		hook := exec.CommandContext(t.Context(), filepath.Join(p.dir, "quoin-hook"), "prolog", "--run-dir", p.node.Run(), "--mapping-dir", maps)
		hook.Env = []string{"SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0", "CUDA_VISIBLE_DEVICES=" + job.visible, "SLURM_CONF=" + nodedir.SlurmConf(t, "AutoDetect=nvml\n")}
		said, err := hook.CombinedOutput()
		if err != nil || !strings.Contains(string(said), job.says) || job.says == "" && len(said) > 0 {
			t.Errorf("%v, said %s, want %q", err, said, job.says)
		}
		var labels []string
		files, _ := filepath.Glob(filepath.Join(maps, "[0-9]*"))
		for _, f := range files {
			labels = append(labels, filepath.Base(f))
		}
		if got := strings.Join(labels, " "); got != job.label {
			t.Errorf("labels %q, want %q", got, job.label)
		}
	}
}
