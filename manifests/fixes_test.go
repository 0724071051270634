package manifests_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/pages"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

// fixSite is a Slinky site whose Controllers have a real Slurm each. The test does what
// slurm-operator and its webhook do.
type fixSite struct {
	*slinkySite
	slurms    map[string]*loadedSlurm // by Controller
	publisher *exec.Cmd
}

// loadedSlurm is the Slurm of a Controller.
type loadedSlurm struct {
	*slurmrig.Cluster
	// refs and files are what slurmctld has loaded.
	refs  []string
	files map[string]string
	// nodes are the Nodes by worker pod.
	nodes map[string]string
}

// siteConf is the file of the site's own that each slurmctld needs.
const siteConf = "CgroupPlugin=disabled\n"

// newFixSite starts Controllers as Slinky's chart makes them, each with two racks of two worker pods. Two
// further Nodes are for other schedulers.
func newFixSite(t *testing.T, controllers []string) *fixSite {
	t.Helper()
	s := &fixSite{slinkySite: newSlinkyCluster(t), slurms: map[string]*loadedSlurm{}}
	objects := s.cluster.Objects()
	s.must(s.cluster.AddNamespaces(t.Context(), "soperator", "tenant-slurm"))
	rack := 0
	for _, name := range controllers {
		s.must(objects.ApplyText(t.Context(), fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s-config-extra, namespace: slurm}
data: {cgroup.conf: %[2]q}
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {name: %[1]s, namespace: slurm}
spec: {configFileRefs: [{name: %[1]s-config-extra}]}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: %[1]s-gpu, namespace: slurm}
spec:
  controllerRef: {name: %[1]s}
  replicas: 4
  slurmd: {volumeMounts: [{name: bin, mountPath: /opt/quoin/bin}, {name: gke, mountPath: /home/kubernetes/bin/quoin}, {name: run, mountPath: /run/quoin}, {name: jobs, mountPath: /var/lib/dcgm-exporter/job-mapping}]}
  template: {spec: {volumes: [{name: bin, hostPath: {path: /opt/quoin/bin}}, {name: gke, hostPath: {path: /home/kubernetes/bin/quoin}}, {name: run, hostPath: {path: /run/quoin}}, {name: jobs, hostPath: {path: /var/lib/dcgm-exporter/job-mapping}}]}}
`, name, siteConf)))
		slurm := &loadedSlurm{refs: []string{name + "-config-extra"}, files: map[string]string{"cgroup.conf": siteConf}, nodes: map[string]string{}}
		slurm.Cluster = slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{SlurmConf: "MaxNodeCount=10\nPartitionName=main Nodes=ALL Default=YES State=UP\n"})
		for n := range 4 {
			pod := fmt.Sprintf("%s-gpu-%d", name, n)
			slurm.nodes[pod] = s.addNode("node-"+pod, rack+n/2, map[string]string{"example.com/pool": "slurm"})
			s.addWorker(name, name+"-gpu", pod, slurm.nodes[pod])
			s.must(slurm.Slurmd(t.Context(), pod, "-Z", "--conf", fmt.Sprintf("NodeAddr=127.0.0.1 CPUs=2 Port=%d", 20200+n)))
		}
		s.slurms[name] = slurm
		rack += 2
	}
	for n := range 2 {
		s.addNode(fmt.Sprintf("kubernetes-%d", n), rack, map[string]string{"example.com/pool": "kubernetes"})
	}
	return s
}

// refsOf are the names in a list of a Controller.
func (s *fixSite) refsOf(controller, key string) (names []string) {
	s.t.Helper()
	o, err := s.cluster.Objects().Get(s.t.Context(), "controllers.slinky.slurm.net", "slurm", controller)
	s.must(err)
	list, _, err := unstructured.NestedSlice(o.Object, "spec", key)
	s.must(err)
	for _, ref := range list {
		names = append(names, ref.(map[string]any)["name"].(string))
	}
	return names
}

// play gives each Slurm what its Controller names now, and each Slurm node the place that its Node has.
// Other refs start slurmctld again, and other files reconfigure it. No node may be drained by that.
func (s *fixSite) play() {
	s.t.Helper()
	for name, slurm := range s.slurms {
		refs, files := s.refsOf(name, "configFileRefs"), map[string]string{}
		for _, ref := range refs {
			cm, err := s.cluster.Client().CoreV1().ConfigMaps("slurm").Get(s.t.Context(), ref, metav1.GetOptions{})
			s.must(err) // the webhook refuses a ConfigMap that does not exist, and a file that is there twice
			for file, text := range cm.Data {
				if _, twice := files[file]; twice {
					s.t.Fatalf("Controller %s: %s is in two of %q", name, file, refs)
				}
				files[file] = text
			}
		}
		slurm.load(s.t, refs, files)
		for pod, node := range slurm.nodes {
			n, err := s.cluster.Client().CoreV1().Nodes().Get(s.t.Context(), node, metav1.GetOptions{})
			s.must(err)
			if place := n.Annotations[plandoc.SpecAnnotation]; place != "" && !strings.Contains(slurm.RunTest(s.t, "scontrol", "show", "node", pod), "Topology="+place+"\n") {
				_, _ = slurm.Run(s.t.Context(), "scontrol", "update", "nodename="+pod, "topology="+place) // until slurmctld knows the block
			}
		}
		if out := slurm.nodesNow(s.t); strings.Contains(out, "DRAIN") {
			s.t.Fatalf("nodes of %s with %q:\n%s", name, refs, out)
		}
	}
}

// nodesNow is what scontrol shows of the nodes when all have answered.
func (l *loadedSlurm) nodesNow(t *testing.T) (out string) {
	t.Helper()
	await.Until(t, "all nodes answer", func() bool {
		out = l.RunTest(t, "scontrol", "show", "nodes", "-o")
		return strings.Count(out, "NodeName=") == len(l.nodes) && !strings.Contains(out, "UNKNOWN") && !strings.Contains(out, "NOT_RESPONDING")
	}, func() string { return out })
	return out
}

// load gives slurmctld the files.
func (l *loadedSlurm) load(t *testing.T, refs []string, files map[string]string) {
	t.Helper()
	if maps.Equal(files, l.files) && slices.Equal(refs, l.refs) {
		return
	}
	for file := range l.files {
		if _, stays := files[file]; !stays {
			if err := os.Remove(filepath.Join(l.Dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for file, text := range files {
		put.File(t, filepath.Join(l.Dir, file), text, 0o644)
	}
	if !slices.Equal(refs, l.refs) {
		l.stop(t)
		l.RunTest(t, "bash", "-c", "slurmctld && for i in {1..1200}; do scontrol ping | grep -q UP && exit; sleep 0.05; done; exit 1")
		l.nodesNow(t)
	} else {
		l.RunTest(t, "scontrol", "reconfigure")
	}
	l.refs, l.files = refs, files
}

// stop ends slurmctld as Kubernetes ends its pod: it saves its state.
func (l *loadedSlurm) stop(t *testing.T) {
	t.Helper()
	l.RunTest(t, "bash", "-c", `pid=$(cat /rig/run/slurmctld.pid); kill $pid
while grep -q '^State:.[^Z]' /proc/$pid/status 2>/dev/null; do sleep 0.05; done`)
}

// startPublisher starts a publisher with the configuration of the cluster, in place of the one before. It
// waits until each publication has a plan, and each worker pod's Node its annotation.
func (s *fixSite) startPublisher() {
	s.t.Helper()
	if s.publisher != nil {
		s.must(s.publisher.Process.Signal(syscall.SIGTERM))
		_ = s.publisher.Wait() // it gives up the lead
	}
	path := s.config()
	s.publisher = s.publish(path)
	conf, err := config.Load(config.Default(), path, nil)
	s.must(err)
	var said string
	await.Until(s.t, "all publications are complete", func() bool {
		for _, p := range conf.Clusters() {
			cm, err := s.cluster.Client().CoreV1().ConfigMaps(p.Namespace).Get(s.t.Context(), p.ConfigMap, metav1.GetOptions{})
			said = fmt.Sprint(p.Place(), err, cm.Annotations)
			if err != nil || cm.Annotations[plandoc.AnnotationRevision] == "" {
				return false
			}
			if said = p.Name + " annotates"; p.Annotates && !s.annotated() {
				return false
			}
		}
		return true
	}, func() string { return said })
}

// annotated reports whether the Node of each worker pod has a place.
func (s *fixSite) annotated() bool {
	s.t.Helper()
	for _, slurm := range s.slurms {
		for _, node := range slurm.nodes {
			n, err := s.cluster.Client().CoreV1().Nodes().Get(s.t.Context(), node, metav1.GetOptions{})
			s.must(err)
			if n.Annotations[plandoc.SpecAnnotation] == "" {
				return false
			}
		}
	}
	return true
}

// slinky is what doctor finds of Slinky that is not in order.
func (s *fixSite) slinky() (wrong []show.Group) {
	s.t.Helper()
	_, found := diagnose(s.t, s.cluster)
	return slices.DeleteFunc(found, func(f show.Group) bool { return f.Thing != "slinky" || f.Severity == topology.OK })
}

// notYet checks that doctor prints no patch of a Controller before its files are there.
func (s *fixSite) notYet() {
	s.t.Helper()
	for _, f := range s.slinky() {
		if strings.Contains(f.Remedy, "configFileRefs") {
			s.t.Errorf("there are no files yet, and doctor says: %s: %s", f.Message, f.Remedy)
		}
	}
}

// fix runs the commands that doctor prints for Slinky, one after the other, until it prints none.
func (s *fixSite) fix() {
	s.t.Helper()
	s.play()
	for range 4 {
		ran := false
		for _, f := range s.slinky() {
			at := strings.Index(f.Remedy, "kubectl ")
			if at < 0 {
				continue
			}
			ran = true
			cmd := exec.CommandContext(s.t.Context(), "bash", "--norc", "-ec", f.Remedy[at:])
			cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig(), "PATH="+s.cluster.Programs()+":"+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil {
				s.t.Fatalf("%s: %v\n%s", f.Remedy, err, out)
			}
			s.play()
		}
		if !ran {
			return
		}
	}
	s.t.Error("doctor prints commands again and again")
}

// right holds that doctor says nothing against Slinky's objects, that each Controller names its
// ConfigMaps, and that Slurm has all nodes in their blocks.
func (s *fixSite) right(want map[string]string) {
	s.t.Helper()
	got := map[string]string{}
	for name, slurm := range s.slurms {
		got[name] = strings.Join(slices.Concat(s.refsOf(name, "configFileRefs"), s.refsOf(name, "prologScriptRefs"), s.refsOf(name, "epilogScriptRefs")), " ")
		blocks := slurm.RunTest(s.t, "scontrol", "show", "topology")
		for pod := range slurm.nodes {
			if out, err := slurm.Run(s.t.Context(), "scontrol", "show", "topology", "node="+pod); slurm.files["topology.yaml"] != "" && (err != nil || !strings.Contains(out, "BlockName=")) {
				s.t.Errorf("%s is in no block: %v\n%s\n%s", pod, err, out, blocks)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("ConfigMaps of the Controllers (-want +got):\n%s", diff)
	}
	for _, f := range s.slinky() {
		s.t.Errorf("after all fixes doctor says: %s: %s", f.Message, f.Remedy)
	}
}

// says holds that doctor says what a page shows.
func (s *fixSite) says(page string) {
	s.t.Helper()
	blocks, err := pages.Read(page)
	s.must(err)
	_, found := diagnose(s.t, s.cluster)
	var said []string
	for _, f := range found {
		said = append(said, fmt.Sprint(f.Severity, " ", f.Thing, " ", f.Message))
	}
	for _, b := range blocks {
		if b.Language != "text" {
			continue
		}
		for line := range strings.Lines(b.Text) {
			if line = strings.Join(strings.Fields(line), " "); !slices.Contains(said, line) {
				s.t.Errorf("%s shows %q, and doctor says %q", page, line, said)
			}
		}
	}
}

// shownValues writes each block of chart values that a page shows to a file, named by page and line. It
// returns the paths of these files and of the presets.
func shownValues(t *testing.T) map[string]string {
	t.Helper()
	shown := map[string]string{"schedulers/README.md": schedulersValues(t)}
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range docs {
		blocks, err := pages.Read(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if b.Language == "yaml" && strings.Contains("\n"+b.Text, "\nconfig:\n") {
				shown[fmt.Sprintf("%s:%d", page, b.Line)] = strings.ReplaceAll(b.Text, "REGISTRY/quoin", siteImage)
			}
		}
	}
	files := map[string]string{}
	for name, text := range shown {
		files[name] = filepath.Join(t.TempDir(), "values.yaml")
		put.File(t, files[name], text, 0o600)
	}
	for _, preset := range presets(t) {
		files[filepath.Base(preset)] = preset
	}
	if len(files) < 12 {
		t.Fatalf("files of values %v", slices.Sorted(maps.Keys(files)))
	}
	return files
}

// TestRealFixes takes each file of values that a page or a preset shows, on a cluster where Slinky runs. It
// runs the commands that doctor prints, and gives what they change to a real Slurm: in the end all is
// right, and no node was drained on the way.
func TestRealFixes(t *testing.T) {
	const scripts = " quoin-hook-prolog quoin-hook-epilog"
	shown := shownValues(t)
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		file := shown[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values, want := []string{"chart/presets/slinky.yaml", file}, map[string]string{"slurm": "slurm-config-extra quoin-slurm" + scripts}
			otherSlurm := name == "soperator.yaml" || name == "sunk.yaml"
			switch text, err := os.ReadFile(file); {
			case err != nil:
				t.Fatal(err)
			case strings.Contains(string(text), "slurm-b"):
				want = map[string]string{"slurm": "slurm-config-extra quoin-slurm" + scripts, "slurm-b": "slurm-b-config-extra quoin-slurm-b" + scripts}
			case otherSlurm: // Slinky's Controller is none of its business
				values, want = []string{file}, map[string]string{"slurm": "slurm-config-extra"}
			}
			s := newFixSite(t, slices.Sorted(maps.Keys(want)))
			s.install(values...)
			s.notYet()
			if !otherSlurm { // none of its pods is there, so nothing is published
				s.startPublisher()
			}
			s.fix()
			s.right(want)
			if page, _, _ := strings.Cut(name, ":"); strings.HasSuffix(page, "two-slurm-clusters.md") {
				s.says(page)
			}
		})
	}
	t.Run("two Controllers, and none is named", func(t *testing.T) {
		t.Parallel()
		s := newFixSite(t, []string{"slurm", "slurm-b"})
		s.install("chart/presets/slinky.yaml")
		s.fix()
		if wrong := s.slinky(); len(wrong) != 1 || wrong[0].Severity != topology.Unknown {
			t.Errorf("doctor says %+v, want that the Controller is not known", wrong)
		}
		if a, b := s.refsOf("slurm", "configFileRefs"), s.refsOf("slurm-b", "configFileRefs"); len(a) != 1 || len(b) != 1 {
			t.Errorf("configFileRefs %q and %q, want them as they were", a, b)
		}
	})
	t.Run("a renamed publication", func(t *testing.T) {
		t.Parallel()
		s := newFixSite(t, []string{"slurm"})
		s.install("chart/presets/slinky.yaml")
		s.startPublisher()
		s.fix()
		renamed := filepath.Join(t.TempDir(), "values.yaml")
		put.File(t, renamed, "config: {publications: {gb: {}}}\n", 0o600)
		s.install("chart/presets/slinky.yaml", renamed)
		s.notYet()
		s.startPublisher()
		s.fix()
		s.right(map[string]string{"slurm": "slurm-config-extra quoin-slurm-gb" + scripts})
		// What doctor waits for: slurmctld does not start without the blocks of its nodes.
		slurm := s.slurms["slurm"]
		slurm.stop(t)
		put.File(t, filepath.Join(slurm.Dir, "topology.yaml"), "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: seed}\n", 0o644)
		if out, err := slurm.Run(t.Context(), "timeout", "60", "slurmctld", "-D"); err == nil || !strings.Contains(slurm.Log("slurmctld"), "Invalid node topology") {
			t.Errorf("slurmctld starts with files without nodes: %v\n%s", err, out)
		}
	})
}
