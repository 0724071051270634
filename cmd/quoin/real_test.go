package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// site is a Kubernetes cluster of simulated nodes with their agents and two publishers, each
// with its own token. The publishers and three agents are processes, the other agents are in
// this one.
type site struct {
	*kuberig.Cluster
	t          *testing.T
	quoin      string
	file       string // the simulated machines, which may change
	agents     map[string]*exec.Cmd
	fleet      *fleet
	publishers map[string]*exec.Cmd // by name
	maps       map[string]string    // the addresses of their maps

	publisherToken string
}

// processes are the nodes whose agents are processes. The one that moves is among them.
var processes = []string{"gb200-001", "gb200-019", "gb200-040"}

// siteConfig has room in a rack for the tray that moves, because its places are all taken.
const siteConfig = `publicationDefaults:
  maxDomainGPUs: {GB200: 76}
  settleTime: 2s
  loadTimeout: 5s
`

// newSite is an API server with Quoin's manifests, and no Nodes. Publishers have this configuration.
func newSite(t *testing.T, config string) *site {
	t.Helper()
	c := kuberig.StartOwnTest(t)
	s := &site{Cluster: c, t: t, quoin: programs.QuoinTest(t), publishers: map[string]*exec.Cmd{}, maps: map[string]string{}}
	err := c.Objects().Apply(t.Context(), "../../manifests/plain/base")
	if err == nil {
		err = os.WriteFile(filepath.Join(c.Dir, "quoin.yaml"), []byte(config), 0o600)
	}
	if err == nil {
		s.publisherToken, err = c.Token(t.Context(), "quoin-system", "quoin-publisher", "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// addRacks adds 36 labelled Nodes in two racks, and returns their names.
func (s *site) addRacks() (names []string) {
	s.t.Helper()
	for n := range 36 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%02d", n), Labels: map[string]string{
			topology.CliqueLabel: fmt.Sprintf("8a61c302-0000-4000-8000-000000000001.%d", n/18), nodelabels.Count: "4", nodelabels.Product: "NVIDIA-GB200"}}}
		if _, err := s.Client().CoreV1().Nodes().Create(s.t.Context(), node, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
		names = append(names, node.Name)
	}
	return names
}

func startSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t, siteConfig)
	c := s.Cluster
	s.file, s.agents, s.fleet = filepath.Join(c.Dir, "site.yaml"), map[string]*exec.Cmd{}, newFleet(t)
	s.change("")
	cluster := sites.Open(t, "gb200-nvl72x4")
	for _, m := range cluster.Machines() {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: map[string]string{"nvidia.com/gpu.present": "true"}}}
		if _, err := c.Client().CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range cluster.Machines() {
		token, err := c.Token(t.Context(), "quoin-node", "quoin-agent", m.Name)
		if err != nil {
			t.Fatal(err)
		}
		settings := slices.DeleteFunc(nodedir.New(t, filepath.Join(c.Dir, m.Name)).Settings(), func(word string) bool { return word == "--set" })
		settings = append(settings, "agent.simulate="+s.file, "agent.kubeconfig="+token, "agent.listen=")
		if !slices.Contains(processes, m.Name) {
			s.fleet.start(m.Name, filepath.Join(c.Dir, "agent-"+m.Name+".log"), settings)
			continue
		}
		args := []string{"agent", "--node", m.Name, "--times", fleetTimes}
		for _, setting := range settings {
			args = append(args, "--set", setting)
		}
		s.agents[m.Name] = s.start("agent-"+m.Name, args...)
	}
	// The first publication would else wait until no further node has come for a minute.
	s.until("all agents have reported", func() bool {
		reports, err := s.Objects().List(t.Context(), "nodereports", "")
		return err == nil && len(reports.Items) == len(cluster.Machines())
	})
	for _, name := range []string{"publisher-0", "publisher-1"} {
		s.startPublisher(name)
	}
	return s
}

