package page_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// TestRealSlurm shows a job of a real Slurm, which has loaded the published files. No slurmd runs:
// the nodes never finish to power up, and the job holds them.
func TestRealSlurm(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	s, clusters := filled(t, racks(t, 2))
	publish(t, s, clusters)
	doc, err := s.Store.LoadPlan(t.Context(), clusters[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	files, err := doc.Current.Plan.Files()
	if err != nil {
		t.Fatal(err)
	}
	c, url, token := slurmrig.StartRESTTest(t, "nobody", slurmrig.Config{
		SlurmConf: "SelectType=select/cons_tres\nResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\nResumeTimeout=60000\n" +
			"NodeName=gb200-[00001-00036] NodeAddr=127.0.0.1 Port=[20401-20436] State=CLOUD\nPartitionName=p Nodes=ALL Default=YES\n",
		Files: map[string]string{"topology.yaml": files["topology.yaml"]}})
	c.RunTest(t, "sbatch", "-J", "train", "-N4", "--segment=2", "--exclusive", "--wrap", "true")
	log := slog.New(slog.DiscardHandler)
	asked := page.NewAsked(occupancy.New(map[string]*client.Client{clusters[0].Name: client.New(clusters[0].Name, client.NewREST(url, token), log)}))
	asked.Wait = true
	var said string
	await.Until(t, "the page has the job", func() bool {
		site := siteOf(t, s, clusters, asked)
		use := map[string]int{}
		for _, node := range site.Said {
			use[node.Use]++
		}
		said = fmt.Sprintf("%v, %s, jobs %+v, trouble %q", use, site.Said["gb200-00001"].Slurm, site.Jobs, site.Trouble)
		return len(site.Jobs) == 1 && site.Jobs[0].Name == "train" && site.Jobs[0].Segment == 2 && len(site.Jobs[0].Nodes) == 4 && site.Jobs[0].Blocks == 1 && site.Jobs[0].Note == "" &&
			use["busy"] == 4 && use["free"] == 32
	}, func() string { return said })
}
