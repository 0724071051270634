//go:build cgo

package nvml

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/test/rig/golden"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/topology"
)

// libraryVariable makes this test program a reader of the library that it
// names: the symbols of a library stay with the process that has called them,
// and a call may end it.
const libraryVariable = "QUOIN_TEST_NVML_LIBRARY"

// rootVariable names the folder of the machine's proc and sys, and sysVariable another one of sys. wholeVariable is
// set for an agent's process.
const (
	rootVariable  = "QUOIN_TEST_ROOT"
	sysVariable   = "QUOIN_TEST_SYS"
	wholeVariable = "QUOIN_TEST_WHOLE"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(libraryVariable); path != "" {
		if err := serve(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve prints a report for each line of its input; "want" sets the devices that
// are sampled, and "sample" prints a sample.
func serve(path string) error {
	lib, err := Open(Options{Path: path, Root: os.Getenv(rootVariable), Sys: os.Getenv(sysVariable), Whole: os.Getenv(wholeVariable) != ""})
	if err != nil {
		return err
	}
	go lib.WatchXids(context.Background())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) > 0 {
			if err := serveSample(lib, words); err != nil {
				return err
			}
			continue
		}
		n, err := lib.Read()
		if err != nil {
			return err
		}
		n.Name = "n1"
		report, err := topology.EncodeReport(n)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", report)
	}
	return lib.Close()
}

func serveSample(lib *Library, words []string) error {
	if words[0] == "want" {
		lib.SampleDevices(words[1:])
		return nil
	}
	line, err := probe.EncodeSample(lib.Sample())
	fmt.Printf("%s\n", line)
	return err
}

// process reads a machine with a library of its own.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

func start(t testing.TB, driver int, m *fake.Machine) *process {
	t.Helper()
	return startWith(t, fake.Library(t, driver), m)
}

func startWith(t testing.TB, library string, m *fake.Machine, environment ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), libraryVariable+"="+library, rootVariable+"="+m.Root(), m.Environment())
	p.cmd.Env = append(p.cmd.Env, environment...)
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// say gives the process a line.
func (p *process) say(line string) {
	p.t.Helper()
	if _, err := p.in.Write([]byte(line + "\n")); err != nil {
		p.t.Fatal(err)
	}
}

// ask returns what the process answers to a line.
func (p *process) ask(line string) []byte {
	p.t.Helper()
	p.say(line)
	answer, err := p.out.ReadBytes('\n')
	if err != nil {
		_ = p.cmd.Wait()
		p.t.Fatalf("%s: %s", p.cmd.ProcessState, &p.stderr)
	}
	return answer
}

