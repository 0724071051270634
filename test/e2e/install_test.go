package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/boxrig/nvidiadra"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/slinky"
)

// install follows the page for Slinky on a cluster that Slurm runs on already, until slurmctld loads
// the published files and calls the hook.
func install(w *world) {
	w.prepare()
	w.startSlinky("")
	w.openPage("")
	*w.began = time.Now()
	w.follow("Install Quoin")
	w.installed()
	w.follow("Tell Slinky")
}

// installFirst installs Quoin by the README on a cluster without Slurm. Slurm comes afterwards: slurmctld starts
// with files for no node. Slurm calls its nodes as their Nodes.
func installFirst(w *world) {
	w.prepare()
	w.readme()
	w.installed()
	w.until("files that slurmctld can start with", func(out string) bool {
		return strings.Contains(out, "block: seed") && strings.Contains(out, "File=/dev/nvidia")
	}, "-n", "slurm", "get", "configmap", "quoin-slurm", "-o=yaml")
	w.startSlinky(daemonSet)
	w.openPage(daemonSet)
	w.follow("Tell Slinky")
}

// prepare gives the cluster what GPU Operator does.
func (w *world) prepare() {
	w.t.Helper()
	w.kubectl("label", "node", "--all", "nvidia.com/gpu.present=true", exporterLabel+"=true")
	if err := w.box.Apply(w.t.Context(), "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\n"); err != nil {
		w.t.Fatal(err)
	}
}

// installed waits until agents and publishers run, and each node has reported and has the hook.
func (w *world) installed() {
	w.t.Helper()
	w.rolledOut()
	w.until("a report of each node", func(out string) bool { return strings.Count(out, "node") == nodes }, "get", "nodereports", "-o=jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}")
	for _, m := range w.box.Machines {
		if info, err := os.Stat(m.Path("/opt/quoin/bin/quoin-hook")); err != nil || info.Mode()&0o111 == 0 {
			w.t.Errorf("the hook of %s: %v", m.Name, err)
		}
	}
}

// rolledOut waits until agents and publishers run as they were last configured. Helm's --wait=legacy lets an
// agent be missing.
func (w *world) rolledOut() {
	w.t.Helper()
	w.kubectl("-n", "quoin-node", "rollout", "status", "ds/quoin-agent", "--timeout=3m")
	w.kubectl("-n", "quoin-system", "rollout", "status", "deploy/quoin-publisher", "--timeout=3m")
}

// daemonSet are values of a NodeSet with a worker pod on each node but the last.
const daemonSet = `
nodesets:
  gpu:
    scalingMode: DaemonSet
    podSpec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: [node6]}]}]
`

// startSlinky starts Slinky's operator and Slurm, and waits until Slurm has its nodes.
func (w *world) startSlinky(values string) {
	w.t.Helper()
	begin := time.Now()
	if err := slinky.InstallOperator(w.t.Context(), w.box); err != nil {
		w.t.Fatal(err)
	}
	if err := w.slurm.Install(w.t.Context(), values); err != nil {
		w.t.Fatal(err)
	}
	w.untilSlurm("its nodes", func(out string) bool { return strings.Count(out, "State=IDLE+DYNAMIC_NORM ") == nodeWorkers }, "show", "nodes", "-o")
	w.t.Logf("%s until Slurm has its nodes, without Quoin", time.Since(begin).Round(time.Second))
}

