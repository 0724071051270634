package e2e_test

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/slinky"
)

// change drains a node for a fault of its GPUs, so that its worker pod moves to another,
// and scales the NodeSet out and in. The files stay as they are: the annotation moves a
// worker pod.
func change(w *world) {
	published := w.revision()
	moved, from := "", ""
	for pod, node := range w.workers() {
		if node > from {
			moved, from = pod, node
		}
	}
	w.drainFaulty(moved, from)
	w.untilWorkers(map[string]bool{from: false}, nodeWorkers)
	w.topologyIsPlan()
	w.nothingHeld()

	w.kubectl("uncordon", from)
	w.scale(nodes)
	w.untilWorkers(map[string]bool{from: true}, nodes)
	w.topologyIsPlan()
	w.scale(1)
	w.untilWorkers(nil, 1)
	w.topologyIsPlan()
	w.scale(nodeWorkers)
	w.untilWorkers(nil, nodeWorkers)
	w.topologyIsPlan()
	w.nothingHeld()
	if now := w.revision(); now != published {
		w.t.Errorf("the published ConfigMap was %s and is %s", published, now)
	}
}

// drainFaulty breaks the NVLinks of a node and drains it. Slurm shows Quoin's condition as
// the reason, by the annotation that Slinky's operator reads.
func (w *world) drainFaulty(pod, node string) {
	w.t.Helper()
	number := w.number(node)
	writeHardware(w.t, w.box.Machines[number], number, fmt.Sprintf(fabric, number/rackNodes+1, "2 0x1155"))
	const condition = "QuoinFabricDegraded"
	reason := w.until("condition "+condition+" of "+node, func(out string) bool { return strings.HasPrefix(out, "True ") },
		"get", "node", node, `-o=jsonpath={range .status.conditions[?(@.type=="`+condition+`")]}{.status} {.reason}{end}`)
	reason = condition + ": " + strings.TrimPrefix(reason, "True ")
	w.kubectl("annotate", "node", node, "nodeset.slinky.slurm.net/node-cordon-reason="+reason)
	w.kubectl("cordon", node)
	w.untilSlurm(pod+" drained", func(out string) bool {
		return strings.Contains(out, "DRAIN") && strings.Contains(out, "Reason=slurm-operator: "+reason)
	}, "show", "node", pod)
	w.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=3m")
	writeHardware(w.t, w.box.Machines[number], number)
	w.kubectl("annotate", "node", node, "nodeset.slinky.slurm.net/node-cordon-reason-")
}

// scale sets how many worker pods the NodeSet has.
func (w *world) scale(replicas int) {
	w.t.Helper()
	w.kubectl("-n", "slurm", "scale", "nodesets.slinky.slurm.net", slinky.NodeSet, fmt.Sprintf("--replicas=%d", replicas))
	// The operator waits longer and longer after it could not reach slurmrestd.
	if err := w.slurm.Nudge(w.t.Context(), fmt.Sprint(replicas)); err != nil {
		w.t.Fatal(err)
	}
}

// untilWorkers waits until so many worker pods are in Slurm, each in the block that the
// annotation of its node names, and until they are on the nodes or not.
func (w *world) untilWorkers(on map[string]bool, count int) {
	w.t.Helper()
	var said string
	await.Until(w.t, fmt.Sprintf("%d worker pods in Slurm", count), func() bool {
		said = w.misplaced(on, count)
		return said == ""
	}, func() string { return said })
}

// misplaced says what is not yet as untilWorkers wants it.
func (w *world) misplaced(on map[string]bool, count int) string {
	workers := w.workers()
	if len(workers) != count {
		return fmt.Sprintf("worker pods are %v", workers)
	}
	blocks := map[string]string{}
	for node := range strings.SplitSeq(w.places(), "\n") {
		name, block, _ := strings.Cut(node, " ")
		blocks[name] = block
	}
	used := map[string]bool{}
	for pod, node := range workers {
		used[node] = true
		out, err := w.slurm.Scontrol(w.t.Context(), "show", "node", pod)
		if err != nil || blocks[node] == "" || !strings.Contains(out, "Topology="+blocks[node]) || !strings.Contains(out, "State=IDLE+DYNAMIC_NORM ") {
			return fmt.Sprintf("%s on %s, annotated %q: %v\n%s", pod, node, blocks[node], err, out)
		}
	}
	for node, want := range on {
		if used[node] != want {
			return fmt.Sprintf("worker pods are %v", workers)
		}
	}
	if out, err := w.slurm.Scontrol(w.t.Context(), "show", "nodes", "-o"); err != nil || strings.Count(out, "NodeName=") != count {
		return fmt.Sprintf("Slurm's nodes: %v\n%s", err, out)
	}
	return ""
}

// revision is the published ConfigMap, by what changes with each publication of new files.
func (w *world) revision() string {
	w.t.Helper()
	return w.kubectl("-n", "slurm", "get", "configmap", "quoin-slurm", `-o=jsonpath=revision {.metadata.annotations.quoin\.dev/revision}, {.metadata.annotations.quoin\.dev/digest}`)
}