// read returns the machine as it is now.
func (p *process) read() *topology.Node {
	p.t.Helper()
	line := p.ask("")
	n, err := topology.ParseReport("read", line)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// ends reads a machine of which nothing can be read: what was said on standard
// error.
func (p *process) ends() string {
	p.t.Helper()
	_, _ = p.in.Write([]byte("\n")) // it may have ended
	if line, err := p.out.ReadString('\n'); err == nil {
		p.t.Fatalf("a report: %s", line)
	}
	_ = p.cmd.Wait()
	if p.cmd.ProcessState.ExitCode() != 1 {
		p.t.Errorf("%s: want an error", p.cmd.ProcessState)
	}
	return strings.TrimSpace(p.stderr.String())
}

// TestLoadedMachines compares the report of each machine with its golden file,
// and what matters most with the machine's description.
func TestLoadedMachines(t *testing.T) {
	const domain = "00000000-0000-0000-0000-000000000001.0"
	inOrder := []int{0, 1, 2, 3, 4, 5, 6, 7}
	tests := []struct {
		name, product string
		driver        int
		minors        []int
		memoryMiB     uint64
		links         topology.Links
		numa          int
		uuid, pci     string // of the last GPU
		clique        string
		health        topology.Health
		platform      *topology.Platform
		mig           []int
	}{
		{name: "gb200", uuid: "GPU-b200b200-0000-0000-0000-000000000007", pci: "00000000:CB:00.0",
			driver: 580, product: "NVIDIA GB200", minors: inOrder, memoryMiB: 192 << 10, links: topology.Links{Switch: 18}, numa: 3, clique: domain,
			health: topology.HealthHealthy, platform: &topology.Platform{ChassisSerial: "1822725100200", Slot: 21, Tray: 11, HostID: 1}},
		{name: "gb300", uuid: "GPU-b300b300-0000-0000-0000-000000000007", pci: "00000000:CB:00.0",
			driver: 570, product: "NVIDIA GB300 NVL", minors: inOrder, memoryMiB: 288 << 10, links: topology.Links{Switch: 18}, numa: 3, clique: domain,
			platform: &topology.Platform{ChassisSerial: "1822725100300", Slot: 26, Tray: 16, HostID: 1}},
		{name: "b200", uuid: "GPU-b2000000-0000-0000-0000-000000000007", pci: "00000000:CB:00.0",
			driver: 560, product: "NVIDIA B200", minors: inOrder, memoryMiB: 192 << 10, links: topology.Links{Unknown: 18}, numa: 1},
		{name: "h100", uuid: "GPU-01000100-0000-0000-0000-000000000007", pci: "00000000:CB:00.0",
			driver: 550, product: "NVIDIA H100 80GB HBM3", minors: []int{3, 2, 1, 0, 7, 6, 5, 4}, memoryMiB: 80 << 10, links: topology.Links{Switch: 18}, numa: 1, clique: domain},
		{name: "a100-mig", uuid: "GPU-12345678-1234-1234-1234-123456780007", pci: "00000000:BD:00.0",
			driver: 550, product: "NVIDIA A100-SXM4-40GB", minors: inOrder, memoryMiB: 40 << 10, links: topology.Links{Switch: 12}, numa: 1, mig: []int{7, 3}},
		{name: "t4", uuid: "GPU-00000074-0000-0000-0000-000000000003", pci: "00000000:D8:00.0",
			driver: 550, product: "NVIDIA T4", minors: inOrder[:4], memoryMiB: 16 << 10, numa: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := start(t, tt.driver, fake.New(t, tt.name)).read()
			goldenReport(t, tt.name, n)
			if diff := cmp.Diff(tt.platform, n.Platform); diff != "" {
				t.Errorf("platform (-want +got):\n%s", diff)
			}
			if len(n.Problems) > 0 {
				t.Errorf("problems: %v", n.Problems)
			}
			if len(n.GPUs) != len(tt.minors) {
				t.Fatalf("%d GPUs, want %d", len(n.GPUs), len(tt.minors))
			}
			for i, g := range n.GPUs {
				if g.Index != i || g.Minor == nil || *g.Minor != tt.minors[i] || g.Product != tt.product || g.MemoryMiB != tt.memoryMiB {
					t.Errorf("GPU %d: %+v", i, g)
				}
				clique := ""
				if c, ok := g.Fabric.Clique(); ok {
					clique = c.String()
				}
				if clique != tt.clique || g.Fabric.Health != tt.health {
					t.Errorf("GPU %d: fabric %+v", i, g.Fabric)
				}
				if diff := cmp.Diff(&tt.links, g.Links); diff != "" {
					t.Errorf("GPU %d: links (-want +got):\n%s", i, diff)
				}
				if i < len(tt.mig) && len(g.MIG) != tt.mig[i] || i >= len(tt.mig) && g.MIG != nil {
					t.Errorf("GPU %d: MIG %+v", i, g.MIG)
				}
			}
			last := n.GPUs[len(n.GPUs)-1]
			if last.UUID != tt.uuid || last.PCIBusID != tt.pci {
				t.Errorf("GPU %s at %s, want %s at %s", last.UUID, last.PCIBusID, tt.uuid, tt.pci)
			}
			if last.NUMANode == nil || *last.NUMANode != tt.numa {
				t.Errorf("NUMA node %v, want %d", last.NUMANode, tt.numa)
			}
		})
	}
}

// shortLines finds an NVLink and a socket, which get a line of their own.
var shortLines = regexp.MustCompile(`\{\s+("(?:link|cpus)": [^,\n]+(?:,\d[^\n]*)?),\n\s+("(?:remote|cores)": \S+)\s+\}`)

// goldenReport compares a report with its file.
func goldenReport(t *testing.T, name string, n *topology.Node) {
	t.Helper()
	report, err := topology.EncodeReport(n)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, report, "", " "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	text := shortLines.ReplaceAllString(got.String(), `{$1, $2}`)
	golden.Check(t, filepath.Join("..", "..", "test", "rig", "nvml", name+".json"), text)
}
