//go:build cgo

package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

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
