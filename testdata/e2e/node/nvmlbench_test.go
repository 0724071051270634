//go:build cgo

package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	fake "github.com/quoin-hpc/quoin/testdata/nvml"
	"github.com/quoin-hpc/quoin/testdata/rig/programs"
)

// BenchmarkAgentRestNVML is BenchmarkAgentRest on eight GPUs of a loaded NVML,
// without events: the one that is loaded looks for them a hundred times a second,
// where the driver waits.
func BenchmarkAgentRestNVML(b *testing.B) {
	quoin := programs.QuoinTest(b)
	for _, machine := range []string{"h100", "gb200"} {
		b.Run(machine, func(b *testing.B) {
			for b.Loop() {
				p := newAgentProcess(b)
				p.start(p.onNVML(quoin, 580, fake.New(b, machine, "call nvmlEventSetCreate error 3"), "5s"))
				measureAgent(b, p)
			}
		})
	}
}

// BenchmarkAgentChange measures the time from a change in NVML, on eight GPUs, to
// the stored report that says so, and what of the longest is more than the
// interval between two readings.
func BenchmarkAgentChange(b *testing.B) {
	const interval = 100 * time.Millisecond
	m := fake.New(b, "gb200")
	p := newAgentProcess(b)
	p.start(p.onNVML(programs.QuoinTest(b), 580, m, interval.String()))
	p.until("report", p.settled)
	var longest time.Duration
	serial := 0
	for b.Loop() {
		serial++
		want := fmt.Sprintf("\"driverVersion\":\"580.%d\"", serial)
		changed := time.Now()
		m.Change(fmt.Sprintf("driver 580.%d", serial))
		for !strings.Contains(p.report(), want) {
			if time.Since(changed) > 30*time.Second {
				b.Fatalf("not reported: %s", want)
			}
			time.Sleep(200 * time.Microsecond)
		}
		longest = max(longest, time.Since(changed))
	}
	b.ReportMetric(float64((longest-interval).Microseconds())/1000, "ms-beyond-interval")
}
