//go:build cgo

package node_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	fakedcgm "github.com/quoin-hpc/quoin/test/rig/dcgm"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// TestProbeDCGM loads a libdcgm by the real go-dcgm.
func TestProbeDCGM(t *testing.T) {
	t.Parallel()
	const two = "gpu 0 GPU-b\ngpu 5 GPU-a\n"
	const line = `{"apiVersion":"quoin.dev/v1alpha1","kind":"DCGMIdentities","gpus":[{"uuid":"GPU-b","id":0},{"uuid":"GPU-a","id":5}]}` + "\n"
	quoin := programs.QuoinTest(t)
	tests := []struct {
		name, address, statements, stdout, stderr string
		code                                      int
	}{
		{"two GPUs", "localhost:5555", two, line, "", 0},
		{"a socket", "/run/nvidia-dcgm.sock", two, line, "", 0},
		{"one is lost", "localhost", two + "gpu 6 lost\n", line, "", 0},
		{"no GPU", "localhost", "", `{"apiVersion":"quoin.dev/v1alpha1","kind":"DCGMIdentities","gpus":null}` + "\n", "", 0},
		{"no host engine", "localhost:1", "call dcgmConnect_v2 error -21", "",
			"quoin: reach DCGM's host engine at localhost:1: error connecting to nv-hostengine: Host engine connection invalid/disconnected\n", 2},
		{"not at home", "localhost:1", "call dcgmInit error -12", "", "quoin: reach DCGM's host engine at localhost:1: error initializing DCGM: API version mismatch\n", 2},
		{"list", "localhost", "call dcgmGetEntityGroupEntities error -21", "", "quoin: list the GPUs of DCGM: error getting entity count: Host engine connection invalid/disconnected\n", 2},
		{"read", "localhost", two + "call dcgmEntitiesGetLatestValues error -1", "", "quoin: read the UUIDs of DCGM's GPUs: Bad parameter passed to function\n", 2},
		{"a GPU twice", "localhost", two + "gpu 7 GPU-a\n", "", "quoin: encode DCGM ids: gpus[2]: GPU-a, id 7: a GPU before has one of them\n", 2},
		{"ends the process", "localhost", "call dcgmInit exit 127", "", "", 127},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), quoin, "probe-dcgm", "--host-engine", tt.address)
			cmd.Env, cmd.Stdout, cmd.Stderr = fakedcgm.Environment(t, tt.statements), &stdout, &stderr
			_ = cmd.Run()
			if stdout.String() != tt.stdout || stderr.String() != tt.stderr || cmd.ProcessState.ExitCode() != tt.code {
				t.Errorf("exit %d, %s%s\nwant %d, %s%s", cmd.ProcessState.ExitCode(), &stdout, &stderr, tt.code, tt.stdout, tt.stderr)
			}
		})
	}
	out, err := exec.CommandContext(t.Context(), quoin, "probe-dcgm").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "quoin: reach DCGM's host engine at localhost:5555: libdcgm.so.4 not found") {
		t.Errorf("without the library: %v, %s", err, out)
	}
}

// TestDCGMHostEngine has an agent ask the host engine, and the exporter when the
// library does what libraries do.
func TestDCGMHostEngine(t *testing.T) {
	t.Parallel()
	const engine, exporter = "[7 6 5 4 3 2 1 0]", "[3 4 5 6 7 0 1 2]"
	var gpus strings.Builder
	for i := range 8 {
		fmt.Fprintf(&gpus, "gpu %d GPU-01000100-0000-0000-0000-00000000000%d\n", 7-i, i)
	}
	tests := []struct {
		name, statement, want string
		macros                []string
	}{
		{"answers", "", engine, nil},
		{"a word between", "call dcgmInit print", engine, nil},
		{"hangs after its answer", "call dcgmDisconnect hang", engine, nil},
		{"not there", "call dcgmConnect_v2 error -21", exporter, nil},
		{"crashes", "call dcgmConnect_v2 crash", exporter, nil},
		{"undefined symbol", "", exporter, []string{"OLD"}},
		{"hangs", "call dcgmConnect_v2 hang", exporter, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "hangs" && testing.Short() {
				t.Skip("takes 15 s, after which the agent calls it a hang")
			}
			t.Parallel()
			e, p := startExporter(t), newAgentProcess(t)
			cmd := p.onNVML(programs.QuoinTest(t), 550, fake.New(t, "h100"), "50ms")
			cmd.Args = append(cmd.Args, "--set", "agent.dcgmHostEngine=localhost:5555", "--set", "agent.dcgmExporter="+e.URL)
			cmd.Env = append(fakedcgm.Environment(t, gpus.String()+tt.statement, tt.macros...), cmd.Env[len(os.Environ()):]...)
			p.start(cmd)
			p.until("the report", func() bool { return p.report() != "" })
			if got := fmt.Sprint(reportedIDs(t, p)); got != tt.want {
				t.Errorf("ids %s, want %s", got, tt.want)
			}
			result := map[string]string{engine: "ok", exporter: "error"}[tt.want]
			p.until("it is counted", func() bool {
				return p.metric(fmt.Sprintf(`quoin_agent_dcgm_reads_total{result=%q,source="hostengine"}`, result)) == 1
			})
		})
	}
}
