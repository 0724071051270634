package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/cmd/version"
)

// asked gives the publisher a token for slurmrestd. Then the page has the running jobs, and
// Prometheus how they lie in the blocks. A job whose segment is in two racks, because a person has
// told Slurm another place of a node, brings the alert QuoinSegmentSplit.
func asked(w *world) {
	token := strings.TrimPrefix(strings.TrimSpace(w.scontrol("token", "username=nobody", "lifespan=86400")), "SLURM_JWT=")
	w.kubectl("-n", "quoin-system", "create", "secret", "generic", "quoin-slurm-token", "--from-literal=token="+token)
	w.helm(append(append([]string{"upgrade"}, w.chart(version.Number)...),
		"--set", "config.publicationDefaults.slurm.url=http://slurm-restapi.slurm:6820", "--set", "config.publicationDefaults.slurm.tokenFile=/etc/quoin-slurm/token")...)
	w.rolledOut()

	whole := w.submit("--segment=2")
	w.shown(whole, 1, "")
	server := w.prometheus()
	w.counted(server, `sum(quoin_job_blocks{job_id="`+whole+`"})`, 1)
	w.counted(server, `sum(quoin_job_split_segments{job_id="`+whole+`", segment="2"})`, 0)
	w.finish(whole)

	own, other := w.apart()
	w.operators(0) // it would give Slurm the right place again
	w.scontrol("update", "nodename="+other.pod, "topology="+own.place)
	divided := w.submit("--segment=2", "-w", own.pod+","+other.pod)
	w.shown(divided, 2, "segment 2 got 1+1")
	w.counted(server, `count(ALERTS{alertname="QuoinSegmentSplit", job_id="`+divided+`", segment="2", got="1+1"})`, 1)
	w.finish(divided)
	w.operators(1)
	w.untilSlurm(other.pod+" in its place again", func(out string) bool { return strings.Contains(out, "Topology="+other.place) }, "show", "node", other.pod)
	w.topologyIsPlan()
	w.nothingHeld()
}

// operators sets how many pods Slinky's operator has, and waits until it has so many.
func (w *world) operators(count int) {
	w.t.Helper()
	const namespace, name = "slinky", "slurm-operator"
	w.kubectl("-n", namespace, "scale", "deploy", name, fmt.Sprint("--replicas=", count))
	w.until(fmt.Sprintf("%d pods of the operator", count), func(out string) bool { return strings.Count(out, "Running") == count },
		"-n", namespace, "get", "pods", "-l", "app="+name, "-o=jsonpath={.items[*].status.phase}")
}

// shown waits until the page has a job, with its GPUs and what is said of its blocks.
func (w *world) shown(id string, blocks int, note string) {
	w.t.Helper()
	w.onPage(fmt.Sprintf("job %s in %d blocks: %s", id, blocks, note), func(d *drawn) bool {
		j, runs := d.Jobs[id]
		return runs && j.User == "alice" && len(j.Nodes) == jobNodes && j.Segment == 2 && j.Blocks == blocks && slices.Equal(j.GPUs, []string{"0-2"}) && strings.Contains(j.Note, note)
	})
}

// worker is a worker pod and the place that its node is annotated with.
type worker struct{ pod, place string }

// apart are workers of different racks. The first one's rack has a node without a worker.
func (w *world) apart() (own, other worker) {
	w.t.Helper()
	of := func(pods []string) worker {
		return worker{pods[0], w.kubectl("get", "node", w.workers()[pods[0]], `-o=jsonpath={.metadata.annotations.topology\.slinky\.slurm\.net/spec}`)}
	}
	racks := w.rackPods()
	if len(racks[0]) == rackNodes {
		return of(racks[1]), of(racks[0])
	}
	return of(racks[0]), of(racks[1])
}

// rackPods are the worker pods of each rack, in order.
func (w *world) rackPods() (racks [nodes / rackNodes][]string) {
	w.t.Helper()
	workers := w.workers()
	for _, pod := range slices.Sorted(maps.Keys(workers)) {
		rack := w.number(workers[pod]) / rackNodes
		racks[rack] = append(racks[rack], pod)
	}
	return racks
}
