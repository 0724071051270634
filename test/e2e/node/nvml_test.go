//go:build cgo

package node_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/golden"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/topology"
)

// command is quoin on a machine of a loaded NVML. Its files are beside the machine's, unless
// args name others.
func command(t testing.TB, quoin string, driver int, m *fake.Machine, args ...string) *exec.Cmd {
	t.Helper()
	machine := append(nodedir.Dir(filepath.Dir(m.File)).Files(), "--set", "agent.nvmlLibrary="+fake.Library(t, driver), "--set", "agent.hostRoot="+m.Root(), "--node", "n1")
	cmd := exec.Command(quoin, slices.Insert(args, 1, machine...)...)
	cmd.Env = append(os.Environ(), m.Environment())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// TestNVMLDiscover shows loaded machines: one whose minor numbers are not in
// NVML's order, one with MIG, one with nothing but GPUs, one on which much is
// wrong.
func TestNVMLDiscover(t *testing.T) {
	t.Parallel()
	quoin := programs.QuoinTest(t)
	tests := []struct {
		name, machine string
		driver        int
		more          []string
	}{
		{"gb200", "gb200", 580, nil},
		{"h100", "h100", 550, nil},
		{"a100-mig", "a100-mig", 550, nil},
		{"t4", "t4", 470, []string{"cpus 0-31"}},
		{"trouble", "gb200", 580, []string{"platform 0x0001fe 3 2 1", "call nvmlDeviceGetCpuAffinity error 999", "gpu 1", "fabric completed 0 00 0 2 0x1451",
			"gpu 2", "call nvmlDeviceGetMinorNumber error 3", "gpu 3", "lost", "gpu 4", "links 0-17 off", "links 0-3 gpu 00000000:0A:00.0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := command(t, quoin, tt.driver, fake.New(t, tt.machine, tt.more...), "discover", "-o", "table").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			golden.Check(t, filepath.Join("testdata", "discover-"+tt.name+".txt"), string(out))
		})
	}
}

// TestNVMLRenderMIG renders what the probe reports of a machine with MIG: a line
// of gres.conf for each instance, with its device files.
func TestNVMLRenderMIG(t *testing.T) {
	t.Parallel()
	quoin := programs.QuoinTest(t)
	m := fake.New(t, "a100-mig")
	report := filepath.Join(t.TempDir(), "n1.json")
	probe := command(t, quoin, 550, m, "probe", "--once")
	out, err := probe.Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := topology.ParseReport("probe", bytes.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	n.Tiers = []string{"leaf-1"} // it has no NVLink domain
	if out, err = topology.EncodeReport(n); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(report, out, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command(quoin, "render", "--dir", dir, report).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, "gres.conf"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(got)) {
		if strings.Contains(line, "Name=gpu") {
			lines = append(lines, line)
		}
	}
	for _, want := range []string{
		"MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap66,/dev/nvidia-caps/nvidia-cap67 ",
		"MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap120,/dev/nvidia-caps/nvidia-cap121 ",
		"MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap147,/dev/nvidia-caps/nvidia-cap148 ",
		"MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap147,/dev/nvidia-caps/nvidia-cap149 ",
		"MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap183,/dev/nvidia-caps/nvidia-cap184 ",
		" File=/dev/nvidia[2-",
	} {
		if n := strings.Count(strings.Join(lines, ""), want); n != 1 {
			t.Errorf("%d lines with %q in\n%s", n, want, got)
		}
	}
	if n := strings.Count(strings.Join(lines, ""), " MultipleFiles="); n != 7+3 {
		t.Errorf("%d lines with several files, want one for each of 10 instances:\n%s", n, got)
	}

	// Without the driver's files there is no line, and the report says which file.
	probe = command(t, quoin, 550, m, "probe", "--once", "--set", "agent.hostRoot="+t.TempDir())
	if out, err = probe.Output(); err != nil {
		t.Fatal(err)
	}
	if n, err = topology.ParseReport("probe", bytes.TrimSpace(out)); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(n.Problems)
	for _, want := range []string{"capability files of MIG instances of GPU " + n.GPUs[0].UUID + ": open ", "nvidia-caps/mig-minors: no such file or directory; in a container",
		"sockets: open ", "boot id: open "} {
		if !strings.Contains(text, want) {
			t.Errorf("no problem %q in %s", want, text)
		}
	}
	if n.GPUs[0].MIG[0].Capabilities != nil || n.Sockets != nil || n.BootID != "" {
		t.Errorf("%+v", n.GPUs[0].MIG[0])
	}
}

// TestNVMLRenderLeftOut renders machines that have no NVLink fabric, by drivers of
// which some cannot say so, beside two that have one: they are left out and named.
func TestNVMLRenderLeftOut(t *testing.T) {
	t.Parallel()
	quoin, dir := programs.QuoinTest(t), t.TempDir()
	args := []string{"render", "--dir", dir}
	for _, m := range []struct {
		name, machine string
		driver        int
	}{{"gb-1", "gb200", 580}, {"gb-2", "gb200", 580}, {"t-1", "t4", 580}, {"t-2", "t4", 470}, {"a-1", "a100-mig", 550}, {"b-1", "b200", 560}, {"b-2", "b200", 525}} {
		probe := command(t, quoin, m.driver, fake.New(t, m.machine), "probe", "--once", "--node", m.name)
		out, err := probe.Output()
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, filepath.Join(dir, m.name+".json"))
		if err := os.WriteFile(args[len(args)-1], out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(quoin, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, names := range []string{"a-1", "b-[1-2]", "t-[1-2]"} {
		if !bytes.Contains(out, []byte(names)) {
			t.Errorf("%s is not named in\n%s", names, out)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "topology.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for line := range strings.Lines(string(got)) {
		if _, list, ok := strings.Cut(line, "nodes: "); ok {
			nodes = append(nodes, strings.TrimSpace(list))
		}
	}
	if diff := cmp.Diff([]string{"gb-[1-2]"}, nodes); diff != "" {
		t.Errorf("blocks (-want +got):\n%s\n%s", diff, got)
	}
}

// TestNVMLDiscoverFails has the library end or hang the probe: a line that says
// so, and no process that stays.
func TestNVMLDiscoverFails(t *testing.T) {
	t.Parallel()
	quoin := programs.QuoinTest(t)
	const hangs = "quoin: NVML has not answered within 1s: a GPU may be faulty; see dmesg for Xid, or give --timeout\n"
	tests := []struct{ name, statement, timeout, want string }{ // a busy machine takes a second to start a probe
		{"error", "call nvmlInit_v2 error 9", "1m", "quoin: initialise NVML: DRIVER_NOT_LOADED; is the kernel module nvidia loaded?\n"},
		{"undefined symbol", "call nvmlDeviceGetName exit 127", "1m", "quoin: NVML ended the probe: the driver is older than a call that was made, or broken: symbol lookup error: undefined symbol: nvmlDeviceGetName\n"},
		{"hang", "call nvmlDeviceGetName hang", "1s", hangs},
		{"hang at once", "call nvmlInit_v2 hang", "1s", hangs},
		{"crash", "call nvmlDeviceGetName crash", "1m", "quoin: NVML crashed in nvmlDeviceGetName: SIGSEGV: segmentation violation\n"},
		{"abort", "call nvmlInit_v2 abort", "1m", "quoin: NVML crashed in nvmlInit_v2: SIGABRT: abort\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			cmd := command(t, quoin, 580, fake.New(t, "h100", tt.statement), "discover", "--timeout", tt.timeout)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if err == nil || cmd.ProcessState.ExitCode() != 2 || stdout.Len() > 0 || stderr.String() != tt.want {
				t.Errorf("%v, %q, %s\nwant %q", err, &stdout, &stderr, tt.want)
			}
		})
	}
}

// TestNVMLTooOld has a library that lacks what every supported driver has: it is
// refused, and what it lacks is named.
func TestNVMLTooOld(t *testing.T) {
	t.Parallel()
	out, err := command(t, programs.QuoinTest(t), 418, fake.New(t, "t4"), "discover").CombinedOutput()
	if text := string(out); err == nil || !strings.HasPrefix(text, "quoin: load NVML: ") ||
		!strings.Contains(text, " lacks nvmlDeviceGetMemoryAffinity: it is no NVML, or that of a driver before 470; correct --nvml-library") {
		t.Errorf("%v: %s", err, text)
	}
}

// isSample says whether a line of the probe is a sample. It looks at all devices at its start.
func isSample(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"kind":"Sample"`)) }

// TestNVMLProbe streams what happens on a machine that starts: a line for each
// change, empty lines between.
func TestNVMLProbe(t *testing.T) {
	t.Parallel()
	const completed = "fabric completed 0 00000000-0000-0000-0000-000000000009 3 1"
	m := fake.New(t, "gb200", "fabric notStarted")
	cmd := command(t, programs.QuoinTest(t), 580, m, "probe", "--times", "read: 20ms")
	stdin, stdout := startPiped(t, cmd)
	lines := bufio.NewReader(stdout)
	// next returns the next report, and how many empty lines were before it.
	next := func() (*topology.Node, int) {
		t.Helper()
		for empty := 0; ; empty++ {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				t.Fatal(err)
			}
			if isSample(line) {
				continue
			}
			if len(line) == 1 {
				if empty > 3000 { // a minute of readings
					t.Fatal("no other report comes")
				}
				continue
			}
			n, err := topology.ParseReport("probe", line)
			if err != nil {
				t.Fatal(err)
			}
			return n, empty
		}
	}
	quiet := func() {
		t.Helper()
		for empty := 0; empty < 3; {
			line, err := lines.ReadBytes('\n')
			switch {
			case err == nil && isSample(line): // of a minute
			case err == nil && len(line) == 1:
				empty++
			default:
				t.Fatalf("%q, %v: want an empty line", line, err)
			}
		}
	}
	n, empty := next()
	if n.GPUs[0].Fabric.State != topology.FabricNotStarted || empty > 0 || n.BootID == "" {
		t.Errorf("%+v after %d empty lines", n, empty)
	}
	for _, step := range []struct{ statement, want string }{
		{"fabric inProgress", "iiiiiiii"},
		{completed + "\ngpu 7\nfabric inProgress", "ccccccci"},
		{completed, "cccccccc"},
		{completed + "\ngpu 0\nmig on 7\nmigdevice 0 MIG-a 1 0 NVIDIA GB200 MIG 1g.24gb", "c+1ccccccc"},
		{completed + "\ngpu 0\nmig on 7\nmigdevice none", "c+emptyccccccc"},
		{completed, "cccccccc"},
	} {
		quiet()
		m.Change(step.statement)
		// A change is several files: some readings may fall between two of them.
		for n, _ = next(); fabrics(n) != step.want || len(n.Problems) > 0; n, _ = next() {
			t.Logf("%s: %s, not %s, problems %v", step.statement, fabrics(n), step.want, n.Problems)
		}
	}
	if c, ok := n.GPUs[7].Fabric.Clique(); !ok || c.String() != "00000000-0000-0000-0000-000000000009.3" {
		t.Errorf("GPU 7 is in %s", c)
	}
	quiet()
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the probe's input has ended: %v", err)
	}
}

// fabrics is a letter for each GPU's fabric state, and how many MIG instances it
// has, or that it has none though MIG is on.
func fabrics(n *topology.Node) string {
	var b strings.Builder
	for _, g := range n.GPUs {
		b.WriteString(string(g.Fabric.State[:1]))
		if len(g.MIG) > 0 {
			fmt.Fprintf(&b, "+%d", len(g.MIG))
		}
		if g.MIGEmpty {
			b.WriteString("+empty")
		}
	}
	return b.String()
}
