package gres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// machine is a report of GPUs with these minor numbers.
func machine(minors ...int) *topology.Node {
	n := &topology.Node{Name: "n1"}
	for i, minor := range minors {
		n.GPUs = append(n.GPUs, topology.GPU{Index: i, UUID: fmt.Sprintf("GPU-%d", minor), Minor: &minor, Product: "NVIDIA A100", Links: &topology.Links{}})
	}
	return n
}

// cut cuts every GPU into instances with capability files from first on.
func cut(n *topology.Node, profile string, instances, first int) *topology.Node {
	for i := range n.GPUs {
		n.GPUs[i].MIG = nil
		for k := range instances {
			n.GPUs[i].MIG = append(n.GPUs[i].MIG, topology.MIGInstance{UUID: fmt.Sprintf("MIG-%d-%d", i, k), Profile: profile,
				Capabilities: []string{fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", first+i*100+k), fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", first+i*100+50+k)}})
		}
	}
	return n
}

func with(n *topology.Node, change func(*topology.Node)) *topology.Node {
	change(n)
	return n
}

func problem(reason string) func(*topology.Node) {
	return func(n *topology.Node) {
		n.Problems = append(n.Problems, topology.Finding{Reason: reason, Message: "of a test"})
	}
}

func linesOf(t *testing.T, n *topology.Node, was []Line) ([]Line, []topology.Finding) {
	t.Helper()
	lines, problems := FromFacts([]topology.Facts{{Name: "n1", SlurmName: "n1", Report: n}}, map[string][]Line{"n1": was}, Options{})
	byNode := ByNode(lines, nil)
	return byNode["n1"], problems
}

