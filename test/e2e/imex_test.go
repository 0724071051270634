package e2e_test

import (
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/nvidiadra"
)

// imex installs NVIDIA's DRA driver: the publisher makes the ComputeDomain, pods of Quoin
// hold a channel of each node, and a job finds the gate open.
func imex(w *world) {
	if err := nvidiadra.Install(w.t.Context(), w.box); err != nil {
		w.t.Fatal(err)
	}
	w.helm(append([]string{"upgrade"}, w.chart(version.Number)...)...) // now with the pods that hold channels
	w.rolledOut()
	w.imexReady()
	// That these nodes have no systemd, and so no known nvidia-imex.service, is a problem of its own.
	w.until("each agent reads in its pod that the node's daemon is ready", func(out string) bool { return out == strings.TrimSpace(strings.Repeat("READY\n", nodes)) },
		"get", "nodereports", `-o=jsonpath={range .items[*]}{.imex.daemonState}{"\n"}{end}`)
	w.until("each node's channel is held", func(out string) bool { return out == strconv.Itoa(nodes) }, "-n", "quoin-node", "get", "ds/quoin-imex", "-o=jsonpath={.status.numberReady}")
	domain := w.kubectl("-n", "quoin-node", "get", "computedomain", "quoin", "-o=jsonpath={.metadata.uid}")
	cliques := w.kubectl("get", "computedomaincliques", "-A", `-o=jsonpath={range .items[*]}{.metadata.name}{range .daemons[*]} {.nodeName}={.status}{end}{"\n"}{end}`)
	entries := strings.Fields(cliques)
	slices.Sort(entries)
	want := []string{domain + "." + clique(1), domain + "." + clique(2)}
	for _, m := range w.box.Machines {
		want = append(want, m.Name+"=Ready")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, entries); diff != "" {
		w.t.Errorf("the cliques (-want +got):\n%s", diff)
	}
	id := w.submit()
	w.counted(w.prometheus(), `sum(quoin_hook_gate_total{result="ready"})`, jobNodes)
	w.finish(id)
	w.healthy()
}

// imexReady waits until each node is a member of the IMEX domain.
func (w *world) imexReady() {
	w.t.Helper()
	w.until("all nodes are members", func(out string) bool { return out == strings.TrimSpace(strings.Repeat("False Ready\n", nodes)) },
		"get", "nodes", `-o=jsonpath={range .items[*]}{range .status.conditions[?(@.type=="QuoinImexNotReady")]}{.status} {.reason}{end}{"\n"}{end}`)
}

// members are the pods that jobs across nodes need: the holders of channels, and the driver's
// daemons.
func (w *world) members() string {
	w.t.Helper()
	const columns = `-o=jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[0].restartCount}{"\n"}{end}`
	return w.kubectl("-n", "quoin-node", "get", "pods", "-l", "app.kubernetes.io/component=imex", columns) + "\n" +
		w.kubectl("-n", "nvidia-dra-driver", "get", "pods", columns)
}
