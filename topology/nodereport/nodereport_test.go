package nodereport

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/topology"
)

func report(t *testing.T, n *topology.Node) []byte {
	t.Helper()
	text, err := topology.EncodeReport(n)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func encoded(t *testing.T, n *topology.Node) []byte {
	t.Helper()
	text, err := encode(report(t, n), metav1.ObjectMeta{Name: n.Name})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRoundTrip(t *testing.T) {
	n := &topology.Node{Name: "n1", Domain: topology.NVLinkDomain{None: true}, GPUs: []topology.GPU{{UUID: "GPU-<1>", Fabric: topology.Fabric{State: topology.FabricNotSupported}}},
		Problems: []topology.Finding{{Reason: "A", Message: "b & c"}}}
	var o Object
	if err := json.Unmarshal(encoded(t, n), &o); err != nil || o.Err != nil {
		t.Fatal(err, o.Err)
	}
	if diff := cmp.Diff(n, o.Node); diff != "" || o.Name != "n1" || o.Kind != topology.ReportKind {
		t.Errorf("%s %s (-want +got):\n%s", o.Kind, o.Name, diff)
	}
}

// TestUnreadable reads NodeReports that cost their own node only.
func TestUnreadable(t *testing.T) {
	good := string(encoded(t, &topology.Node{Name: "n1"}))
	for _, tt := range []struct{ name, text, want string }{
		{"another node's", strings.Replace(good, `"node":"n1"`, `"node":"n2"`, 1), `nodereport n1: report of node "n2": want it in NodeReport n2`},
		{"too large", strings.Replace(good, `"node":"n1"`, `"bootID":"`+strings.Repeat("x", 8*topology.MaxReport)+`","node":"n1"`, 1), "nodereport n1: report: larger than 65536 bytes"},
		{"a wrong type", strings.Replace(good, `"node":"n1"`, `"gpus":7,"node":"n1"`, 1), `for key "gpus"`},
		{"metadata alone", `{"metadata":{"name":"n1"}}`, "nodereport n1: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := fmt.Sprintf(`{"metadata":{"resourceVersion":"7"},"items":[%s,%s]}`, tt.text, encoded(t, &topology.Node{Name: "n3"}))
			var l List
			if err := json.Unmarshal([]byte(list), &l); err != nil {
				t.Fatal(err)
			}
			if len(l.Items) != 2 || l.ResourceVersion != "7" || l.Items[1].Err != nil || l.Items[1].Node.Name != "n3" {
				t.Errorf("list %+v", l)
			}
			if o := l.Items[0]; o.Node != nil || o.Err == nil || !strings.Contains(o.Err.Error(), tt.want) {
				t.Errorf("node %v, error %v: want %q", o.Node, o.Err, tt.want)
			}
		})
	}
}

// TestMetadataDoesNotCount holds that the limit of 64 KiB is that of the facts.
func TestMetadataDoesNotCount(t *testing.T) {
	text, err := encode(report(t, &topology.Node{Name: "n1"}), metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"a": strings.Repeat("x", topology.MaxReport)}})
	if err != nil {
		t.Fatal(err)
	}
	var o Object
	if err := json.Unmarshal(text, &o); err != nil || o.Err != nil {
		t.Error(err, o.Err)
	}
}

func TestSummarize(t *testing.T) {
	gpu := func(state topology.FabricState, health topology.Health) topology.GPU {
		return topology.GPU{Fabric: topology.Fabric{State: state, Health: health}}
	}
	for _, tt := range []struct {
		name string
		gpus []topology.GPU
		want string
	}{
		{"no GPU", nil, ""},
		{"no fabric read", []topology.GPU{{}}, ""},
		{"healthy", []topology.GPU{gpu("completed", "healthy"), gpu("completed", "healthy")}, "healthy"},
		{"no health", []topology.GPU{gpu("completed", "")}, "completed"},
		{"one is unhealthy", []topology.GPU{gpu("completed", "healthy"), gpu("completed", "unhealthy")}, "unhealthy"},
		{"one is in progress", []topology.GPU{gpu("inProgress", "healthy"), gpu("completed", "healthy")}, "inProgress"},
		{"none", []topology.GPU{gpu("notSupported", "")}, "notSupported"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := Summary{GPUs: len(tt.gpus), Fabric: tt.want, Problems: 1}
			if diff := cmp.Diff(want, summarize(&topology.Node{GPUs: tt.gpus, Problems: make([]topology.Finding, 1)})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRequests holds what is asked of the API server.
func TestRequests(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(encoded(t, &topology.Node{Name: "n1"}))
	}))
	t.Cleanup(server.Close)
	c, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := c.Get(t.Context(), "n1"); err != nil || o.Err != nil || o.Node.Name != "n1" {
		t.Errorf("%+v, %v", o, err)
	}
	text := report(t, &topology.Node{Name: "n1"})
	for _, version := range []string{"", "7"} {
		if err := c.Put(t.Context(), text, metav1.ObjectMeta{Name: "n1", ResourceVersion: version}, "m"); err != nil {
			t.Error(err)
		}
	}
	const path, query = "/apis/quoin.dev/v1alpha1/nodereports", "?fieldManager=m"
	want := []string{
		"GET " + path + "/n1",
		"POST " + path + query + ` {"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","metadata":{"name":"n1"},"node":"n1","summary":{"gpus":0,"problems":0}}`,
		"PUT " + path + "/n1" + query + ` {"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","metadata":{"name":"n1","resourceVersion":"7"},"node":"n1","summary":{"gpus":0,"problems":0}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func FuzzObject(f *testing.F) {
	f.Add(`{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","metadata":{"name":"n1"},"node":"n1","summary":{"gpus":0,"problems":0}}`)
	f.Add(`{"metadata":{"name":"n1"},"gpus":[{"index":0}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var o Object
		if json.Unmarshal([]byte(text), &o) != nil {
			return
		}
		if (o.Node == nil) == (o.Err == nil) {
			t.Fatalf("node %v, error %v", o.Node, o.Err)
		}
		if o.Node == nil {
			return
		}
		var again Object
		if err := json.Unmarshal(encoded(t, o.Node), &again); err != nil || again.Err != nil {
			t.Fatalf("read again: %v, %v", err, again.Err)
		}
		if diff := cmp.Diff(o.Node, again.Node, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("read again (-want +got):\n%s", diff)
		}
	})
}
