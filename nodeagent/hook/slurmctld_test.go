package hook

import (
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
)

// slurmctldCPU is what slurmctld has used, in hundredths of a second.
const slurmctldCPU = `f=$(cat /proc/$(pgrep -o -x 'slurmctld(-wlm)?' || pgrep -o slurmctld)/stat); set -- ${f##*) }; echo $((${12} + ${13}))`

// BenchmarkSlurmctld has the nodes of one job ask a real slurmctld about it, as
// the hook does where the site has turned that on.
func BenchmarkSlurmctld(b *testing.B) {
	for _, release := range slurmrig.Releases() {
		b.Run(release.Slurm, func(b *testing.B) {
			c := slurmrig.StartTest(b, release, slurmrig.Config{SlurmConf: `SelectType=select/cons_tres
NodeName=n[0001-1000] NodeAddr=127.0.0.1 CPUs=16 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`})
			sh := func(script string) string {
				out := c.RunTest(b, "bash", "-c", script)
				return strings.TrimSpace(out)
			}
			for range 200 { // others wait, as on a cluster
				sh("sbatch -H -N 1000 -o /dev/null --wrap 'sleep 1'")
			}
			used := func() int {
				n, err := strconv.Atoi(sh(slurmctldCPU))
				if err != nil {
					b.Fatal(err)
				}
				return n
			}
			before := used()
			calls := 0
			for b.Loop() {
				sh("seq 1000 | xargs -P 4 -I{} scontrol show job 100 -o | grep -c ^JobId=100 | grep -qx 1000")
				calls += 1000
			}
			b.ReportMetric(float64(used()-before)*10*1000/float64(calls), "slurmctld-cpu-ms/1000")
		})
	}
}
