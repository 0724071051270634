package lint_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

// confNodeCase is a node as slurm.conf has it, and its lines in gres.conf.
type confNodeCase struct {
	words string
	gres  []string
}

// TestRealConfNodes lets Lint and slurmctld judge nodes whose Gres= and sockets in slurm.conf
// fit gres.conf or not. Nodes that Lint passes register and are idle. The others are drained,
// or their slurmd ends. ParseSlurmConf and slurmctld read the same processors.
func TestRealConfNodes(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			known, err := slurmconf.ParseRelease(release.Slurm)
			if err != nil {
				t.Fatal(err)
			}
			cases := append(confNodeCases(), generateConfNodes(oracle.Rand(t), oracle.Rounds(30, 60))...)
			conf, files, gres := confNodeFiles(cases)
			c := slurmrig.StartTest(t, release, slurmrig.Config{GPUs: 4, Files: files, SlurmConf: conf})
			parsed, err := slurmctld.ParseConf("slurm.conf", []byte(strings.TrimSpace(conf)), func(file string) (string, []byte, error) {
				data, err := os.ReadFile(filepath.Join(c.Dir, file))
				return file, data, err
			})
			if err != nil {
				t.Fatal(err)
			}
			fatal := lintFatal(t, gres, parsed.Options(known))
			compareRegistered(t, c, cases, fatal)
			compareShapes(t, c, parsed)
		})
	}
}

// confNodeFiles writes slurm.conf, with half of the nodes in files that it
// includes, and gres.conf.
func confNodeFiles(cases []confNodeCase) (conf string, files map[string]string, gres string) {
	var main, included, lines strings.Builder
	for i, c := range cases {
		to := &main
		if i%2 == 1 {
			to = &included
		}
		fmt.Fprintf(to, "NodeName=%s NodeAddr=127.0.0.1 Port=%d %s\n", nodeOf(i), 22000+i, c.words)
		for _, l := range c.gres {
			fmt.Fprintf(&lines, "NodeName=%s %s\n", nodeOf(i), l)
		}
	}
	conf = "ClusterName=rig\nGresTypes=gpu,nic\nSelectType=select/cons_tres\nNodeName=DEFAULT RealMemory=1000\n" + main.String() +
		"Include nodes.conf\nNodeName=late NodeAddr=127.0.0.1 Port=21999\nPartitionName=main Nodes=ALL Default=YES\n"
	return conf, map[string]string{
		"nodes.conf":    included.String() + "nodename=default Sockets=2 ThreadsPerCore=2\nNodeName=Default CPUs=32\nInclude more-%c.conf\n",
		"more-rig.conf": "NodeName=more NodeAddr=127.0.0.1 Port=21998 CoresPerSocket=8\n",
		"gres.conf":     lines.String(),
	}, lines.String()
}

func nodeOf(i int) string { return fmt.Sprintf("n%03d", i) }

