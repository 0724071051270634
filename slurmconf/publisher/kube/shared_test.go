package kube

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// unshared returns a machine of which no text is shared with another machine.
func unshared(name, product string) *topology.Node {
	n := &topology.Node{Name: name, DriverVersion: strings.Clone("580"), Sockets: []topology.Socket{{CPUs: strings.Clone("0-3")}}}
	for g := range 3 { // the third GPU has lost a link
		n.GPUs = append(n.GPUs, topology.GPU{Index: g, UUID: fmt.Sprintf("GPU-%s-%d", name, g), Product: strings.Clone(product), Links: &topology.Links{Switch: 18 - g/2}})
	}
	return n
}

// TestShared holds that reports stay what they are, and that equal texts and links have one copy.
func TestShared(t *testing.T) {
	var s shared
	a, b := unshared("a", "H100"), unshared("b", "H100")
	for _, n := range []*topology.Node{a, b} {
		s.share(n)
		if diff := cmp.Diff(unshared(n.Name, "H100"), n); diff != "" {
			t.Errorf("node %s (-want +got):\n%s", n.Name, diff)
		}
	}
	if unsafe.StringData(a.GPUs[0].Product) != unsafe.StringData(b.GPUs[1].Product) {
		t.Error("equal products have two copies")
	}
	if a.GPUs[0].Links != a.GPUs[1].Links {
		t.Error("equal links of one report have two copies")
	}
}

// TestSharedBounded has reports that differ on purpose.
func TestSharedBounded(t *testing.T) {
	var s shared
	for i := range 3 * maxShared {
		s.share(unshared("a", fmt.Sprint(i)))
	}
	if len(s.texts) > maxShared+10 {
		t.Errorf("%d texts are remembered", len(s.texts))
	}
}

// TestRelevantReports notices a report that was written again, and not one that the API server only lists again.
func TestRelevantReports(t *testing.T) {
	slim := func(version string) any {
		o := &nodereport.Object{Node: unshared("a", "H100")}
		o.Name, o.ResourceVersion = "a", version
		return new(shared).slimReport(o)
	}
	if relevant(slim("1"), slim("1")) || !relevant(slim("1"), slim("2")) {
		t.Errorf("listed again: noticed %t; written again: noticed %t", relevant(slim("1"), slim("1")), relevant(slim("1"), slim("2")))
	}
}
