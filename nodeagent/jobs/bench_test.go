package jobs

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// manyJobs is a registry of so many jobs that hold all of a node's eight GPUs.
func manyJobs(b testing.TB, jobs int) *Registry {
	b.Helper()
	run := b.TempDir()
	inv := rundir.Inventory{Node: "n1"}
	n := &topology.Node{Name: "n1"}
	clique, err := topology.ParseClique("5a1b2c3d-0000-1111-2222-333344445555.7")
	if err != nil {
		b.Fatal(err)
	}
	var gpus, uuids []string
	for i := range 8 {
		uuid := fmt.Sprintf("GPU-5a1b2c3d-0000-1111-2222-%012d", i)
		gpus, uuids = append(gpus, fmt.Sprint(i)), append(uuids, uuid)
		inv.Entries = append(inv.Entries, rundir.Entry{GRESIndex: i, Minor: i, UUID: uuid, Product: "NVIDIA GB200", ExporterID: fmt.Sprint(i)})
		n.GPUs = append(n.GPUs, topology.GPU{Index: i, UUID: uuid, Product: "NVIDIA GB200",
			Fabric: topology.Fabric{ClusterUUID: clique.ClusterUUID, CliqueID: clique.ID, State: topology.FabricCompleted}})
	}
	if err := rundir.Dir(run).WriteInventory(inv); err != nil {
		b.Fatal(err)
	}
	for i := range jobs {
		id := fmt.Sprint(100_000 + i)
		r := rundir.Record{JobID: id, Run: rundir.Run{StartTime: "1790000000"}, User: "alice", Partition: "gpu", Account: "physics", Cluster: "c1", Node: "n1", GPUs: gpus, UUIDs: uuids}
		if err := rundir.Dir(run).WriteRecord(id, r); err != nil {
			b.Fatal(err)
		}
	}
	j := New(Config{RunDir: rundir.Dir(run), Labels: dcgm.Mapping{Dir: filepath.Join(run, "map")}, Proc: filepath.Join(run, "proc")}, slog.New(slog.DiscardHandler))
	j.node = n
	j.recall()
	j.round(b.Context())
	return j
}

// BenchmarkScrape measures a scrape of 1,000 jobs on eight GPUs.
func BenchmarkScrape(b *testing.B) {
	j := manyJobs(b, 1000)
	reg := processSeries()
	reg.MustRegister(j.Collector())
	h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true})
	for _, kind := range []string{"text/plain", "application/openmetrics-text;version=1.0.0"} {
		for _, encoding := range []string{"identity", "gzip"} {
			name, _, _ := strings.Cut(kind, ";")
			b.Run(strings.ReplaceAll(name, "/", " ")+" "+encoding, func(b *testing.B) {
				from := processorTimeOf(b)
				for b.Loop() {
					r := httptest.NewRequest("GET", "/metrics", nil)
					r.Header.Set("Accept", kind)
					r.Header.Set("Accept-Encoding", encoding)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					b.SetBytes(int64(w.Body.Len()))
				}
				b.ReportMetric(float64((processorTimeOf(b)-from).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

func processorTimeOf(b testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
