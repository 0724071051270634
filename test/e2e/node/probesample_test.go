//go:build cgo

package node_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	firstH100  = "GPU-01000100-0000-0000-0000-000000000000"
	secondH100 = "GPU-01000100-0000-0000-0000-000000000001"
)

// toldProbe is a probe that is told what to sample.
type toldProbe struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr bytes.Buffer
}

// startPiped starts a command, and returns its standard input and output.
func startPiped(t testing.TB, cmd *exec.Cmd) (io.WriteCloser, io.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return in, out
}

func startToldProbe(t testing.TB, cmd *exec.Cmd) *toldProbe {
	t.Helper()
	p := &toldProbe{t: t, cmd: cmd}
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, out := startPiped(t, p.cmd)
	p.in, p.out = in, bufio.NewScanner(out)
	p.out.Buffer(nil, 1<<20)
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	if line := p.line(); !strings.Contains(line, `"kind":"NodeReport"`) {
		t.Fatalf("first line %s", line)
	}
	return p
}

func (p *toldProbe) tell(lines string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, lines+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *toldProbe) line() string {
	p.t.Helper()
	if !p.out.Scan() {
		_ = p.cmd.Wait()
		p.t.Fatalf("%v, %s: %s", p.out.Err(), p.cmd.ProcessState, &p.stderr)
	}
	return p.out.Text()
}

// sampleOf returns the first sample that is of these devices and no others.
func (p *toldProbe) sampleOf(uuids ...string) topology.Sample {
	p.t.Helper()
	for range 1000 {
		s, err := probe.ParseSample([]byte(p.line()))
		if err != nil {
			p.t.Fatal(err)
		}
		var got []string
		for _, d := range s.Devices {
			got = append(got, d.UUID)
		}
		if cmp.Equal(uuids, got) {
			return s
		}
	}
	p.t.Fatalf("a thousand samples, none of %v", uuids)
	return topology.Sample{}
}

// end closes the standard input and returns what the probe said on its standard
// error.
func (p *toldProbe) end() string {
	p.t.Helper()
	_ = p.in.Close()
	for p.out.Scan() { // what it was about to say
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("at the end of its input: %v", err)
	}
	return p.stderr.String()
}

// TestProbeSamples tells a probe what to sample, and something else, and nonsense,
// and nothing more.
func TestProbeSamples(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "h100", "gpu 1", "utilization 50", "processes 77", "gpm 25 12.5")
	m.Namespace(fake.FirstNamespace)
	p := startToldProbe(t, command(t, programs.QuoinTest(t), 580, m, "probe", "--times", "read: 1h"))
	p.tell("sample 100ms " + firstH100 + "," + secondH100)
	p.sampleOf(firstH100, secondH100)
	s := p.sampleOf(firstH100, secondH100)
	idle, busy := &s.Devices[0], &s.Devices[1]
	if !idle.Idle() || !busy.Busy() || *busy.Utilization != 0.5 || *busy.Processes != 1 {
		t.Errorf("%+v\n%+v", idle, busy)
	}
	p.tell("sample 10ms " + firstH100 + "\nsample everything\n\x00\xff\n" + strings.Repeat("x", 3<<20) + "\nsample 100ms " + secondH100)
	p.sampleOf(secondH100)
	p.tell("sample off\nsample 100ms GPU-of-nobody")
	p.sampleOf()
	said := p.end()
	for _, want := range []string{`quoin probe: line "sample 10ms `, `quoin probe: line "sample everything": want sample TIME`, `quoin probe: line "xxxxx`} {
		if strings.Count(said, want) != 1 {
			t.Errorf("said\n%s\nwant %q once", said, want)
		}
	}
	if n := strings.Count(said, "\n"); n != 4 {
		t.Errorf("%d lines, want one for each of four bad ones:\n%s", n, said)
	}
}

// TestProbeSamplesInAStorm tells a probe something else all the time, as when many
// short jobs come and go: it samples all the same.
func TestProbeSamplesInAStorm(t *testing.T) {
	t.Parallel()
	p := startToldProbe(t, command(t, programs.QuoinTest(t), 580, fake.New(t, "h100"), "probe", "--times", "read: 1h"))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			_, _ = fmt.Fprintf(p.in, "sample 200ms %s,GPU-of-job-%d\n", firstH100, i) // or it has ended, which the test sees
		}
	}()
	for range 3 {
		p.sampleOf(firstH100)
	}
	close(stop)
	<-stopped
	if said := p.end(); said != "" {
		t.Errorf("said %s", said)
	}
}

// TestProbeSamplesSimulated samples a simulated machine: what its file says, an
// energy that grows with the power, and another use when the file has another.
func TestProbeSamplesSimulated(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/c.yaml"
	const cluster = "groups:\n- node: n1\n  gpus: {count: 1, product: G, memoryMiB: 1000}\n  use: {processes: 1, utilization: 90, power: 600}\n"
	put.File(t, file, cluster, 0o600)
	quoin := programs.QuoinTest(t)
	p := startToldProbe(t, exec.Command(quoin, "probe", "--simulate", file, "--node", "n1", "--times", "read: 1h"))
	out, err := exec.Command(quoin, "probe", "--simulate", file, "--node", "n1", "--once").Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := topology.ParseReport("probe", bytes.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now() // before the probe is told: this process may stand still after that
	p.tell("sample 100ms " + n.GPUs[0].UUID)
	first := p.sampleOf(n.GPUs[0].UUID).Devices[0]
	most := 600 * time.Since(begun).Seconds() // since the probe was told
	var last topology.DeviceUse
	for range 5 {
		last = p.sampleOf(n.GPUs[0].UUID).Devices[0]
	}
	took := time.Since(begun).Seconds()
	if grown := *last.Energy - *first.Energy; *first.Energy > most || grown < 600*0.3 || grown > 600*took || *last.Utilization != 0.9 {
		t.Errorf("energy grew by %g J in %g s, first %+v, last %+v", grown, took, first, last)
	}
	put.File(t, file, strings.Replace(cluster, "processes: 1, utilization: 90", "processes: 0, utilization: 0", 1), 0o600)
	for end := time.Now().Add(3 * time.Minute); !last.Idle(); last = p.sampleOf(n.GPUs[0].UUID).Devices[0] {
		if time.Now().After(end) {
			t.Fatalf("%+v", last)
		}
	}
	if said := p.end(); said != "" {
		t.Errorf("said %s", said)
	}
}
