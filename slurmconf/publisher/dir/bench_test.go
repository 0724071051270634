package dir

import (
	"runtime/metrics"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/reportdir"
)

// BenchmarkSnapshot36000 reads a store of 36,000 reports for the first time, as a new publisher
// does, and then again when one of them changed.
func BenchmarkSnapshot36000(b *testing.B) {
	site := sites.Parse(b, `
name: large
groups:
  - racks: 2000
    nodes: 18
    node: gb200-{node:05}
    nvlink: rack
    gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144, nvlinks: 18}
`)
	r := &rig{b, New(b.TempDir())}
	var last []byte
	for _, m := range site.Machines() {
		var err error
		if last, err = topology.EncodeReport(m.Report); err != nil {
			b.Fatal(err)
		}
		r.write(string(last), reportdir.Folder, m.Name+".json")
	}
	look := func(b *testing.B, s *Store) {
		b.Helper()
		snap, err := s.Snapshot(b.Context())
		if err != nil || len(snap.Reports) != 36000 || len(snap.Problems) > 0 {
			b.Fatalf("%d reports, problems %v, %v", len(snap.Reports), snap.Problems, err)
		}
	}
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		peak := watchHeap(b)
		for b.Loop() {
			look(b, New(r.dir))
		}
		b.ReportMetric(float64(peak())/1e6, "MB-peak")
	})
	b.Run("again", func(b *testing.B) {
		s := New(r.dir)
		look(b, s)
		b.ReportAllocs()
		for b.Loop() {
			r.write(string(last), reportdir.Folder, "gb200-36000.json")
			look(b, s)
		}
	})
}

// watchHeap returns what returns the most bytes that the heap had until then.
func watchHeap(b *testing.B) func() uint64 {
	b.Helper()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	var peak uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(time.Millisecond); ; {
			metrics.Read(sample)
			peak = max(peak, sample[0].Value.Uint64())
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-stopped
		return peak
	}
}
