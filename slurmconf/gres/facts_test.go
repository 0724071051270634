package gres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestType(t *testing.T) {
	for _, tt := range []struct{ product, model, full, short string }{
		{"NVIDIA GB200", "gb200", "nvidia_gb200", "gb200"},
		{"NVIDIA H100 80GB HBM3", "h100_80gb_hbm3", "nvidia_h100_80gb_hbm3", "h100"},
		{"NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb", "nvidia_a100-sxm4-80gb", "a100"},
		{"NVIDIA RTX 6000 Ada Generation", "rtx_6000_ada_generation", "nvidia_rtx_6000_ada_generation", "rtx_6000"},
		{"NVIDIA RTX A6000", "rtx_a6000", "nvidia_rtx_a6000", "rtx_a6000"},
		{"Tesla T4", "tesla_t4", "tesla_t4", "t4"},
		{"NVIDIA L40S", "l40s", "nvidia_l40s", "l40s"},
		{"NVIDIA Graphics Device", "graphics_device", "nvidia_graphics_device", "graphics_device"},
		{"NVIDIA 6000, new", "gpu_6000__new", "nvidia_6000__new", "gpu_6000_"},
		{"NVIDIA", "nvidia", "nvidia", "nvidia"},
	} {
		for naming, want := range map[Naming]string{"": tt.model, NamingModel: tt.model, NamingFull: tt.full, NamingShort: tt.short} {
			o := Options{Naming: naming}
			if got := o.TypeOf(tt.product); got != want {
				t.Errorf("%q is called %q by %q, want %q", tt.product, got, naming, want)
			}
			if err := CheckType(want); err != nil {
				t.Error(err)
			}
		}
	}
	o := Options{Naming: NamingShort, Types: map[string]string{"NVIDIA GB200": "blackwell"}}
	if got := o.TypeOf("NVIDIA GB200"); got != "blackwell" {
		t.Errorf("a configured type is %q", got)
	}
	if got := o.migTypeOf("NVIDIA H100 80GB HBM3", "1g.10gb+me"); got != "h100_1g.10gb+me" {
		t.Errorf("MIG is called %q", got)
	}
	for _, bad := range []string{"", "6000", "a b", "a:b", "a,b", "a=b", "a[1]", "_a", `a"`, "é"} {
		if CheckType(bad) == nil {
			t.Errorf("type %q is taken", bad)
		}
	}
}

func TestCores(t *testing.T) {
	two := []topology.Socket{{CPUs: "0-35,72-107", Cores: 36}, {CPUs: "36-71,108-143", Cores: 36}}
	for _, tt := range []struct {
		name     string
		sockets  []topology.Socket
		affinity string
		want     string
	}{
		{"the first socket with its hyperthreads", two, "0-35,72-107", "0-35"},
		{"the second", two, "36-71,108-143", "36-71"},
		{"a NUMA node of the second is widened", two, "36-53,108-125", "36-71"},
		{"one CPU", two, "143", "36-71"},
		{"all CPUs", two, "0-143", ""},
		{"CPUs in both", two, "0,36", ""},
		{"unknown", two, "", ""},
		{"no list", two, "0-x", ""},
		{"backwards", two, "3-1", ""},
		{"a CPU that no socket has", two, "0,200", ""},
		{"a CPU that there cannot be", two, "0-99999999999", ""},
		{"one socket", two[:1], "0-35", ""},
		{"no sockets", nil, "0-35", ""},
		{"sockets that differ", []topology.Socket{{CPUs: "0-3", Cores: 4}, {CPUs: "4-5", Cores: 2}}, "0-3", ""},
		{"threads that differ", []topology.Socket{{CPUs: "0-3", Cores: 2}, {CPUs: "4-5", Cores: 2}}, "0-3", ""},
		{"half a core", []topology.Socket{{CPUs: "0-2", Cores: 2}, {CPUs: "3-5", Cores: 2}}, "0-1", ""},
		{"a CPU in two sockets", []topology.Socket{{CPUs: "0-3", Cores: 4}, {CPUs: "3-6", Cores: 4}}, "0-2", ""},
		{"cores unread", []topology.Socket{{CPUs: "0-3"}, {CPUs: "4-7"}}, "0-3", ""},
		{"sockets of one core", []topology.Socket{{CPUs: "0", Cores: 1}, {CPUs: "1", Cores: 1}}, "1", "1"},
		{"two sockets of four", []topology.Socket{{CPUs: "0-1", Cores: 2}, {CPUs: "2-3", Cores: 2}, {CPUs: "4-5", Cores: 2}, {CPUs: "6-7", Cores: 2}}, "0-3", ""},
		{"the order is Slurm's, not that of the CPUs", []topology.Socket{{CPUs: "4-7", Cores: 4}, {CPUs: "0-3", Cores: 4}}, "0-3", "4-7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := coresOf(shapeOf(tt.sockets), []topology.GPU{{CPUAffinity: tt.affinity}})
			if got[0] != tt.want {
				t.Errorf("Cores=%s, want %s", got[0], tt.want)
			}
		})
	}
}

