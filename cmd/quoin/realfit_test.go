package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

const reservedTopology = "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: b1, nodes: \"n[1-2]\"}\n      - {block: b2, nodes: \"n[3-4]\"}\n"

// TestRealReservation has a node that is reserved now, and two that are reserved later. quoin
// fit names the reservations. A job on all nodes waits in Slurm.
func TestRealReservation(t *testing.T) {
	t.Parallel()
	c, url, token := slurmrig.StartRESTTest(t, "nobody", slurmrig.Config{Slurmd: "n[1-4]", Files: map[string]string{"topology.yaml": reservedTopology},
		SlurmConf: "NodeName=n[1-4] NodeAddr=127.0.0.1 Port=[20171-20174]\nPartitionName=p Nodes=ALL Default=YES DefaultTime=10 MaxTime=10\n"})
	topologies, err := slurmconf.ParseTopologies("topology.yaml", []byte(reservedTopology))
	if err != nil {
		t.Fatal(err)
	}
	p := newFitPlan(&publication.Cluster{Release: slurmconf.Release2605}, topologies, nil)
	rest := client.NewREST(url, token)
	var said string
	ask := func(nodes int, verdict fit.Verdict, want ...string) {
		t.Helper()
		await.Until(t, string(verdict), func() bool {
			state, err := rest.Ask(t.Context(), client.Question{Nodes: true, Reservations: true})
			if err != nil {
				said = err.Error()
				return false
			}
			p.live(state, "Slurm", time.Now())
			answer, err := p.ask(&fit.Job{Nodes: nodes}, "")
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			answer.Print(&out, time.Now())
			said = out.String()
			for _, w := range want {
				if !regexp.MustCompile(w).MatchString(said) {
					return false
				}
			}
			return answer.Verdict == verdict
		}, func() string { return said })
	}
	// start submits a job and waits until Slurm has decided: its state and why it waits.
	start := func(nodes string, want *regexp.Regexp) {
		t.Helper()
		id := c.RunTest(t, "sbatch", "--parsable", "-N"+nodes, "--exclusive", "--wrap", "sleep 100")
		id = strings.TrimSpace(id)
		var out string
		await.Until(t, "a job of "+nodes+" nodes: "+want.String(), func() bool {
			out, err = c.Run(t.Context(), "squeue", "-h", "-j", id, "-o", "%T %r")
			return err == nil && want.MatchString(out)
		}, func() string { return out })
		c.RunTest(t, "scancel", id)
	}
	ask(4, fit.Now)
	for _, words := range []string{"reservationname=demo starttime=now duration=60 nodes=n3 users=alice,bob", "reservationname=upgrade starttime=now+5hours duration=60 nodes=n[1-2] users=root"} {
		c.RunTest(t, append([]string{"scontrol", "create", "reservation"}, strings.Fields(words)...)...)
	}
	ask(4, fit.NotNow, `(?m)^b2 +1 +reserved, reservation demo +n3$`, `(?m)^3 of 4 nodes are free according to Slurm \(asked \d s ago\): 1 reserved, reservation demo$`,
		`(?m)^demo +\d+-\d+-\d+ \d+:\d+ +\S+ \d+:\d+ +1 +n3 +alice,bob$`, `(?m)^upgrade +.* +2 +n\[1-2\] +root$`)
	start("4", regexp.MustCompile(`^PENDING .*[Rr]eserved`))
	ask(3, fit.Now)
	start("3", regexp.MustCompile("^RUNNING"))
}