// readme runs the commands of the README's section Install as they are written there. make image
// has run already, and quoin doctor runs when Slurm has its nodes. Only what a reader must fill
// in is filled in: the image's name, and that the driver of this site is simulated.
func (w *world) readme() {
	w.t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		w.t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Install\n")
	section, _, _ = strings.Cut(section, "\n## ")
	dir := w.checkout("readme")
	var names []string
	for command := range strings.SplitSeq(strings.ReplaceAll(section, "\\\n", ""), "\n") {
		command, isCommand := strings.CutPrefix(command, "    ")
		command, _, _ = strings.Cut(command, "  # ")
		first, rest, _ := strings.Cut(strings.TrimSpace(command), " ")
		if !isCommand || first == "make" || first == "bin/quoin" {
			continue
		}
		names = append(names, first)
		switch rest = strings.ReplaceAll(rest, "REGISTRY/quoin", "quoin"); {
		case first == "helm" && strings.HasPrefix(rest, "install "):
			rest += " " + strings.Join(w.site(), " ") + " --timeout 3m --wait=legacy"
		case first == "kubectl": // the publisher has led by then
			w.until("what the page shows", func(out string) bool { return strings.Contains(out, "quoin-slurm") }, strings.Fields(rest)...)
			continue
		}
		cmd := w.box.Shell(w.t.Context(), "exec "+first+" "+rest)
		cmd.Dir = dir
		ran(w.t, cmd)
	}
	if diff := cmp.Diff([]string{"echo", "helm", "helm", "kubectl"}, names); diff != "" {
		w.t.Errorf("commands of the README (-want +got):\n%s", diff)
	}
}

// site is what this site sets beside the page: its nodes have the image, the driver of their GPUs is
// simulated, so that /proc is elsewhere. A slurmd with
// AutoDetect does not see GPUs that are simulated, and Slurm would drain its node: gres.conf lists them. Each node
// may have a worker pod, and so its taint: there is no other node for the publisher.
func (w *world) site() []string {
	return []string{"--set", "image.pullPolicy=Never", "--set", "publisher.tolerations[0].operator=Exists,publisher.tolerations[0].key=nodeset.slinky.slurm.net/worker", "--set", "config.agent.hostRoot=" + nvidiadra.HostRoot,
		"--set", "config.publicationDefaults.gres.autoDetect=off"}
}

// helm runs Helm on the cluster, which must succeed.
func (w *world) helm(args ...string) {
	w.t.Helper()
	if _, err := w.box.Helm(w.t.Context(), append([]string{"--namespace", "quoin-system"}, args...)...); err != nil {
		w.t.Fatal(err)
	}
}

// chart are the arguments of a site with Slinky and GPU Operator for an image.
func (w *world) chart(tag string) []string {
	w.t.Helper()
	dir, err := filepath.Abs("../../manifests/chart")
	if err != nil {
		w.t.Fatal(err)
	}
	return append([]string{"quoin", dir, "--timeout", "3m", "--wait=legacy", "-f", filepath.Join(dir, "presets/slinky.yaml"), "-f", filepath.Join(dir, "presets/gpu-operator.yaml"), "--set", "image.tag=" + tag}, w.site()...)
}

// healthy holds that quoin doctor finds no problem.
func (w *world) healthy() {
	w.t.Helper()
	out, err := w.runQuoin("doctor", "--only", "cluster")
	if err != nil {
		w.t.Error(err)
	}
	w.t.Logf("quoin doctor:\n%s", out)
}

// look looks at Quoin as the page for Slinky does.
func look(w *world) {
	w.follow("Look")
	w.t.Logf("%s from the first command of the page to a true map", time.Since(*w.began).Round(time.Second))
	w.follow("Run a job")
	w.upgradesSlinky()
}

// upgradesSlinky holds what the page says of later upgrades of Slinky's chart: the Controller stays as it was patched,
// because Helm goes on as in the page's upgrade. With --server-side=true Helm stops.
func (w *world) upgradesSlinky() {
	w.t.Helper()
	patched := func() string {
		return w.kubectl("-n", "slurm", "get", "controllers.slinky.slurm.net", "slurm", "-o=jsonpath={.spec.configFileRefs} {.spec.prologScriptRefs} {.spec.epilogScriptRefs}")
	}
	before := patched()
	for _, c := range []struct{ flag, want string }{{"", "STATUS: deployed"}, {"--server-side=true", "conflict occurred"}, {"--server-side=false", "STATUS: deployed"}} {
		cmd := w.box.Shell(w.t.Context(), "helm upgrade slurm "+w.slurm.Chart()+" --namespace slurm "+c.flag+" -f values.yaml -f slinky.yaml -f box.yaml")
		cmd.Dir = w.page.dir
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), c.want) {
			w.t.Errorf("helm upgrade %s: %v, want %q\n%s", c.flag, err, c.want, out)
		}
		if diff := cmp.Diff(before, patched()); diff != "" {
			w.t.Errorf("the Controller after helm upgrade %s (-before +after):\n%s", c.flag, diff)
		}
	}
}