// FuzzCores checks that Cores are always one socket of several.
func FuzzCores(f *testing.F) {
	f.Add("0-35,72-107", "36-71,108-143", 36, "0-35")
	f.Add("0", "1", 1, "1")
	f.Add("0-", "-1", 0, ",")
	f.Fuzz(func(t *testing.T, first, second string, cores int, affinity string) {
		sockets := []topology.Socket{{CPUs: first, Cores: cores}, {CPUs: second, Cores: cores}}
		got := coresOf(shapeOf(sockets), []topology.GPU{{CPUAffinity: affinity}})[0]
		if got != "" && got != coreRange(0, cores) && got != coreRange(cores, cores) {
			t.Errorf("Cores=%s of sockets with %d cores", got, cores)
		}
	})
}

// joined links GPUs of a machine, by NVML's index, with a number of lanes.
func joined(n *topology.Node, lanes int, pairs ...[2]int) *topology.Node {
	for i := range n.GPUs {
		n.GPUs[i].PCIBusID = fmt.Sprintf("00000000:%02X:00.0", 0x0a+i)
	}
	for _, p := range pairs {
		for i := range 2 {
			to := topology.LinksToGPU{PCIBusID: strings.ToLower(n.GPUs[p[1-i]].PCIBusID), Count: lanes}
			n.GPUs[p[i]].Links.GPUs = append(n.GPUs[p[i]].Links.GPUs, to)
		}
	}
	return n
}

func TestLinks(t *testing.T) {
	pairs := func() *topology.Node { return joined(machine(0, 1, 2, 3), 4, [2]int{0, 1}, [2]int{2, 3}) }
	for _, tt := range []struct {
		name string
		node *topology.Node
		want [][]int
	}{
		{"bridges between pairs", pairs(), [][]int{{-1, 4, 0, 0}, {4, -1, 0, 0}, {0, 0, -1, 4}, {0, 0, 4, -1}}},
		{"minors against NVML's order", joined(machine(3, 1, 2, 0), 4, [2]int{0, 1}), [][]int{{-1, 0, 0, 0}, {0, -1, 0, 4}, {0, 0, -1, 0}, {0, 4, 0, -1}}},
		{"no links", machine(0, 1), nil},
		{"links that are not known", with(pairs(), func(n *topology.Node) { n.GPUs[3].Links = nil }), nil},
		{"NVSwitches", with(pairs(), func(n *topology.Node) { n.GPUs[3].Links.Switch = 1 }), nil},
		{"MIG", with(pairs(), func(n *topology.Node) { n.GPUs[3].MIG = []topology.MIGInstance{{}} }), nil},
		{"a GPU that is not reported", with(pairs(), func(n *topology.Node) { n.GPUs = n.GPUs[:3] }), nil},
		{"an unknown end", with(machine(0, 1), func(n *topology.Node) { n.GPUs[0].Links = &topology.Links{Unknown: 1, IBMNPU: 1} }), nil},
		{"an end without an address", with(machine(0, 1), func(n *topology.Node) { n.GPUs[0].Links.GPUs = []topology.LinksToGPU{{Count: 1}} }), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, linksOf(tt.node.GRESOrder())); diff != "" {
				t.Errorf("links (-want +got):\n%s", diff)
			}
		})
	}
}