// nothingHeld holds that no publication waits for a person.
func (w *world) nothingHeld() {
	w.t.Helper()
	if held := w.kubectl("-n", "slurm", "get", "configmap", "quoin-slurm", `-o=jsonpath={.metadata.annotations.quoin\.dev/held}`); held != "" {
		w.t.Errorf("the publication is held: %s", held)
	}
}

// upgrade rolls another image out while a job runs: nothing changes for the job.
func upgrade(w *world) {
	id := w.submit()
	begun, members := w.seen(id), w.members()
	for _, m := range w.box.Machines { // the same image by another name
		if _, err := w.box.Ctr(w.t.Context(), m, "images", "tag", images.Quoin+":"+version.Number, images.Quoin+":next"); err != nil {
			w.t.Fatal(err)
		}
	}
	w.helm(append([]string{"upgrade"}, w.chart("next")...)...)
	w.rolledOut()
	running := w.kubectl("get", "pods", "-A", "-l", "app.kubernetes.io/name=quoin,app.kubernetes.io/component!=imex", `-o=jsonpath={range .items[*]}{.spec.containers[0].image}{"\n"}{end}`)
	if diff := cmp.Diff(strings.Repeat("quoin:next\n", nodes+2), running+"\n"); diff != "" {
		w.t.Errorf("images (-want +got):\n%s", diff)
	}
	w.scraped(id)
	if diff := cmp.Diff(begun, w.seen(id)); diff != "" {
		w.t.Errorf("the job (-before the upgrade +after):\n%s", diff)
	}
	if diff := cmp.Diff(members, w.members()); diff != "" {
		w.t.Errorf("pods that hold channels, and IMEX daemons (-before the upgrade +after):\n%s", diff)
	}
	w.imexReady()
	w.topologyIsPlan()
	w.finish(id)
	w.summary(id)
	w.nothingHeld()
}

// seen is what a job and those who watch it see on its nodes.
func (w *world) seen(id string) map[string]string {
	w.t.Helper()
	out := map[string]string{"slurm": w.scontrol("show", "job", id, "-o")}
	out["slurm"], _, _ = strings.Cut(out["slurm"], " RunTime=")
	for _, m := range w.jobMachines(id) {
		w.untilMapping(m, id)
		text, err := m.Run(w.t.Context(), "cat", "/run/quoin/jobs/"+id+".json")
		if err != nil {
			w.t.Fatal(err)
		}
		out[m.Name] = text
	}
	return out
}

// uninstall removes Quoin as the page for Slinky says. Slurm goes on without it, also when slurmctld
// starts again, and at last without the files.
func uninstall(w *world) {
	members := w.members()
	w.follow("Leave again")
	if diff := cmp.Diff(members, w.members()); diff != "" {
		w.t.Errorf("pods that hold channels, and IMEX daemons (-before the uninstall +after):\n%s", diff)
	}
	w.kubectl("-n", "quoin-node", "delete", "ds", "quoin-imex", "--timeout=3m")
	w.until("no pod of Quoin is left", func(out string) bool { return out == "" || strings.HasPrefix(out, "No resources") },
		"get", "pods", "-A", "-l", "app.kubernetes.io/name=quoin", "--no-headers")
	// The driver ends a node's daemon when nobody holds its channel.
	w.until("no IMEX daemon is left", func(out string) bool { return strings.HasPrefix(out, "No resources") }, "-n", "nvidia-dra-driver", "get", "pods")
	if labelled := w.kubectl("get", "nodes", "-l", "resource.nvidia.com/computeDomain", "-o=name"); labelled != "" {
		w.t.Errorf("nodes with the label of the domain: %s", labelled)
	}
	if left := w.left(); len(left) != 1 || !strings.Contains(left[0], "/nodereports.quoin.dev") { // it stays with its reports
		w.t.Errorf("left over: %q", left)
	}
	for _, m := range w.machines(w.workers()) {
		w.untilMapping(m, "")
	}
	w.kubectl("-n", "slurm", "delete", "pod", "slurm-controller-0", "--timeout=3m")
	w.untilWorkers(nil, nodeWorkers)
	w.topologyIsPlan()
	id := w.submit()
	w.finish(id)

	w.follow("Take everything back")
	w.allRan()
	w.untilSlurm("its nodes, in no block", func(out string) bool {
		return strings.Count(out, "State=IDLE+DYNAMIC_NORM ") == nodeWorkers && !strings.Contains(out, "Topology=")
	}, "show", "nodes", "-o")
	w.untilSlurm("no topology", func(out string) bool { return strings.Contains(out, "topology/flat") }, "show", "config")
	if left := w.left(); left != nil {
		w.t.Errorf("left over: %q", left)
	}
	id = w.submit()
	w.finish(id)
}

// left are objects of Quoin that are in no namespace.
func (w *world) left() (left []string) {
	w.t.Helper()
	for line := range strings.Lines(w.kubectl("get", "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,customresourcedefinitions", "-o=name")) {
		if strings.Contains(line, "quoin") {
			left = append(left, strings.TrimSpace(line))
		}
	}
	return left
}
