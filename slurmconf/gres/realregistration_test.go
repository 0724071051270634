package gres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

// registrationKind is a kind of machine with two GPUs and two cores.
type registrationKind struct {
	name    string
	sockets []topology.Socket
	near    string // the CPUs next to each GPU; empty: not known
	mig     bool
	same    bool // what allUndetected says
	unknown bool // the report does not say enough, whatever slurmd finds
}

var registrationKinds = []registrationKind{
	{"socket", []topology.Socket{{CPUs: "0", Cores: 1}, {CPUs: "1", Cores: 1}}, "0", false, true, false},
	{"numa", []topology.Socket{{CPUs: "0-1", Cores: 2}}, "0-1", false, true, false},
	{"part", []topology.Socket{{CPUs: "0-1", Cores: 2}}, "0", false, false, false},
	{"nocpus", []topology.Socket{{CPUs: "0-1", Cores: 2}}, "", false, false, true},
	{"mig", []topology.Socket{{CPUs: "0-1", Cores: 2}}, "0-1", true, false, false},
}

// report is what the agent says of the machine.
func (k *registrationKind) report() *topology.Node {
	n := &topology.Node{Name: k.name, Sockets: k.sockets}
	for i := range 2 {
		g := topology.GPU{Index: i, UUID: fmt.Sprint("GPU-", i), Minor: &i, Product: "NVIDIA H100", CPUAffinity: k.near}
		if k.mig {
			g.MIG = []topology.MIGInstance{{UUID: fmt.Sprint("MIG-", i), Profile: "1g.10gb", Capabilities: []string{fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", 2*i+1), fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", 2*i+2)}}}
		}
		n.GPUs = append(n.GPUs, g)
	}
	return n
}

// TestRealRegistration gives both texts to slurmds of each kind of machine: the lines that list its GPUs,
// and AutoDetect=nvidia. If and only if slurmctld has the same GPUs of both and drains neither node,
// one text may stand for the other.
func TestRealRegistration(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			compareRegistrations(t, release)
		})
	}
}

func compareRegistrations(t *testing.T, release slurmrig.Release) {
	var conf strings.Builder
	conf.WriteString("SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nGresTypes=gpu\n") // the rig has SlurmdParameters=config_overrides
	o := gres.Options{SeveralSockets: release == slurmrig.Slurm2411}
	var facts []topology.Facts
	for i := range registrationKinds {
		k := &registrationKinds[i]
		facts = append(facts, topology.Facts{Name: k.name, SlurmName: k.name + "-listed", Report: k.report()})
		typ := "h100"
		if k.mig {
			typ = "h100_1g.10gb"
		}
		for n, text := range []string{"listed", "found"} {
			fmt.Fprintf(&conf, "NodeName=%s-%s NodeAddr=127.0.0.1 Port=%d Sockets=%d CoresPerSocket=%d ThreadsPerCore=1 RealMemory=100 Gres=gpu:%s:2\n", k.name, text, 17100+2*i+n, len(k.sockets), k.sockets[0].Cores, typ)
		}
	}
	lines, problems := gres.FromFacts(facts, nil, o)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	byNode := gres.ByNode(lines, nil)
	lines = append([]gres.Line{{AutoDetect: gres.AutoDetectNvidia}}, gres.ByName(byNode)...)
	for i := range lines[1:] {
		lines[i+1].AutoDetect = gres.AutoDetectOff
	}
	text, err := gres.Render(lines, "")
	if err != nil {
		t.Fatal(err)
	}
	c := slurmrig.StartTest(t, release, slurmrig.Config{GPUs: 2, Model: "NVIDIA H100", Files: map[string]string{"gres.conf": string(text)},
		SlurmConf: conf.String() + "PartitionName=main Nodes=ALL Default=YES State=UP\n"})
	c.RunTest(t, "bash", "-c", "mkdir -p /dev/nvidia-caps; for i in 1 2 3 4; do mknod -m 666 /dev/nvidia-caps/nvidia-cap$i c 236 $i; done")
	nodes := map[string]*slurmrig.Node{}
	for i := range registrationKinds {
		k := &registrationKinds[i]
		for gpu := range 2 { // as the rig calls them
			dir := filepath.Join(c.Dir, k.name, fmt.Sprintf("0000:%02x:00.0", gpu*16+15))
			if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // no secret
				t.Fatal(err)
			}
			if k.near == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, "local_cpulist"), []byte(k.near+"\n"), 0o644); err != nil { //nolint:gosec // no secret
				t.Fatal(err)
			}
		}
		for _, way := range []string{"listed", "found"} {
			n := &slurmrig.Node{Cluster: c, Name: k.name + "-" + way, Mounts: []string{"/etc/slurm/" + k.name + ":/sys/bus/pci/drivers/nvidia"}}
			nodes[n.Name] = n
			if err := n.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := ""
	await.Until(t, "every node has registered", func() bool {
		out, _ = c.Run(t.Context(), "sinfo", "-h", "-N", "-o", "%N %T %G")
		waits := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool {
			return !strings.Contains(line, "*") && !strings.Contains(line, "unknown") || release == slurmrig.Slurm2411 && strings.HasPrefix(line, "nocpus-found ") // its slurmd dies
		})
		return strings.Count(out, "\n") == len(nodes) && len(waits) == 0
	}, func() string { return out })
	t.Logf("%s\n%s", text, out)
	_, undetected := o.Detection(facts)
	for i := range registrationKinds {
		k := &registrationKinds[i]
		state := func(way string) string {
			_, state, _ := strings.Cut(out[strings.Index(out, k.name+"-"+way+" "):], " ")
			state, _, _ = strings.Cut(state, "\n")
			state, _, _ = strings.Cut(state, "(S:") // lines without Cores name no socket
			return state
		}
		if !strings.HasPrefix(state("listed"), "idle ") {
			t.Errorf("%s: its listed devices drain it: %s", k.name, state("listed"))
		}
		why := undetected[k.name+"-listed"]
		if same := why == ""; same != k.same {
			t.Errorf("%s: same %t (%s), want %t", k.name, same, why, k.same)
		}
		if k.unknown {
			continue
		}
		listed, found := registeredFiles(t, nodes[k.name+"-listed"]), registeredFiles(t, nodes[k.name+"-found"])
		if real := state("listed") == state("found") && slices.Equal(listed, found); real != k.same {
			t.Errorf("%s: Slurm has the same %t: %s and %s (-listed +found):\n%s", k.name, real, state("listed"), state("found"), cmp.Diff(listed, found))
		}
	}
}

var registeredFile = regexp.MustCompile(`Gres Name=gpu .*?File=(\S+)`)

// registeredFiles are the device files in slurmd's list.
func registeredFiles(t *testing.T, n *slurmrig.Node) (files []string) {
	t.Helper()
	out, err := n.Run(t.Context(), "slurmd", "-N", n.Name, "-G")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, m := range registeredFile.FindAllStringSubmatch(out, -1) {
		all, err := hostlist.Expand(m[1])
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, all...)
	}
	return files
}
