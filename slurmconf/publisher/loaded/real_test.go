package loaded

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

// realSite is a real slurmctld with dynamic nodes, beside the plan of a publication whose file
// is in the folder of slurmctld.
type realSite struct {
	t     *testing.T
	slurm *slurmrig.Cluster
	doc   *plandoc.Document
	nodes map[string]string // the published Topology= strings
	watch *Watch
	// now is how far the clock of the publisher is ahead.
	ahead time.Duration
}

// follow has a Watch of the Slurm.
func (r *realSite) follow(slurm client.Asker, e *events, reconfigure bool) {
	r.t.Helper()
	r.watch, _ = newWatch(r.t, slurm, e, reconfigure)
	var asking sync.WaitGroup
	asking.Go(func() { r.watch.Slurm.Run(r.t.Context(), make(chan struct{}, 1)) })
	r.t.Cleanup(asking.Wait)
}

// publish writes a file with the blocks, as a new revision.
func (r *realSite) publish(names ...string) {
	r.t.Helper()
	plan := plandoc.Plan{Format: "yaml", ByAnnotation: true, Plan: topology.Plan{Topologies: blocks(names...)}}
	files, err := plan.Files()
	if err == nil {
		err = os.WriteFile(filepath.Join(r.slurm.Dir, "topology.yaml"), []byte(files["topology.yaml"]), 0o644)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.doc.Add(plandoc.Revision{Time: time.Now(), Digest: strings.Join(names, " "), Plan: plan})
}

// look makes the Watch ask now, and returns what it knows and says.
func (r *realSite) look() (*View, string) {
	r.t.Helper()
	in := &Input{Doc: r.doc, Planned: r.nodes, Published: r.nodes, Nodes: map[string]*inputs.Node{}, LoadTimeout: 2 * time.Minute, Now: time.Now().Add(r.ahead)}
	for name := range r.nodes {
		in.Nodes[name] = &inputs.Node{Name: name}
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) { // until Slurm has rested
		a := r.watch.Slurm.Newer(r.t.Context(), client.Question{Loaded: true, Topologies: topologies(in), Nodes: true}, began)
		if a.Err != nil {
			r.t.Log(a.Err)
		}
		if a.Err == nil && a.Asked.Nodes.After(began) && a.Asked.Loaded.After(began) || time.Since(began) > time.Minute {
			break
		}
	}
	known := r.watch.Reconcile(in)
	return known.View, known.Text
}

// until looks until what the Watch says matches. It says nothing of a node that only one
// question found pending, so that nothing is said counts only if nothing was found.
func (r *realSite) until(want string) *View {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		v, text := r.look()
		if regexp.MustCompile("^(?:"+want+")$").MatchString(text) && (text != "" || len(r.watch.seen) == 0) {
			return v
		}
		if time.Now().After(end) {
			r.t.Fatalf("said %q, want %q", text, want)
		}
	}
}

func (r *realSite) scontrol(args ...string) {
	r.t.Helper()
	r.slurm.RunTest(r.t, append([]string{"scontrol"}, args...)...)
}

// TestRealStages follows a new block and its nodes from the file to Slurm, asked by slurmrestd
// and by scontrol. Nobody makes Slurm load the file, as without inplaceReconfigure.
func TestRealStages(t *testing.T) {
	for _, by := range []string{"slurmrestd", "scontrol"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			conf := slurmrig.RESTConf + "MaxNodeCount=10\nPartitionName=p Nodes=ALL\n"
			c := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{SlurmConf: conf, Files: map[string]string{
				"topology.yaml": "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: b1}\n", slurmrig.RESTKey: strings.Repeat("k", 32)}})
			e := events{}
			r := &realSite{t: t, slurm: c, doc: plandoc.New("default", "slurm/quoin-slurm"), nodes: map[string]string{"d1": "nvl:b1"}}
			r.follow(slurmOf(t, c, by), &e, true)
			r.publish("b1")
			r.scontrol("reconfigure")
			r.slurmd("d1", 20111, "nvl:b1")
			r.until("")

			r.publish("b1", "b2")
			if by == "slurmrestd" { // the file is older than a second
				r.doc.Current.Time = time.Now().Add(rounding + time.Second)
			}
			r.nodes["d2"] = "nvl:b2"
			r.slurmd("d2", 20112, "nvl:b2") // before slurmctld knows the block
			r.until("loaded: d2: Slurm (has not loaded the published file yet: it has time .loadTimeout. until .*|refused nvl:b2 when a node registered with it: .*)")
			r.ahead = 3 * time.Minute
			if v := r.until("(?s).*The file was never loaded, which was published at .*"); v.Knows("nvl:b2") != No || v.Knows("nvl:b1") != Yes {
				t.Errorf("b1 %d, b2 %d", v.Knows("nvl:b1"), v.Knows("nvl:b2"))
			}
			// The Watch has told Slurm to reconfigure.
			r.doc.Current.Time = time.Now().Add(-time.Minute)
			// slurmd registers d2 anew, or its refused place stays refused.
			if v := r.until("(registered: d2: Slurm refused its place nvl:b2 when it registered: .*)?"); v.Loaded() != Yes {
				t.Errorf("loaded %d", v.Loaded())
			}
			r.scontrol("update", "nodename=d2", "topology=nvl:b2")
			r.until("")

			// d1 loses its place by hand, and is named.
			r.scontrol("update", "nodename=d1", "topology=")
			r.until("registered: d1: Slurm has it in no block and no switch, published is nvl:b1: scontrol update nodename=NAME topology=nvl:b1")
			if len(e) != 1 || r.watch.told.IsNew(r.watch.digest) {
				t.Errorf("events %q, told %+v", e, r.watch.told)
			}
		})
	}
}

