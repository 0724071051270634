package kube

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// linked returns a machine with links, of which no text is shared with another machine.
func linked(name string, remote string, links int) *topology.Node {
	n := &topology.Node{Name: name, DriverVersion: strings.Clone("580"), Sockets: []topology.Socket{{CPUs: strings.Clone("0-3")}}}
	for g := range 2 {
		gpu := topology.GPU{Index: g, UUID: fmt.Sprintf("GPU-%s-%d", name, g), Product: strings.Clone("H100")}
		for l := range links {
			gpu.NVLinks = append(gpu.NVLinks, topology.NVLink{Link: l, Remote: strings.Clone(remote)})
		}
		n.GPUs = append(n.GPUs, gpu)
	}
	return n
}

// TestShared holds that reports stay what they are, and that equal parts have one copy.
func TestShared(t *testing.T) {
	var s shared
	var all []*topology.Node
	for _, n := range []*topology.Node{linked("a", "switch", 18), linked("b", "switch", 18), linked("c", "gpu", 18), linked("d", "switch", 0)} {
		want := linked(n.Name, "switch", 18)
		switch n.Name {
		case "c":
			want = linked("c", "gpu", 18)
		case "d":
			want = linked("d", "switch", 0)
		}
		s.share(n)
		if diff := cmp.Diff(want, n); diff != "" {
			t.Errorf("node %s (-want +got):\n%s", n.Name, diff)
		}
		all = append(all, n)
	}
	links := func(n *topology.Node) *topology.NVLink { return unsafe.SliceData(n.GPUs[1].NVLinks) }
	if links(all[0]) != links(all[1]) || links(all[0]) == links(all[2]) {
		t.Error("equal links have two copies, or different links one")
	}
	if unsafe.StringData(all[0].GPUs[0].Product) != unsafe.StringData(all[2].GPUs[1].Product) {
		t.Error("equal products have two copies")
	}
}

// TestSharedBounded has reports that differ on purpose.
func TestSharedBounded(t *testing.T) {
	var s shared
	for i := range 3 * maxShared {
		s.share(linked("a", fmt.Sprint(i), 1))
	}
	if len(s.texts) > maxShared+10 || len(s.links) > maxShared+10 {
		t.Errorf("%d texts and %d lists of links are remembered", len(s.texts), len(s.links))
	}
}