// confNodeCases are the known kinds of nodes.
func confNodeCases() []confNodeCase {
	const two, one = "Sockets=2 CoresPerSocket=8 ", "Name=gpu Type=x File=/dev/nvidia[0-1]"
	var out []confNodeCase
	add := func(words string, gres ...string) { out = append(out, confNodeCase{words, gres}) }
	for _, gres := range []string{"gpu:2", "gpu:x:2", "gpu:X:2", "gpu:x:3", "gpu:x:1", "gpu:x:1,gpu:x:1", "gpu:xy:2", "gpu:x:1,gpu:y:1", "gpu", "gpu:x", "gpu:y", "gpu:x:0", "gpu:2k", "gpu:1(S:0)", "gpu:x:2(S:0-1)",
		"gpu:no_consume:2", "gpu:x:1,gpu:1", "gpu:1,gpu:x:1", "nic:2", "gpu:x:2,nic:9", "bogus:2"} {
		add(two+"Gres="+gres, one)
	}
	for _, words := range []string{"CPUs=0", "CPUs=0 CoresPerSocket=4", "CPUs=8 Sockets=0", "Sockets=2 CoresPerSocket=0", "CPUs=8 ThreadsPerCore=0", "CPUs=8 Boards=0", "SocketsPerBoard=0 CPUs=4"} {
		add(words) // Slurm starts with 0
	}
	add(two, one)
	add(two + "Gres=gpu:2")
	add(two+"Gres=gpu:x:2", "Name=gpu File=/dev/nvidia[0-1]")
	add(two+"Gres=gpu:x:4", "Name=gpu Type=x Count=4")
	add(two+"Gres=gpu:x:2", "AutoDetect=off")
	for _, gres := range []string{"gpu:x:1,gpu:y:1", "gpu:y:1,gpu:x:1", "gpu:x:1", "gpu:2", "gpu:1", "gpu:3"} {
		add(two+"Gres="+gres, "Name=gpu Type=x File=/dev/nvidia0", "Name=gpu Type=y File=/dev/nvidia1")
		add(two+"Gres="+gres, "Name=gpu Type=x File=/dev/nvidia0 Cores=0-7", "Name=gpu Type=y File=/dev/nvidia1 Cores=0-3")
		add(two+"Gres="+gres, "Name=gpu Type=x File=/dev/nvidia0 Cores=99", "Name=gpu Type=y File=/dev/nvidia1 Cores=8-15")
		add(two+"Gres="+gres, "Name=gpu Type=x File=/dev/nvidia0 Cores=0-7", "Name=gpu Type=x File=/dev/nvidia1 Cores=99")
	}
	for _, cores := range []string{"0-7", "8-15", "0-15", "0-3", "7-15", "0", "16", "0-16", "8-15,0-7", "0-7,0-7"} {
		add(two+"Gres=gpu:x:2", one+" Cores="+cores)
		add(two+"Gres=gpu:x:1", "Name=gpu Type=x File=/dev/nvidia0 CPUs="+cores, "Name=gpu Type=x File=/dev/nvidia1 Cores=0-7")
		add(two+"Gres=nic:1", one+" Cores="+cores)
		add("Sockets=4 CoresPerSocket=4 Gres=gpu:x:2", one+" Cores="+cores)
		add("CPUs=16 Gres=gpu:x:2", one+" Cores="+cores)
	}
	return out
}

// generateConfNodes makes nodes of all shapes, with cores that fit or nearly.
func generateConfNodes(rng *rand.Rand, n int) []confNodeCase {
	out := make([]confNodeCase, n)
	for i := range out {
		var words []string
		add := func(once int, key string, values ...int) {
			if rng.IntN(once) == 0 {
				words = append(words, fmt.Sprintf("%s=%d", key, values[rng.IntN(len(values))]))
			}
		}
		add(2, pick(rng, "CPUs", "Procs", "cpus"), 8, 16, 32, 20)
		add(2, "Sockets", 1, 2, 4)
		add(4, "Boards", 1, 2)
		if !strings.Contains(strings.Join(words, " "), "Sockets=") {
			add(3, "SocketsPerBoard", 1, 2)
		}
		add(2, "CoresPerSocket", 1, 4, 8)
		add(3, "ThreadsPerCore", 1, 2)
		from := rng.IntN(3) * 4
		out[i] = confNodeCase{strings.Join(words, " ") + " Gres=gpu:x:1", []string{fmt.Sprintf("Name=gpu Type=x File=/dev/nvidia0 Cores=%d-%d", from, from+rng.IntN(3)*4+rng.IntN(2)*3)}}
	}
	return out
}

// lintFatal returns the findings of the nodes that Lint calls fatal.
func lintFatal(t *testing.T, gres string, o lint.Options) map[string]string {
	t.Helper()
	fatal := map[string]string{}
	for _, f := range lint.Lint([]lint.File{{Name: "gres.conf", Data: []byte(gres)}}, o) {
		list, _, ok := strings.Cut(f.Message, ": ")
		if f.Severity != topology.Fatal {
			continue
		}
		nodes, err := hostlist.Expand(list)
		if !ok || err != nil {
			t.Fatalf("no nodes in %s: %v", f, err)
		}
		for _, n := range nodes {
			fatal[n] += f.String() + "\n"
		}
	}
	return fatal
}

