//go:build cgo

package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	fake "github.com/quoin-hpc/quoin/testdata/nvml"
	"github.com/quoin-hpc/quoin/testdata/rig/process"
	"github.com/quoin-hpc/quoin/testdata/rig/programs"
)

// BenchmarkProbeSample is what a running probe uses for a hundred samples of eight
// GPUs, or of seven MIG instances: processor time of each, how long the readings
// wait for one, and what is resident while it samples and was before. The time that
// a driver takes for the calls is not in it.
func BenchmarkProbeSample(b *testing.B) {
	const samples = 100
	inMemory := inTmpfs(b, programs.QuoinTest(b))
	for _, of := range []struct {
		machine, uuid string
		devices       int
	}{{"h100", "GPU-01000100-0000-0000-0000-%012d", 8}, {"a100-mig", "MIG-00000000-0000-0000-0000-%012d", 7}} {
		b.Run(of.machine, func(b *testing.B) {
			var uuids []string
			for i := range of.devices {
				uuids = append(uuids, fmt.Sprintf(of.uuid, i))
			}
			var used time.Duration
			var before, with int
			for b.Loop() {
				p := startToldProbe(b, command(b, inMemory, 580, fake.New(b, of.machine), "probe", "--times", "read: 400ms"))
				p.readings(3) // memory was trimmed after the first
				before = max(before, process.KiB(b, p.cmd.Process.Pid, "VmRSS"))
				p.tell("sample 100ms " + strings.Join(uuids, ","))
				p.sampleOf(uuids...)
				p.readings(1)
				begun := processorTime(b, p.cmd.Process.Pid)
				readings := 0
				for n := 0; n < samples; {
					if p.line() == "" {
						readings++
						continue
					}
					n++
					with = max(with, process.KiB(b, p.cmd.Process.Pid, "VmRSS"))
				}
				used += processorTime(b, p.cmd.Process.Pid) - begun
				b.ReportMetric(float64(readings), "readings")
				p.tell("sample off")
				p.end()
			}
			b.ReportMetric(float64(used.Microseconds())/float64(samples*b.N), "µs-CPU/sample-and-¼-reading")
			b.ReportMetric(float64(before)*1024/1e6, "MB-before")
			b.ReportMetric(float64(with)*1024/1e6, "MB-sampling")
		})
	}
}

// readings passes over so many readings that changed nothing.
func (p *toldProbe) readings(n int) {
	p.t.Helper()
	for n > 0 {
		if p.line() == "" {
			n--
		}
	}
}