func TestLostGPUKeepsItsLine(t *testing.T) {
	eight := func() *topology.Node { return machine(0, 1, 2, 3, 4, 5, 6, 7) }
	seven := func() *topology.Node { return machine(0, 1, 2, 3, 4, 5, 6) }
	gap := func() *topology.Node { return machine(0, 1, 2, 4, 5, 6, 7) }
	mig := func(n *topology.Node) *topology.Node { return cut(n, "1g.10gb", 7, 10) }
	without := func(fact func(*topology.GPU)) func(*topology.Node) {
		return func(n *topology.Node) { fact(&n.GPUs[2]) }
	}
	empty := func(n *topology.Node) {
		for i := range n.GPUs {
			n.GPUs[i].MIGEmpty = true
		}
	}
	for _, tt := range []struct {
		name     string
		was, now *topology.Node
		keeps    bool
		reason   string
	}{
		{"all there", eight(), eight(), true, ""},
		{"named in a problem", eight(), with(seven(), problem("GPUUnreadable")), true, topology.ReasonGPUMissing},
		{"fallen off the bus in this boot", eight(), with(gap(), problem("GPULost")), true, topology.ReasonGPUMissing},
		{"a GPU less, and nothing says why", eight(), gap(), false, ""},
		{"lost one of the last two before", machine(0, 1, 2, 3, 4, 5, 7), machine(0, 1, 2, 3, 4, 5), false, ""},
		{"a GPU less since the boot", eight(), seven(), false, ""},
		{"a GPU less since the boot, and the agent says so", eight(), with(seven(), problem("GPUMissing")), false, ""},
		{"a machine with 4 GPUs", eight(), machine(0, 1, 2, 3), false, ""},
		{"another problem beside", eight(), with(seven(), problem("FactUnreadable")), false, ""},
		{"no GPU at all", eight(), machine(), true, topology.ReasonGPUMissing},
		{"nothing readable", eight(), with(machine(), problem("GPUUnreadable")), true, topology.ReasonGPUMissing},
		{"another product", eight(), with(with(gap(), problem("GPULost")), without(func(g *topology.GPU) { g.Product = "NVIDIA L4" })), false, ""},
		{"a file that was not there", gap(), with(machine(0, 1, 3), problem("GPULost")), false, ""},
		{"more GPUs", seven(), eight(), false, ""},

		{"MIG, a GPU lost", mig(eight()), mig(seven()), false, ""},
		{"MIG, a GPU lost and named", mig(eight()), with(mig(seven()), problem("GPULost")), true, topology.ReasonGPUMissing},
		{"MIG instances made anew", mig(eight()), cut(eight(), "1g.10gb", 1, 90), false, ""},
		{"MIG instances taken away", mig(eight()), cut(eight(), "1g.10gb", 6, 10), false, ""},
		{"MIG instances unread", mig(eight()), with(cut(eight(), "1g.10gb", 6, 10), problem("FactUnreadable")), true, topology.ReasonGPUMissing},
		{"MIG of another profile", mig(eight()), cut(eight(), "3g.40gb", 2, 10), false, ""},
		{"MIG off", mig(eight()), eight(), false, ""},
		{"MIG mode unread", mig(eight()), with(mig(eight()), func(n *topology.Node) { n.GPUs[2].MIG = nil; problem("FactUnreadable")(n) }), true, topology.ReasonGPUMissing},
		{"MIG instances gone by a boot", mig(eight()), with(eight(), empty), true, ReasonNoGresLine},
		{"MIG instances being made anew", mig(eight()), with(cut(eight(), "1g.10gb", 3, 10), without(func(g *topology.GPU) { g.MIG, g.MIGEmpty = nil, true })), true, topology.ReasonGPUMissing},
		{"MIG instances of another profile being made", mig(eight()), with(cut(eight(), "3g.40gb", 2, 10), without(func(g *topology.GPU) { g.MIG, g.MIGEmpty = nil, true })), false, ""},
		{"MIG newly on, without instances", eight(), with(eight(), without(func(g *topology.GPU) { g.MIGEmpty = true })), false, ""},
		{"all MIG newly on, without instances", eight(), with(eight(), empty), false, ReasonNoGresLine},

		{"minor unread", eight(), with(eight(), without(func(g *topology.GPU) { g.Minor = nil })), true, ReasonNoGresLine},
		{"product unread", eight(), with(eight(), without(func(g *topology.GPU) { g.Product = "" })), true, ReasonNoGresLine},
		{"product unread, another product", eight(), with(eight(), func(n *topology.Node) { n.GPUs[0].Product, n.GPUs[1].Product = "", "NVIDIA L4" }), false, ReasonNoGresLine},
		{"capabilities unread", mig(eight()), with(mig(eight()), without(func(g *topology.GPU) { g.MIG[1].Capabilities = nil })), true, ReasonNoGresLine},
		{"another layout, capabilities unread", mig(eight()), with(cut(eight(), "3g.40gb", 2, 10), without(func(g *topology.GPU) { g.MIG[1].Capabilities = nil })), false, ReasonNoGresLine},
	} {
		t.Run(tt.name, func(t *testing.T) {
			was, _ := linesOf(t, tt.was, nil)
			want := was
			if !tt.keeps {
				want, _ = linesOf(t, tt.now, nil)
			}
			got, problems := linesOf(t, tt.now, was)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if tt.reason == "" && len(problems) > 0 || tt.reason != "" && (len(problems) != 1 || problems[0].Reason != tt.reason || problems[0].Node != "n1") {
				t.Errorf("problems %v, want %q", problems, tt.reason)
			}
		})
	}
}

// TestNoGresLine has nodes with GPUs of which too little is known for a line.
func TestNoGresLine(t *testing.T) {
	noCapabilities := cut(machine(0), "1g.10gb", 1, 10)
	noCapabilities.GPUs[0].MIG[0].Capabilities = nil
	noMinor := machine(0, 1)
	noMinor.GPUs[1].Minor = nil
	noInstances := machine(0, 1)
	noInstances.GPUs[0].MIGEmpty, noInstances.GPUs[1].MIGEmpty = true, true
	for want, n := range map[string]*topology.Node{
		"MIG on in all GPUs and no instance":                       noInstances,
		"no capability files of MIG instance MIG-0-0 of GPU GPU-0": noCapabilities,
		"no minor number of GPU GPU-1":                             noMinor,
	} {
		lines, problems := linesOf(t, n, nil)
		if len(lines) != 0 || len(problems) != 1 || problems[0].Reason != ReasonNoGresLine || !strings.Contains(problems[0].Message, want) {
			t.Errorf("lines %v, problems %v: want %q", lines, problems, want)
		}
		detects := []Line{{AutoDetect: "nvidia"}}
		lines, problems = linesOf(t, n, detects)
		if diff := cmp.Diff(detects, lines); diff != "" || len(problems) != 1 || problems[0].Reason != ReasonNoGresLine {
			t.Errorf("(-published +got)\n%s\nproblems %v", diff, problems)
		}
	}
	if lines, problems := linesOf(t, machine(), nil); len(lines)+len(problems) > 0 {
		t.Errorf("a node without GPUs has lines %v, problems %v", lines, problems)
	}
}