// startPublisher starts a publisher, with a new log.
func (s *site) startPublisher(name string) {
	s.t.Helper()
	s.maps[name] = loopback.Address(9838)
	s.publishers[name] = s.start(name, "publisher", "--config", filepath.Join(s.Dir, "quoin.yaml"), "--kubeconfig", s.publisherToken, "--listen", "", "--times", "confirm: 500ms, spacing: 1ms", "--set", "publisher.mapListen="+s.maps[name])
}

// change writes the simulated machines with these faults.
func (s *site) change(faults string) {
	s.t.Helper()
	data, err := os.ReadFile("../../topology/simulated/clusters/gb200-nvl72x4.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	if faults != "" {
		faults = "faults:\n" + faults
	}
	put.File(s.t, s.file, string(data)+faults, 0o600)
}

// start runs quoin; it dies with the test.
func (s *site) start(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.Dir, name+".log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(s.quoin, args...)
	cmd.Env = append(os.Environ(), "GOGC=100") // ownMemory measures what a pod needs
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// until waits for what must come.
func (s *site) until(what string, is func() bool) {
	s.t.Helper()
	await.Until(s.t, what, is, func() string {
		var logs bytes.Buffer
		for _, name := range []string{"publisher-0", "publisher-1", "agent-gb200-001", "agent-gb200-019", "agent-gb200-060"} {
			text, _ := os.ReadFile(filepath.Join(s.Dir, name+".log"))
			fmt.Fprintf(&logs, "--- %s\n%s\n", name, text[max(0, len(text)-1500):])
		}
		return logs.String()
	})
}

// published returns the publication's topology file, empty when there is none, or a seed.
func (s *site) published() string {
	cm, err := s.Client().CoreV1().ConfigMaps("slurm").Get(s.t.Context(), "quoin-slurm", metav1.GetOptions{})
	if err != nil || cm.Annotations[plandoc.AnnotationSeed] != "" {
		return ""
	}
	return cm.Data["topology.yaml"]
}

// annotated counts the Nodes that have a place.
func (s *site) annotated() int {
	nodes, err := s.Client().CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		return 0
	}
	n := 0
	for i := range nodes.Items {
		if strings.HasPrefix(nodes.Items[i].Annotations[plandoc.SpecAnnotation], "nvl:nvl-") {
			n++
		}
	}
	return n
}

// conditioned counts the Nodes that have all conditions of the publisher.
func (s *site) conditioned() int {
	nodes, err := s.Client().CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		return 0
	}
	n := 0
	for i := range nodes.Items {
		if slices.ContainsFunc(nodes.Items[i].Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == "QuoinTopologyDrift" && c.Status == corev1.ConditionFalse
		}) {
			n++
		}
	}
	return n
}

