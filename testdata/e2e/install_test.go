package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/testdata/rig/await"
	"github.com/quoin-hpc/quoin/testdata/rig/boxrig/slinky"
)

// configuration is what a site with Slinky writes into 20-config.yaml.
const configuration = `apiVersion: v1
kind: ConfigMap
metadata: {name: quoin-config, namespace: quoin-system}
data:
  quoin.yaml: |
    publications:
    - name: default
      namespace: slurm
      configMap: quoin-slurm
      slurmVersion: "26.05"
      format: yaml
      slurmNames: slinky
`

// seed is a file that slurmctld can start with before there is any node.
const seed = `apiVersion: v1
kind: ConfigMap
metadata: {name: quoin-slurm, namespace: slurm, labels: {quoin.dev/kind: publication}}
data:
  topology.yaml: |
    ---
    - topology: nvl
      cluster_default: true
      block:
        block_sizes: [2]
        blocks:
          - block: spare
  gres.conf: |
    Name=gpu Type=gb200 File=/dev/nvidia[0-7] Flags=nvidia_gpu_env
`

// install installs everything on an empty cluster: agents and publisher run, and
// slurmctld starts.
func install(w *world) {
	w.kubectl("apply", "--server-side", "-f", w.site("quoin:dev"))
	w.apply(seed)
	w.kubectl("-n", "quoin-node", "rollout", "status", "ds/quoin-agent", "--timeout=3m")
	w.kubectl("-n", "quoin-system", "rollout", "status", "deploy/quoin-publisher", "--timeout=3m")
	w.until("a report of each node", func(out string) bool { return out == "node1\nnode2\nnode3" }, "get", "nodereports", "-o=jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}")
	for _, m := range w.box.Machines {
		if info, err := os.Stat(m.Path("/opt/quoin/bin/quoin-hook")); err != nil || info.Mode()&0o111 == 0 {
			w.t.Errorf("the hook of %s: %v", m.Name, err)
		}
	}
	if err := slinky.InstallOperator(w.t.Context(), w.box); err != nil {
		w.t.Fatal(err)
	}
	if err := w.slurm.StartController(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	await.Until(w.t, "slurmctld answers", func() bool {
		out, err := w.slurm.Scontrol(w.t.Context(), "ping")
		return err == nil && strings.Contains(out, "UP")
	})
}

// site writes the files of the manifests as a site with Slinky has them, and returns their
// folder.
func (w *world) site(image string) string {
	w.t.Helper()
	dir := filepath.Join(w.dir, "site-"+strings.ReplaceAll(image, ":", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil || len(files) == 0 {
		w.t.Fatalf("no manifests: %v", err)
	}
	for _, file := range files {
		text, name := w.file(filepath.Base(file)), filepath.Base(file)
		switch name {
		case "12-rbac-publication.yaml":
			text = podRules(text)
		case "20-config.yaml":
			text = configuration
		case "21-config-agent.yaml":
			text = agentConfiguration
		default:
			text = strings.ReplaceAll(text, "quoin:dev", image)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return dir
}

// podRules takes the rules for worker pods out of their comment.
func podRules(role string) string {
	var out strings.Builder
	for line := range strings.Lines(role) {
		if rule, ok := strings.CutPrefix(line, "# "); ok && (strings.HasPrefix(rule, "- ") || strings.HasPrefix(rule, "  ")) {
			line = rule
		}
		out.WriteString(line)
	}
	return out.String()
}

// register starts worker pods: they register into the blocks that the annotation names,
// and Slurm has the topology that was published.
func register(w *world) {
	if err := w.slurm.StartNodes(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.until("two worker pods", func(out string) bool { return out == "true true" },
		"-n", "slurm", "get", "pods", "-l", "app.kubernetes.io/name=slurmd", "-o=jsonpath={.items[*].status.containerStatuses[?(@.name==\"slurmd\")].ready}")
	for pod, node := range w.workers() {
		block := w.until("annotation of "+node, func(out string) bool { return out != "" },
			"get", "node", node, `-o=jsonpath={.metadata.annotations.topology\.slinky\.slurm\.net/spec}`)
		await.Until(w.t, pod+" is in "+block, func() bool {
			out, err := w.slurm.Scontrol(w.t.Context(), "show", "node", pod)
			return err == nil && strings.Contains(out, "Topology="+block) && strings.Contains(out, "State=IDLE")
		}, func() string { out, _ := w.slurm.Scontrol(w.t.Context(), "show", "node", pod); return out })
	}
	w.topologyIsPlan()
}

// workers returns the node of each worker pod.
func (w *world) workers() map[string]string {
	w.t.Helper()
	out := w.kubectl("-n", "slurm", "get", "pods", "-l", "app.kubernetes.io/name=slurmd",
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
	check := exec.CommandContext(w.t.Context(), w.quoin, "check", "--topology", "-", "--plan", plan)
	loaded := w.scontrol("show", "topology")
	check.Stdin = strings.NewReader(loaded)
	if out, err := check.CombinedOutput(); err != nil {
		w.t.Errorf("quoin check: %v\n%s\nof\n%s", err, out, loaded)
	}
	for pod := range w.workers() {
		if !slices.ContainsFunc(strings.Split(loaded, "\n"), func(line string) bool { return strings.Contains(line, "Nodes=") && !strings.Contains(line, "Nodes= ") }) {
			w.t.Errorf("%s is in no block:\n%s", pod, loaded)
		}
	}
}