// slurmdsAtOnce is how many slurmds run at a time.
const slurmdsAtOnce = 8

// compareRegistered starts the slurmd of every node, waits until slurmctld has judged the node,
// and ends the slurmd.
func compareRegistered(t *testing.T, c *slurmrig.Cluster, cases []confNodeCase, fatal map[string]string) {
	t.Helper()
	states := map[string]string{}
	for i := range cases {
		if err := c.Slurmd(t.Context(), nodeOf(i)); err != nil {
			t.Log(err) // it has ended, and its log says why
		}
		if i%slurmdsAtOnce == slurmdsAtOnce-1 || i == len(cases)-1 {
			untilJudged(t, c, states, i+1)
			c.Kill("slurmd")
		}
	}
	drained := 0
	for i, tc := range cases {
		state := states[nodeOf(i)]
		if !strings.HasPrefix(state, "idle ") {
			drained++
		}
		if got, want := fatal[nodeOf(i)] != "", !strings.HasPrefix(state, "idle "); got != want {
			t.Errorf("%s %s\n%s\nis %q by Slurm and by Lint: %q\n%s", nodeOf(i), tc.words, strings.Join(tc.gres, "\n"), state, fatal[nodeOf(i)], c.Log(nodeOf(i)))
		}
	}
	if drained < len(cases)/10 || drained > len(cases)*9/10 {
		t.Errorf("%d of %d nodes are drained: the cases are lopsided", drained, len(cases))
	}
}

// untilJudged waits until slurmctld has judged the first count nodes, and adds their states.
func untilJudged(t *testing.T, c *slurmrig.Cluster, states map[string]string, count int) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%d nodes are judged", count), func() bool {
		out := c.RunTest(t, "sinfo", "-h", "-N", "-o", "%N %T %E")
		for line := range strings.Lines(out) {
			name, state, _ := strings.Cut(strings.TrimSpace(line), " ")
			// A slurmd that was refused registers again, and may then be drained without being invalid.
			judged := strings.HasPrefix(state, "idle ") || strings.HasPrefix(state, "inval") || strings.HasPrefix(state, "drain") || strings.Contains(c.Log(name), "fatal:")
			if judged && states[name] == "" {
				states[name] = state
			}
		}
		return len(states) == count
	}, func() (text string) {
		for i := range count {
			if name := nodeOf(i); states[name] == "" {
				node, _ := c.Run(t.Context(), "scontrol", "show", "node", name)
				text += name + " has not registered:\n" + node + c.Log(name)
			}
		}
		return text
	})
}

// compareShapes compares the processors of all nodes with slurmctld's.
func compareShapes(t *testing.T, c *slurmrig.Cluster, parsed *slurmctld.Conf) {
	t.Helper()
	out := c.RunTest(t, "scontrol", "show", "node", "-o")
	got, want := map[string]lint.Node{}, map[string]lint.Node{}
	for line := range strings.Lines(out) {
		word := func(key string) string {
			m := regexp.MustCompile(`\b` + key + `=(\S+)`).FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("no %s in %s", key, line)
			}
			return m[1]
		}
		number := func(key string) int { n, _ := strconv.Atoi(word(key)); return n }
		got[word("NodeName")] = lint.Node{Sockets: number("Sockets"), CoresPerSocket: number("CoresPerSocket"), ThreadsPerCore: number("ThreadsPerCore")}
	}
	for name, n := range parsed.Nodes {
		want[name] = lint.Node{Sockets: n.Sockets, CoresPerSocket: n.CoresPerSocket, ThreadsPerCore: n.ThreadsPerCore}
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("processors (-slurmctld +ParseSlurmConf):\n%s", diff)
	}
}
