package kube

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// TestNoResourceSlices asks an API server that is older than Kubernetes 1.34, or that gives no right.
func TestNoResourceSlices(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		want   string
		works  bool
	}{
		"absent":    {http.StatusNotFound, "ResourceSlices are not read", true},
		"forbidden": {http.StatusForbidden, "ResourceSlices are not read", true},
		"broken":    {http.StatusInternalServerError, `not readable, trying again" what="resource slices"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			refuses := func(r *http.Request) int {
				if strings.HasPrefix(r.URL.Path, "/apis/resource.k8s.io") {
					return tt.status
				}
				return 0
			}
			rc, client := fakeAPI(t, refuses, func(r *http.Request) any {
				list := metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
				if strings.HasSuffix(r.URL.Path, "/nodes") {
					list.Kind = "NodeList"
				}
				if strings.HasSuffix(r.URL.Path, "/nodereports") {
					list.APIVersion, list.Kind = topology.APIVersion, "NodeReportList"
				}
				return &list
			})
			var log logText
			store := New(client, setsOf(t, rc), reportsOf(t, rc), "quoin-system", compile(t, publication.Publication{}), log.logger())
			run(t, store.Run)
			log.until(t, tt.want)
			if !tt.works {
				return
			}
			if snap, err := store.Snapshot(t.Context()); err != nil || len(snap.Slices) > 0 {
				t.Errorf("%+v, %v", snap, err)
			}
		})
	}
}

// TestReadNodesWithSlices reads the ResourceSlices of NVIDIA's driver.
func TestReadNodesWithSlices(t *testing.T) {
	const attributes = `"attributes":{"type":{"string":"gpu"},"uuid":{"string":"GPU-1"},"productName":{"string":"NVIDIA GB200"}},"capacity":{"memory":{"value":"185Gi"}}`
	minor := 3
	want := map[string]*topology.Node{"a": {Name: "a", GPUs: []topology.GPU{{UUID: "GPU-1", Minor: &minor, Product: "NVIDIA GB200", MemoryMiB: 185 << 10}}}}
	for name, tt := range map[string]struct {
		driver string
		want   map[string]*topology.Node
	}{
		"NVIDIA's driver": {GPUDriver, want},
		"another driver":  {"compute-domain.nvidia.com", nil},
	} {
		spec := `"spec":{"driver":"` + tt.driver + `","nodeName":"a","pool":{"name":"a","generation":1,"resourceSliceCount":1},"devices":[{"name":"gpu-3",` + attributes + `}]}`
		for _, slice := range []string{`{"kind":"ResourceSlice","metadata":{"name":"s"},` + spec + `}`, `{` + spec + `,"metadata":{"name":"s"},"kind":"ResourceSlice"}`} {
			snap, err := (&inputs.ListReader{Slices: ReadSlice}).Read("test", strings.NewReader(`{"items":[{"metadata":{"name":"a"}},`+slice+`]}`))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(tt.want, snap.Slices); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	for _, bad := range []string{`{"kind":"ResourceSlice","metadata":{"name":"s"},"spec":{"devices":3}}`, `{"kind":"ResourceSlice","metadata":{"name":"s"},"spec":"x"}`,
		`{"kind":"ResourceSlice","metadata":{"name":"s"},"spec":{"devices":[{"name":"gpu-0","capacity":{"memory":{"value":"80GiB of memory"}}}]}}`} {
		if _, err := (&inputs.ListReader{Slices: ReadSlice}).Read("test", strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "ResourceSlice s: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// FuzzReadSlice reads specs of ResourceSlices: minor numbers and memory stay within their bounds.
func FuzzReadSlice(f *testing.F) {
	f.Add(`{"driver":"gpu.nvidia.com","nodeName":"n","pool":{"name":"n","generation":1,"resourceSliceCount":1},"devices":[{"name":"gpu-3","attributes":{"type":{"string":"gpu"},"minor":{"int":3}},"capacity":{"memory":{"value":"189471Mi"}}}]}`)
	f.Add(`{"driver":"gpu.nvidia.com","devices":[{"name":"gpu-0","attributes":{"index":{"int":0}},"capacity":{"memory":{"value":-1}}},{"name":"gpu-9999-mig-x","capacity":{"memory":{"value":"1e400"}}}]}`)
	f.Add(`{"driver":"compute-domain.nvidia.com","devices":3}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ReadSlice("s", []byte(text))
		if got == nil {
			return
		}
		if err != nil || got.Name != "s" {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, d := range got.Devices {
			if d.Minor < -1 || d.Minor > 9999 || d.MemoryMiB > 1<<43 {
				t.Errorf("device %+v", d)
			}
		}
	})
}