// socketed puts the first half of the GPUs, by NVML's index, at the first of two
// sockets.
func socketed(n *topology.Node) *topology.Node {
	n.Sockets = []topology.Socket{{CPUs: "0-3,8-11", Cores: 4}, {CPUs: "4-7,12-15", Cores: 4}}
	for i := range n.GPUs {
		n.GPUs[i].CPUAffinity = n.Sockets[2*i/len(n.GPUs)].CPUs
	}
	return n
}

// textFor is gres.conf of nodes n1, n2 and so on.
func textFor(t *testing.T, o Options, was map[string][]Line, nodes ...*topology.Node) (text string, problems []topology.Finding) {
	t.Helper()
	lines, problems := FromFacts(factsOf(nodes), was, o)
	out, err := Render(lines, "")
	if err != nil {
		t.Fatal(err)
	}
	return string(out), problems
}

// factsOf has nodes n1, n2 and so on; one that is nil has 8 GPUs by its labels.
func factsOf(nodes []*topology.Node) []topology.Facts {
	var facts []topology.Facts
	for i, n := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		f := topology.Facts{Name: name, SlurmName: name, Report: n}
		if n == nil {
			f.Labels.GPUs = 8
		}
		facts = append(facts, f)
	}
	return facts
}

func TestLines(t *testing.T) {
	four := func() *topology.Node { return socketed(machine(0, 1, 2, 3)) }
	swapped := socketed(machine(2, 3, 0, 1))
	partly := four()
	partly.GPUs[1] = cut(machine(1), "1g.5gb", 2, 10).GPUs[0]
	partly.GPUs[1].CPUAffinity = partly.GPUs[0].CPUAffinity
	for _, tt := range []struct {
		name  string
		o     Options
		nodes []*topology.Node
		want  string
	}{
		{"a line for a socket", Options{Cores: true}, []*topology.Node{four(), four()}, `
NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-3 Flags=nvidia_gpu_env
NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=4-7 Flags=nvidia_gpu_env
`},
		{"without Cores", Options{}, []*topology.Node{four(), swapped}, `
NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env
`},
		{"minors against NVML's order", Options{Cores: true}, []*topology.Node{four(), swapped}, `
NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-3 Flags=nvidia_gpu_env
NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=4-7 Flags=nvidia_gpu_env
NodeName=n2 Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=4-7 Flags=nvidia_gpu_env
NodeName=n2 Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=0-3 Flags=nvidia_gpu_env
`},
		{"other sockets, the same affinity", Options{Cores: true}, []*topology.Node{four(), with(four(), func(n *topology.Node) { n.Sockets = nil })}, `
NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-3 Flags=nvidia_gpu_env
NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=4-7 Flags=nvidia_gpu_env
NodeName=n2 Name=gpu Type=a100 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env
`},
		{"links", Options{Cores: true}, []*topology.Node{joined(socketed(machine(0, 1)), 12, [2]int{0, 1})}, `
NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-3 Links=-1,12 Flags=nvidia_gpu_env
NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia1 Cores=4-7 Links=12,-1 Flags=nvidia_gpu_env
`},
		{"partly MIG", Options{Cores: true, Naming: NamingFull}, []*topology.Node{partly}, `
NodeName=n1 Name=gpu Type=nvidia_a100 File=/dev/nvidia0 Cores=0-3 Flags=nvidia_gpu_env
NodeName=n1 Name=gpu Type=nvidia_a100 File=/dev/nvidia[2-3] Cores=4-7 Flags=nvidia_gpu_env
NodeName=n1 Name=gpu Type=nvidia_a100_1g.5gb MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap10,/dev/nvidia-caps/nvidia-cap60 Cores=0-3 Flags=nvidia_gpu_env
NodeName=n1 Name=gpu Type=nvidia_a100_1g.5gb MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap11,/dev/nvidia-caps/nvidia-cap61 Cores=0-3 Flags=nvidia_gpu_env
`},
		{"no report", Options{}, []*topology.Node{four(), nil}, `
NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env
NodeName=n2 AutoDetect=nvidia
`},
		{"detected by choice", Options{AutoDetect: AutoDetectNVML, Cores: true}, []*topology.Node{four(), nil, partly, machine()}, "\nNodeName=n[1-3] AutoDetect=nvml\n"},
		{"MIG is not detected by nvidia", Options{AutoDetect: AutoDetectNvidia}, []*topology.Node{four(), nil, cut(machine(0), "7g.40gb", 1, 10)}, `
NodeName=n[1-2] AutoDetect=nvidia
NodeName=n3 Name=gpu Type=a100_7g.40gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap10,/dev/nvidia-caps/nvidia-cap60 Flags=nvidia_gpu_env
`},
		{"never detected", Options{AutoDetect: AutoDetectOff}, []*topology.Node{four(), nil}, `
NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := textFor(t, tt.o, nil, tt.nodes...)
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), got); diff != "" {
				t.Errorf("gres.conf (-want +got):\n%s", diff)
			}
			if want := tt.o.AutoDetect == AutoDetectOff; want != (len(problems) > 0) {
				t.Errorf("problems %v", problems)
			}
		})
	}
}

// TestLinesOfSharedNodes has two worker pods on a node: nobody knows which GPUs a pod has.
func TestLinesOfSharedNodes(t *testing.T) {
	whole, parts := socketed(machine(0, 1)), cut(machine(0), "7g.40gb", 1, 10)
	for _, tt := range []struct {
		name string
		o    Options
		node *topology.Node
		want string
		says string
	}{
		{"detected, although lines were published", Options{}, whole, "NodeName=n[1-2] AutoDetect=nvidia\n", ""},
		{"by choice", Options{AutoDetect: AutoDetectNVML}, parts, "NodeName=n[1-2] AutoDetect=nvml\n", ""},
		{"never detected", Options{AutoDetect: AutoDetectOff}, whole, "", "several worker pods share its GPUs, and AutoDetect is off"},
		{"left out", Options{LeaveOut: map[string][]string{"m": {"/dev/nvidia1"}}}, whole, "", "gres.leaveOut names GPUs of it"},
		{"MIG", Options{}, parts, "", "set gres.autoDetect: nvml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			was, _ := FromFacts([]topology.Facts{{Name: "m", SlurmName: "n1", Report: tt.node}}, nil, Options{})
			published := ByNode(was, nil)
			f := topology.Facts{Name: "m", SlurmName: "n1", Shared: true, Report: tt.node}
			g := f
			g.SlurmName = "n2"
			lines, problems := FromFacts([]topology.Facts{f, g}, published, tt.o)
			text, err := Render(lines, "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(text)); diff != "" {
				t.Errorf("gres.conf (-want +got):\n%s", diff)
			}
			if want := min(len(tt.says), 1); len(problems) != want || want == 1 && !strings.Contains(problems[0].Message, tt.says) {
				t.Errorf("problems %v, want %q once", problems, tt.says)
			}
		})
	}
}

// TestLinesInOrder has lines in Slurm's order of the nodes, and one problem for each node of a group
// whose facts are unknown.
func TestLinesInOrder(t *testing.T) {
	var nodes []*topology.Node
	for i := range 10 {
		nodes = append(nodes, machine(0))
		if i == 1 {
			nodes[1] = machine(0, 1)
		}
		if i == 9 {
			nodes[9] = machine(0, 1, 2)
		}
	}
	got, problems := textFor(t, Options{}, nil, nodes...)
	const want = "NodeName=n[1,3-9] Name=gpu Type=a100 File=/dev/nvidia0 Flags=nvidia_gpu_env\n" +
		"NodeName=n2 Name=gpu Type=a100 File=/dev/nvidia[0-1] Flags=nvidia_gpu_env\n" +
		"NodeName=n10 Name=gpu Type=a100 File=/dev/nvidia[0-2] Flags=nvidia_gpu_env\n"
	if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
		t.Errorf("problems %v (-want +got):\n%s", problems, diff)
	}
	for name, change := range map[string]func(g *topology.GPU){"minor": func(g *topology.GPU) { g.Minor = nil }, "product": func(g *topology.GPU) { g.Product = "" }} {
		unknown := func() *topology.Node { return with(machine(0), func(n *topology.Node) { change(&n.GPUs[0]) }) }
		if _, problems := textFor(t, Options{AutoDetect: AutoDetectOff}, nil, unknown(), unknown()); len(problems) != 2 {
			t.Errorf("no %s: problems %v, want one of each node", name, problems)
		}
	}
}

// TestCoresAndLinksStay has Cores and Links stay where they cannot be read for a while.
func TestCoresAndLinksStay(t *testing.T) {
	four := func() *topology.Node {
		return joined(socketed(machine(0, 1, 2, 3)), 4, [2]int{0, 1}, [2]int{2, 3})
	}
	noLinks := func(n *topology.Node) {
		for i := range n.GPUs {
			n.GPUs[i].Links = nil
		}
	}
	o := Options{Cores: true}
	lines, _ := FromFacts(factsOf([]*topology.Node{four()}), nil, o)
	was := ByNode(lines, nil)
	before, _ := textFor(t, o, nil, four())
	for _, tt := range []struct {
		name  string
		o     Options
		node  *topology.Node
		stays bool
	}{
		{"sockets unread", o, with(four(), func(n *topology.Node) { n.Sockets = nil; problem("FactUnreadable")(n) }), true},
		{"one affinity unread", o, with(four(), func(n *topology.Node) { n.GPUs[1].CPUAffinity = ""; problem("FactUnreadable")(n) }), true},
		{"no links known", o, with(four(), noLinks), true},
		{"links of one GPU not known", o, with(four(), func(n *topology.Node) { n.GPUs[1].Links = nil }), true},
		{"neither links nor sockets known", o, with(four(), func(n *topology.Node) { noLinks(n); n.Sockets = nil; problem("FactUnreadable")(n) }), true},
		{"links that are down", o, with(four(), func(n *topology.Node) { n.GPUs[0].Links, n.GPUs[1].Links = &topology.Links{}, &topology.Links{} }), false},
		{"a machine without links", o, socketed(machine(0, 1, 2, 3)), false},
		{"no links known, other sockets", o, with(four(), func(n *topology.Node) { noLinks(n); n.Sockets = nil }), false},
		{"a machine without sockets", o, with(four(), func(n *topology.Node) { n.Sockets = nil }), false},
		{"other sockets", o, with(four(), func(n *topology.Node) {
			n.GPUs[0].CPUAffinity, n.GPUs[2].CPUAffinity = n.GPUs[2].CPUAffinity, ""
			problem("FactUnreadable")(n)
		}), false},
		{"Cores turned off", Options{}, with(four(), problem("FactUnreadable")), false},
		{"another product", o, with(four(), func(n *topology.Node) {
			n.Sockets = nil
			for i := range n.GPUs {
				n.GPUs[i].Product = "NVIDIA L4"
			}
			problem("FactUnreadable")(n)
		}), false},
		{"detected from now on", Options{AutoDetect: AutoDetectNVML}, four(), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := before
			if !tt.stays {
				want, _ = textFor(t, tt.o, nil, tt.node)
			}
			got, problems := textFor(t, tt.o, was, tt.node)
			if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
				t.Errorf("gres.conf (-want +got):\n%s\nproblems %v", diff, problems)
			}
			if tt.stays == (want != before) {
				t.Error("the case does not tell the two apart")
			}
		})
	}
}
