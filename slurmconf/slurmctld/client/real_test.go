package client

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

const topologies = `- topology: nvl
  cluster_default: true
  block:
    block_sizes: [2]
    blocks:
      - {block: b1, nodes: "n[1-2]"}
      - {block: b2}
- topology: fabric
  cluster_default: false
  tree:
    switches:
      - {switch: s1, nodes: "n[1-2]"}
`

// TestRealREST asks a real slurmrestd about static and dynamic nodes. One names a block that
// Slurm does not have, and one loses its place at a reconfigure.
func TestRealREST(t *testing.T) {
	t.Parallel()
	c, rest, socket := startREST(t, slurmrig.Config{Slurmd: "n1",
		SlurmConf: "NodeName=n[1-2] NodeAddr=127.0.0.1 Port=[20101-20102]\nMaxNodeCount=10\nPartitionName=p Nodes=ALL\n",
		Files:     map[string]string{"topology.yaml": topologies}})
	for i, conf := range []string{"d1 nvl:b2,fabric:s1", "d2 nvl:b9"} {
		name, spec, _ := strings.Cut(conf, " ")
		if err := c.Slurmd(t.Context(), name, "-Z", "--conf", fmt.Sprintf("NodeAddr=127.0.0.1 Port=%d Topology=%s", 20103+i, spec)); err != nil {
			t.Fatal(err)
		}
	}
	program, err := c.Scontrol()
	if err != nil {
		t.Fatal(err)
	}
	scontrol := &Scontrol{Program: program}
	want := map[string]slurmctld.Node{"n1": {Registered: true}, "n2": {}, "d1": {Topology: "nvl:b2,fabric:s1", Registered: true},
		"d2": {Registered: true, Invalid: true, Reason: "Failed to set topology 'nvl:b9'"}}
	began := until(t, rest, want)
	if slurmctld.Refused(began.Nodes["d2"].Reason) != "nvl:b9" {
		t.Errorf("%q refuses nothing", began.Nodes["d2"].Reason)
	}
	for _, parser := range parsers[1:] { // 26.05 has all but v0.0.46
		old := NewREST(socket, rest.tokenFile)
		old.parser = parser
		if got := until(t, old, want); old.parser != parser || got.Read.Sub(began.Read).Abs() > 5*time.Second {
			t.Errorf("%s answers for %s: read at %v, want %v", old.parser, parser, got.Read, began.Read)
		}
	}
	for name, asker := range map[string]Asker{"slurmrestd": rest, "slurmrestd before 26.05": &REST{base: rest.base, tokenFile: rest.tokenFile, client: rest.client, parser: parsers[2]}, "scontrol": scontrol} {
		if said, err := asker.Ask(t.Context(), Question{Loaded: true}); err != nil || said.Release.String() != slurmrig.Slurm2605.Slurm {
			t.Errorf("%s says that Slurm is %s, %v", name, said.Release, err)
		}
	}
	shown := until(t, scontrol, want)
	if got := names(shown.Topologies); !cmp.Equal(got, []string{"nvl: b1=n[1-2] b2=d1", "fabric: s1=d1,n[1-2]"}) {
		t.Errorf("scontrol shows %q", got)
	}
	if age := time.Since(began.Read); age < 0 || age > 10*time.Minute {
		t.Errorf("slurmctld read its files %s ago", age)
	}

	c.RunTest(t, "scontrol", "update", "nodename=n1", "topology=nvl:b2")
	want["n1"] = slurmctld.Node{Topology: "nvl:b2", Registered: true}
	until(t, rest, want)

	if err := rest.Reconfigure(t.Context()); err == nil || !strings.Contains(err.Error(), "422 Unprocessable Entity: slurm_reconfigure() failed: Invalid user id; does ") {
		t.Errorf("nobody may reconfigure: %v", err)
	}
	root := NewREST(socket, token(t, c, "root"))
	if err := root.Reconfigure(t.Context()); err != nil {
		t.Fatal(err)
	}
	want["n1"] = slurmctld.Node{Registered: true}                                            // its place is the file's again
	want["d2"] = slurmctld.Node{Registered: true, Reason: "Failed to set topology 'nvl:b9'"} // still drained
	if now := until(t, root, want); !now.Read.After(began.Read) {
		t.Errorf("read at %v after a reconfigure, %v before", now.Read, began.Read)
	}
	if _, err := NewREST(socket, filepath.Join(c.Dir, "topology.yaml")).Ask(t.Context(), Question{Nodes: true}); err == nil || !strings.Contains(err.Error(), "want one line with a token") {
		t.Errorf("a token that is none: %v", err)
	}
}

// startREST starts a Slurm with slurmrestd. It returns what asks slurmrestd, and its address.
func startREST(tb testing.TB, conf slurmrig.Config) (*slurmrig.Cluster, *REST, string) {
	tb.Helper()
	c, url, token := slurmrig.StartRESTTest(tb, "nobody", conf)
	return c, NewREST(url, token), url
}

// until asks until Slurm says that of its nodes.
func until(t *testing.T, slurm Asker, want map[string]slurmctld.Node) *slurmctld.State {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got, err := slurm.Ask(t.Context(), Question{Loaded: true, Topologies: []string{"nvl", "fabric"}, Nodes: true})
		// slurmctld counts from 0 until it has begun to count
		if err == nil && maps.Equal(want, withoutStates(t, got.Nodes)) && got.Read.IsZero() == (got.Topologies != nil) {
			return got
		}
		if time.Now().After(end) {
			if err != nil {
				t.Fatal(err)
			}
			t.Fatalf("nodes (-want +got):\n%s", cmp.Diff(want, got.Nodes))
		}
	}
}

// withoutStates returns the nodes without the words for their states, which each has, and
// without what this machine decides.
func withoutStates(t *testing.T, nodes map[string]slurmctld.Node) map[string]slurmctld.Node {
	t.Helper()
	out := maps.Clone(nodes)
	for name, n := range out {
		if n.State == "" {
			t.Errorf("%s has no state", name)
		}
		out[name] = slurmctld.Node{Topology: n.Topology, Registered: n.Registered, Invalid: n.Invalid, Off: n.Off, Gres: n.Gres, Reason: n.Reason}
	}
	return out
}

// token writes a token of the user.
func token(tb testing.TB, c *slurmrig.Cluster, user string) string {
	tb.Helper()
	name, err := c.Token(tb.Context(), user)
	if err != nil {
		tb.Fatal(err)
	}
	return name
}

// names are the units of the topologies with their nodes.
func names(all []topology.Topology) (out []string) {
	for i := range all {
		units := []string{all[i].Name + ":"}
		for _, b := range all[i].Blocks {
			units = append(units, b.Name+"="+hostlist.Compress(b.Nodes))
		}
		for _, s := range all[i].Switches {
			units = append(units, s.Name+"="+hostlist.Compress(s.Nodes))
		}
		out = append(out, strings.Join(units, " "))
	}
	return slices.Clip(out)
}
