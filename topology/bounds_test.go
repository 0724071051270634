package topology_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// TestReportOutOfBounds changes one thing of a good report.
func TestReportOutOfBounds(t *testing.T) {
	mig := func(files ...string) func(*topology.Node) {
		return func(n *topology.Node) { n.GPUs[0].MIG = []topology.MIGInstance{{UUID: "MIG-1", Capabilities: files}} }
	}
	gpus := func(count int) func(*topology.Node) {
		return func(n *topology.Node) {
			n.GPUs = nil
			for i := range count {
				n.GPUs = append(n.GPUs, topology.GPU{Index: i, UUID: fmt.Sprint("GPU-", i)})
			}
		}
	}
	adapters := func(count int) func(*topology.Node) {
		return func(n *topology.Node) {
			for i := range count {
				n.Adapters = append(n.Adapters, topology.Adapter{Name: fmt.Sprint("mlx5_", i)})
			}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*topology.Node)
		want   string // "" if the report is good
	}{
		{"64 GPUs", gpus(64), ""},
		{"65 GPUs", gpus(65), "gpus: 65 items: want at most 64"},
		{"6,000 GPUs", gpus(6000), "r: report: larger than 65536 bytes"},
		{"17 MIG instances", func(n *topology.Node) { n.GPUs[2].MIG = make([]topology.MIGInstance, 17) }, "gpus[2].mig: 17 items: want at most 16"},
		{"a capability file", mig("/dev/nvidia-caps/nvidia-cap21"), ""},
		{"a space in a capability file", mig("/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia cap1"), `gpus[0].mig[0].capabilities: "/dev/nvidia-caps/nvidia cap1": want such as`},
		{"a disk as a capability file", mig("/dev/sda"), "gpus[0].mig[0].capabilities"},
		{"a line end after a capability file", mig("/dev/nvidia-caps/nvidia-cap21\n"), "gpus[0].mig[0].capabilities"},
		{"5,000 tiers", func(n *topology.Node) {
			for i := range 5000 {
				n.Tiers = append(n.Tiers, fmt.Sprint("t", i))
			}
		}, "tiers: 5000 items: want at most 8"},
		{"a tier of 300 bytes", func(n *topology.Node) { n.Tiers = []string{"a", strings.Repeat("t", 300)} }, "tiers[1]: 300 bytes: want at most 256"},
		{"a product of 900 KB", func(n *topology.Node) { n.GPUs[3].Product = strings.Repeat("x", 900_000) }, "r: report: larger than 65536 bytes"},
		{"a product of 257 bytes", func(n *topology.Node) { n.GPUs[3].Product = strings.Repeat("x", 257) }, "gpus[3].product: 257 bytes: want at most 256"},
		{"32 adapters", adapters(32), ""},
		{"33 adapters", adapters(33), "adapters: 33 items: want at most 32"},
		{"17 GPUs of an adapter", func(n *topology.Node) { n.Adapters = []topology.Adapter{{Name: "a", GPUs: make([]string, 17)}} }, "adapters[0].gpus: 17 items: want at most 16"},
		{"5 ports", func(n *topology.Node) {
			n.Adapters = []topology.Adapter{{Name: "a", Ports: make([]topology.AdapterPort, 5)}}
		}, "adapters[0].ports"},
		{"a long neighbor", func(n *topology.Node) {
			n.Adapters = []topology.Adapter{{Name: "a", Ports: []topology.AdapterPort{{Port: 1, Neighbor: topology.Neighbor{SystemName: strings.Repeat("s", 257)}}}}}
		}, "adapters[0].ports[0].neighbor.systemName: 257 bytes: want at most 256"},
		{"a GUID that is none", func(n *topology.Node) { n.Adapters = []topology.Adapter{{Name: "a", NodeGUID: "946D:AE03:0000:1"}} }, `adapters[0].nodeGUID: "946D:AE03:0000:1": want 16 hexadecimal digits in lower case`},
		{"CPUs in turns on two sockets", func(n *topology.Node) { n.GPUs[0].CPUAffinity = strings.Repeat("100,", 256) + "1" }, ""},
		{"a chassis of 257 bytes", func(n *topology.Node) { n.Platform = &topology.Platform{ChassisSerial: strings.Repeat("x", 257)} }, "platform.chassisSerial: 257 bytes"},
		{"65 problems", func(n *topology.Node) { n.Problems = make([]topology.Finding, 65) }, "problems: 65 items: want at most 64"},
		{"a long reason", func(n *topology.Node) { n.Problems = []topology.Finding{{Reason: strings.Repeat("R", 257)}} }, "problems[0].reason: 257 bytes"},
		{"a long node of a problem", func(n *topology.Node) {
			n.Problems = []topology.Finding{{Subject: topology.Subject{Node: strings.Repeat("n", 257)}}}
		}, "problems[0].node: 257 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := machine()
			tt.change(n)
			text, err := json.Marshal(struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				topology.Node
			}{topology.APIVersion, topology.ReportKind, *n})
			if err != nil {
				t.Fatal(err)
			}
			_, err = topology.ParseReport("r", text)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestEveryListHasABound fails for a list that was added to the report without a tag.
func TestEveryListHasABound(t *testing.T) {
	var check func(typ reflect.Type)
	check = func(typ reflect.Type) {
		switch typ.Kind() { //nolint:exhaustive // numbers need no bound
		case reflect.Pointer, reflect.Slice:
			check(typ.Elem())
		case reflect.Map, reflect.Interface:
			t.Errorf("a %s cannot be bounded", typ)
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				if f.Type.Kind() == reflect.Slice && f.Tag.Get("max") == "" {
					t.Errorf("%s.%s has no tag max", typ, f.Name)
				}
				if limit, err := strconv.Atoi(f.Tag.Get("max")); f.Type.Kind() == reflect.String && err == nil && limit < topology.MaxText {
					t.Errorf("%s.%s: at most %d bytes: want %d or more, because the tags of shorter strings are not read", typ, f.Name, limit, topology.MaxText)
				}
				check(f.Type)
			}
		}
	}
	check(reflect.TypeFor[topology.Node]())
}

// TestErrorsAreShort reads a report with a domain of 60 KB.
func TestErrorsAreShort(t *testing.T) {
	_, err := topology.ParseReport("r", []byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","domain":"`+strings.Repeat("k", 60_000)+`"}`))
	if err == nil || len(err.Error()) > 1024 || !strings.HasPrefix(err.Error(), `r: report: clique "kkk`) {
		t.Errorf("error %.100v", err)
	}
}

// TestReportedReasons keeps a reason that agents report, and counts any other one as "other".
func TestReportedReasons(t *testing.T) {
	known := topology.Finding{Reason: topology.ReasonMoreProblems, Message: "m"}
	if known.Reported() != known {
		t.Errorf("%v", known.Reported())
	}
	want := topology.Finding{Subject: topology.Subject{Node: "n"}, Reason: "other", Message: "Odd: m"}
	if got := (topology.Finding{Subject: topology.Subject{Node: "n"}, Reason: "Odd", Message: "m"}).Reported(); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"short", 5, "short"},
		{"longer", 5, "lo..."},
		{"üüüü", 7, "üü..."},
		{"üüüü", 6, "ü..."},
	} {
		if got := topology.Cut(tt.text, tt.limit); got != tt.want {
			t.Errorf("%q at %d: %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
}

// TestEncodeCutsProblems encodes a machine whose problems do not fit a report.
func TestEncodeCutsProblems(t *testing.T) {
	n := machine()
	for i := range 100 {
		n.Problems = append(n.Problems, topology.Finding{Reason: "GPUUnreadable", Message: fmt.Sprint(i) + strings.Repeat("é", 1000)})
	}
	data, err := topology.EncodeReport(n)
	if err != nil {
		t.Fatal(err)
	}
	got, err := topology.ParseReport("r", data)
	if err != nil {
		t.Fatal(err)
	}
	want := topology.Finding{Reason: topology.ReasonMoreProblems, Message: "the machine has 37 more problems"}
	if diff := cmp.Diff(want, got.Problems[len(got.Problems)-1]); diff != "" || len(got.Problems) != 64 {
		t.Errorf("%d problems, the last (-want +got):\n%s", len(got.Problems), diff)
	}
	if m := got.Problems[62].Message; len(m) > 512 || !strings.HasPrefix(m, "62é") || !strings.HasSuffix(m, "é...") {
		t.Errorf("message %q", m)
	}
}
