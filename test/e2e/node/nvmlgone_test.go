//go:build cgo

package node_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/topology"
)

// TestNVMLAgentWithoutNVML starts an agent where NVML cannot be loaded or
// initialised. It says why, goes on, and reports when NVML is there.
func TestNVMLAgentWithoutNVML(t *testing.T) {
	library := fake.Library(t, 580)
	whole, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name      string
		library   []byte // nil: none
		statement string
		log       string
	}{
		{"no library", nil, "", "cannot open shared object file: No such file or directory"},
		{"no ELF file", []byte("a text that is longer than the header of an ELF file, which has sixty-four bytes"), "", "invalid ELF header"},
		{"cut short", whole[:len(whole)/4], "", "probe ended"}, // the loader crashes, or says so
		{"without nvmlInit_v2", bytes.ReplaceAll(whole, []byte("\x00nvmlInit_v2\x00"), []byte("\x00xvmlInit_v2\x00")), "", "lacks nvmlInit_v2: it is no NVML, or that of a driver before 470"},
		{"other release than the driver", whole, "call nvmlInit_v2 error 18", "LIB_RM_VERSION_MISMATCH; library and kernel module are of two releases: reboot the node"},
		{"no permission", whole, "call nvmlInit_v2 error 4", "NO_PERMISSION; may this user open /dev/nvidiactl"},
		{"driver not loaded", whole, "call nvmlInit_v2 error 9", "DRIVER_NOT_LOADED; is the kernel module nvidia loaded?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, p := fake.New(t, "t4", tt.statement), newAgentProcess(t)
			path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
			replace := func(data []byte) {
				t.Helper()
				put.File(t, path, string(data), 0o700)
			}
			if tt.library != nil {
				replace(tt.library)
			}
			cmd := p.onNVML(programs.QuoinTest(t), 580, m, "20ms")
			cmd.Args = append(cmd.Args, "--set", "agent.nvmlLibrary="+path)
			p.start(cmd)
			p.until("the end of a probe is counted", func() bool { return p.metric(`quoin_agent_probe_restarts_total{reason="exit"}`) > 0 })
			p.until("/readyz, for there is a reason", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK })
			if p.report() != "" {
				t.Errorf("a report: %s", p.report())
			}
			replace(whole)
			m.Change()
			p.until("a report", func() bool {
				return strings.Count(p.report(), "GPU-00000074-") == 4 && p.metric("quoin_agent_probe_up") == 1
			})
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("%v: want exit status 0", err)
			}
			if !strings.Contains(p.log.String(), tt.log) {
				t.Errorf("no word of %q in the log:\n%s", tt.log, &p.log)
			}
		})
	}
}

// TestNVMLAgentReset resets a GPU after an Xid, as manifests/RUNBOOKS.md says. The reset is refused
// while the agent runs. Afterwards the next agent reports no Xid: because NVML took back that the
// GPU needs a reset or, with a driver that does not say so, because somebody deleted the report.
func TestNVMLAgentReset(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, needs, fine string
	}{
		{"driver with a recovery action", "field 230 1", "field 230 0"},
		{"driver without", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := fake.New(t, "t4", "xid none")
			p := startNVMLAgent(t, 580, m)
			p.until("Xid 119", func() bool {
				m.Change("gpu 2", "xid 119", tt.needs) // once and again, until it is registered
				p.metric("quoin_agent_probe_up")
				m.Change("gpu 2", tt.needs)
				return p.metric(`quoin_agent_problems{reason="XidCritical"}`) == 1
			})
			if needed := p.metric(`quoin_agent_problems{reason="RecoveryNeeded"}`); (needed == 1) != (tt.needs != "") {
				t.Errorf("%v problems RecoveryNeeded", needed)
			}
			if err := m.Reset(tt.fine); err == nil {
				t.Fatal("the GPU was reset while the agent held it")
			}
			stop := func() {
				t.Helper()
				_ = p.cmd.Process.Signal(syscall.SIGTERM)
				if err := p.cmd.Wait(); err != nil {
					t.Fatal(err)
				}
			}
			again := func() {
				t.Helper()
				p.start(p.onNVML(programs.QuoinTest(t), 580, m, "20ms"))
				p.until("a report of the next agent", func() bool {
					return p.metric("quoin_agent_probe_up") == 1 && p.metric("quoin_agent_report_stored") == 1
				})
			}
			stop()
			if err := m.Reset("gpu 2", tt.fine); err != nil {
				t.Fatal(err)
			}
			again()
			if tt.fine == "" { // nobody knows that it was reset
				if left := p.metric(`quoin_agent_problems{reason="XidCritical"}`); left != 1 {
					t.Errorf("%v problems XidCritical", left)
				}
				stop()
				if err := os.Remove(filepath.Join(p.dir, "reports", "n1.json")); err != nil {
					t.Fatal(err)
				}
				again()
			}
			p.until("the end of the Xid", func() bool {
				n, err := topology.ParseReport("report", []byte(p.report()))
				return err == nil && len(n.Problems) == 0 && n.GPUs[2].Xids == nil
			})
			if left := p.metric(`quoin_agent_problems{reason="XidCritical"}`); left > 0 {
				t.Errorf("%v problems XidCritical", left)
			}
		})
	}
}

// TestNVMLAgentReloadedDriver takes the driver from NVML in the middle, and gives it back. The
// new probe registers for events again, and earlier Xids are kept.
func TestNVMLAgentReloadedDriver(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "t4", "xid none")
	p := startNVMLAgent(t, 550, m)
	event := func(code string) {
		t.Helper()
		p.until("Xid "+code, func() bool {
			m.Change("gpu 2", "xid "+code) // once and again, until it is registered
			p.metric("quoin_agent_probe_up")
			m.Change()
			return strings.Contains(p.report(), "had Xid "+code+",")
		})
	}
	event("79")
	ended := endOf(p.probe())
	m.Change("gpu 3", "call nvmlDeviceGetHandleByIndex_v2 error 1")
	p.until("the probe ends", ended)
	m.Change()
	event("48")
	if n, err := topology.ParseReport("report", []byte(p.report())); err != nil || !slices.Equal(n.GPUs[2].Xids, []int{48, 79}) {
		t.Errorf("%v: %+v", err, n)
	}
	if want := "open GPU 3: UNINITIALIZED; NVML has to be initialised again"; !strings.Contains(p.log.String(), want) {
		t.Errorf("no word of %q in the log:\n%s", want, &p.log)
	}
}