// leader returns the publisher that leads, empty when none does.
func (s *site) leader() string {
	lease, err := s.Client().CoordinationV1().Leases("quoin-system").Get(s.t.Context(), "quoin-publisher", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	for name := range s.publishers {
		log, _ := os.ReadFile(filepath.Join(s.Dir, name+".log"))
		if id := *lease.Spec.HolderIdentity; id != "" && bytes.Contains(log, []byte("identity="+id)) {
			return name
		}
	}
	return ""
}

// restTime is longer than what repeats while nothing happens: readings of machines and renewals
// of the Lease each 2 seconds, looks at jobs each 10, questions again after 30. What comes each
// ten minutes (an agent's look at its stored report) only reads.
const restTime = 45 * time.Second

// TestRealSite is the whole of it on a real API server: 72 agents, two
// publishers, a leader that is killed, an API server that goes away.
func TestRealSite(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.until("the ConfigMap appears", func() bool { return s.published() != "" })
	first := s.published()
	if strings.Count(first, "- block: nvl-") != 4 || !strings.Contains(first, "gb200-[001-018]") || !strings.Contains(first, "block_sizes: [18]") {
		t.Fatalf("published:\n%s", first)
	}
	s.until("all nodes are annotated", func() bool { return s.annotated() == 72 })
	s.fileBeforeAnnotations()

	s.until("all nodes have conditions", func() bool { return s.conditioned() == 72 })
	s.follows()
	s.drawn()

	t.Log("a cluster at rest, and somebody looks at the map")
	_, offset, err := s.Writes(0)
	if err != nil {
		t.Fatal(err)
	}
	s.ownMemory(restTime) // meanwhile nothing is to happen
	writes, _, err := s.Writes(offset)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range writes {
		if w.Resource != "leases" {
			t.Errorf("a write at rest: %+v", w)
		}
	}

	t.Log("the leader is killed")
	was := ""
	s.until("a publisher leads", func() bool { was = s.leader(); return was != "" })
	s.end(was, syscall.SIGKILL)
	s.until("the other leads", func() bool { l := s.leader(); return l != "" && l != was })
	if diff := cmp.Diff(first, s.published()); diff != "" {
		t.Errorf("the file changed with the leader:\n%s", diff)
	}
	s.change("- {node: gb200-019, moveTo: gb200-056, reboot: true}\n")
	s.until("the new leader publishes", func() bool { return strings.Contains(s.published(), "gb200-[019,055-072]") })

	t.Log("the API server goes away")
	s.StopServer()
	s.change("- {node: gb200-019, clear: true}\n")
	s.until("an agent says so", func() bool {
		log, _ := os.ReadFile(filepath.Join(s.Dir, "agent-gb200-019.log"))
		return bytes.Contains(log, []byte("report not stored"))
	})
	if err := s.StartServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.until("what changed meanwhile is published", func() bool { return s.published() == first })
	for name, a := range s.agents {
		if err := a.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("agent %s has not survived: %v", name, err)
		}
	}
	s.fleet.lives()
}

// end ends a publisher. One that is asked by SIGTERM gives its Lease back.
func (s *site) end(name string, signal syscall.Signal) {
	s.t.Helper()
	publisher := s.publishers[name]
	if publisher == nil {
		s.t.Fatalf("end publisher %q: there is none", name)
	}
	if err := publisher.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
	_ = publisher.Wait()
}

// fileBeforeAnnotations reads the API server's log: no Node was written before
// the publication, which follows the plan, and each was written once.
func (s *site) fileBeforeAnnotations() {
	s.t.Helper()
	writes, _, err := s.Writes(0)
	if err != nil {
		s.t.Fatal(err)
	}
	planned, published, nodes := false, false, map[string]int{}
	for _, w := range writes {
		switch w.Resource {
		case "configmaps": // one before the plan is a seed
			planned = planned || w.Name == "quoin-plan-default"
			published = published || planned && w.Name == "quoin-slurm"
		case "nodes":
			nodes[w.Name]++
			if !published {
				s.t.Errorf("node %s was written before the file", w.Name)
			}
		}
	}
	for name, n := range nodes {
		if n != 1 {
			s.t.Errorf("node %s was written %d times, want once", name, n)
		}
	}
	if len(nodes) != 72 {
		s.t.Errorf("%d nodes were written, want 72", len(nodes))
	}
}

// ownMemory holds the agents to 20 MB of memory of their own (heap and stacks), on
// average over a time. The pages of the program's file are shared by all and
// the kernel drops them when it needs room.
func (s *site) ownMemory(during time.Duration) {
	s.t.Helper()
	const looks = 60
	sum, most := map[string]int{}, 0
	for range looks {
		for name, a := range s.agents {
			own := process.KiB(s.t, a.Process.Pid, "RssAnon")
			sum[name] += own
			most = max(most, own)
		}
		time.Sleep(during / looks)
	}
	largest := 0
	for name, kib := range sum {
		largest = max(largest, kib/looks)
		if kib/looks > 20_000_000/1024 {
			s.t.Errorf("agent %s has %d KiB of its own, want less than 20 MB", name, kib/looks)
		}
	}
	s.t.Logf("largest agent: %.1f MB of its own, for a moment %.1f MB", float64(largest)*1024/1e6, float64(most)*1024/1e6)
}
