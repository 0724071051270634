package client

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// BenchmarkRealAsk asks a real Slurm about 10,008 nodes.
func BenchmarkRealAsk(b *testing.B) {
	const nodes = 10008
	c, rest, _ := startREST(b, slurmrig.Config{SlurmConf: fmt.Sprintf("NodeName=n[1-%d] NodeAddr=127.0.0.1 Port=20131\nPartitionName=p Nodes=ALL\n", nodes)})
	program, err := c.Scontrol()
	if err != nil {
		b.Fatal(err)
	}
	for name, slurm := range map[string]Asker{"slurmrestd": rest, "scontrol": &Scontrol{Program: program}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s, err := slurm.Ask(b.Context(), Question{Loaded: true, Topologies: []string{""}, Nodes: true}); err != nil || len(s.Nodes) != nodes {
					b.Fatal(err)
				}
			}
		})
	}
	logSizes(b, rest, "nodes/")
}

// BenchmarkRealAskJobs asks a real Slurm about 10,008 nodes and 2,000 jobs that have them. No slurmd
// runs: the nodes never finish to power up.
func BenchmarkRealAskJobs(b *testing.B) {
	const nodes, jobs = 10008, 2000
	c, rest, _ := startREST(b, slurmrig.Config{
		SlurmConf: fmt.Sprintf("ResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\nResumeTimeout=60000\nResumeRate=0\nMaxArraySize=%d\nSchedulerParameters=default_queue_depth=%[1]d,sched_max_job_start=0,sched_interval=2,max_sched_time=50\n"+
			"NodeName=n[1-%d] NodeAddr=127.0.0.1 Port=20131 CPUs=72 RealMemory=1000 State=CLOUD\nPartitionName=p Nodes=ALL Default=YES\n", jobs+1, nodes)})
	c.RunTest(b, "sbatch", fmt.Sprintf("--array=1-%d", jobs), "-N5", "--exclusive", "--wrap", "true")
	one := ""
	for running := 0; running < jobs; time.Sleep(time.Second) { // slurmctld has to schedule meanwhile
		s, err := rest.Ask(b.Context(), Question{Jobs: true})
		if err != nil {
			b.Fatal(err)
		}
		if running = len(s.Jobs); running > 0 {
			one = s.Jobs[0].ID
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if s, err := rest.Ask(b.Context(), Question{Nodes: true, Jobs: true}); err != nil || len(s.Nodes) != nodes || len(s.Jobs) != jobs {
			b.Fatal(err)
		}
	}
	logSizes(b, rest, "nodes/", "jobs/?flags=ALL", "jobs/", "partitions/", "job/"+one)
}

// logSizes logs how long answers are.
func logSizes(b *testing.B, rest *REST, paths ...string) {
	b.Helper()
	for _, path := range paths {
		began := time.Now()
		err := rest.get(b.Context(), path, func(body io.Reader) error {
			n, err := io.Copy(io.Discard, body)
			b.Logf("%s: %d bytes in %s", path, n, time.Since(began))
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