// register waits until worker pods have what the hook needs and are in the blocks that the annotations
// name, and until Slurm has the topology that was published. Slinky's operator has tainted their nodes.
func register(w *world) {
	w.until("worker pods that have the hook", func(out string) bool {
		return strings.Count(out, "\n") == nodeWorkers-1 && strings.Count(out, "quoin-bin true") == nodeWorkers
	}, "-n", "slurm", "get", "pods", "-l", workerPods,
		`-o=jsonpath={range .items[*]}{.spec.volumes[?(@.name=="quoin-bin")].name} {.status.containerStatuses[?(@.name=="slurmd")].ready}{"\n"}{end}`)
	for pod, node := range w.workers() {
		w.until("taint of "+node, func(out string) bool { return out == "nodeset.slinky.slurm.net/worker:NoExecute" },
			"get", "node", node, "-o=jsonpath={range .spec.taints[*]}{.key}:{.effect}{end}")
		block := w.until("annotation of "+node, func(out string) bool { return out != "" },
			"get", "node", node, `-o=jsonpath={.metadata.annotations.topology\.slinky\.slurm\.net/spec}`)
		w.untilSlurm(pod+" in "+block, func(out string) bool {
			return strings.Contains(out, "Topology="+block) && strings.Contains(out, "State=IDLE+DYNAMIC_NORM ")
		}, "show", "node", pod)
	}
	w.topologyIsPlan()
	w.healthy()
}

// workerPods selects the worker pods.
const workerPods = "app.kubernetes.io/name=slurmd,app.kubernetes.io/instance=" + slinky.NodeSet

// workers returns the node of each worker pod.
func (w *world) workers() map[string]string {
	w.t.Helper()
	out := w.kubectl("-n", "slurm", "get", "pods", "-l", workerPods,
		`-o=jsonpath={range .items[*]}{.metadata.labels.nodeset\.slinky\.slurm\.net/pod-hostname} {.spec.nodeName}{"\n"}{end}`)
	workers := map[string]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 2 {
			workers[f[0]] = f[1]
		}
	}
	return workers
}

// topologyIsPlan holds that slurmctld has loaded what was published, from the file that
// the kubelet mounts.
func (w *world) topologyIsPlan() {
	w.t.Helper()
	published := w.kubectl("-n", "slurm", "get", "configmap", "quoin-slurm", `-o=jsonpath={.data.topology\.yaml}`)
	mounted := w.kubectl("-n", "slurm", "exec", "slurm-controller-0", "-c", "slurmctld", "--", "cat", "/etc/slurm/topology.yaml")
	if diff := cmp.Diff(published, mounted); diff != "" {
		w.t.Errorf("slurmctld's topology.yaml (-published +mounted):\n%s", diff)
	}
	plan := filepath.Join(w.dir, "topology.yaml")
	if err := os.WriteFile(plan, []byte(published), 0o600); err != nil {
		w.t.Fatal(err)
	}
	check := exec.CommandContext(w.t.Context(), w.quoin, "check", "--topology", "-", plan)
	loaded := w.scontrol("show", "topology")
	check.Stdin = strings.NewReader(loaded)
	// Annotations place the nodes, so the file names none, and check says that it compared none.
	out, err := check.CombinedOutput()
	if check.ProcessState.ExitCode() != 3 || !strings.HasSuffix(string(out), "same: Slurm has the blocks and switches of the plan\nnot known: 1 of the above could not be judged: NotCompared\n") {
		w.t.Errorf("quoin check: %v\n%s\nof\n%s", err, out, loaded)
	}
}