// TestRealLosesPlaceAtReconfigure has a static node with a place of its own, which the next
// reconfigure takes. Then its gres.conf has fewer GPUs than slurm.conf, and slurmctld drains it.
func TestRealLosesPlaceAtReconfigure(t *testing.T) {
	t.Parallel()
	c := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{Slurmd: "n1",
		SlurmConf: slurmrig.RESTConf + "GresTypes=gpu\nNodeName=n1 NodeAddr=127.0.0.1 Port=20121 Gres=gpu:a100:2\nPartitionName=p Nodes=ALL\n", Files: map[string]string{slurmrig.RESTKey: strings.Repeat("k", 32),
			"gres.conf":     gresOne + "\n" + gresTwo + "\n",
			"topology.yaml": "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: b1}\n"}})
	r := &realSite{t: t, slurm: c, doc: plandoc.New("default", "slurm/quoin-slurm"), nodes: map[string]string{"n1": "nvl:b1"}}
	r.follow(slurmOf(t, c, "slurmrestd"), &events{}, false)
	// A slurmctld that is told to reconfigure before slurmd has registered may lose the registration.
	await.Until(t, "slurmd registers", func() bool {
		out, err := c.Run(t.Context(), "sinfo", "-h", "-n", "n1", "-o", "%T")
		return err == nil && strings.TrimSpace(out) == "idle"
	})
	r.publish("b1")
	r.scontrol("reconfigure")
	r.scontrol("update", "nodename=n1", "topology=nvl:b1")
	r.until("")
	r.scontrol("reconfigure")
	r.until("registered: n1: Slurm has it in no block and no switch, published is nvl:b1: .*")

	r.scontrol("update", "nodename=n1", "topology=nvl:b1")
	r.doc.Current.Plan.Devices = gresLines(gresOne, gresTwo)
	r.until("")
	r.doc.Current.Plan.Devices = gresLines(gresOne)
	if err := os.WriteFile(filepath.Join(c.Dir, "gres.conf"), []byte(gresOne+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.until("registered: n1: gres.conf has 1 gpus of type a100, and Gres= in slurm.conf has 2: slurm.conf must follow, or slurmctld drains the node")
	r.scontrol("reconfigure")
	await.Until(t, "slurmctld drains the node", func() bool {
		out, err := c.Run(t.Context(), "sinfo", "-h", "-n", "n1", "-o", "%T")
		return err == nil && (strings.Contains(out, "drain") || strings.Contains(out, "inval"))
	})
}

// The lines of a gres.conf with two devices that are on each machine.
const (
	gresOne = "NodeName=n1 Name=gpu Type=a100 File=/dev/null"
	gresTwo = "NodeName=n1 Name=gpu Type=a100 File=/dev/zero"
)

// slurmd starts a dynamic node with a place.
func (r *realSite) slurmd(name string, port int, spec string) {
	r.t.Helper()
	if err := r.slurm.Slurmd(r.t.Context(), name, "-Z", "--conf", fmt.Sprintf("NodeAddr=127.0.0.1 Port=%d Topology=%s", port, spec)); err != nil {
		r.t.Fatal(err)
	}
}

// slurmOf asks the cluster.
func slurmOf(t *testing.T, c *slurmrig.Cluster, by string) client.Asker {
	t.Helper()
	if by == "scontrol" {
		program, err := c.Scontrol()
		if err != nil {
			t.Fatal(err)
		}
		return &client.Scontrol{Program: program}
	}
	socket, err := c.StartREST(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Token(t.Context(), "root")
	if err != nil {
		t.Fatal(err)
	}
	return client.NewREST("unix:"+socket, token)
}
