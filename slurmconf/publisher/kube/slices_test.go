package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// TestNoResourceSlices asks an API server that is older than Kubernetes 1.34.
func TestNoResourceSlices(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		want   string
		works  bool
	}{
		"absent":    {http.StatusNotFound, "has no ResourceSlices, continuing without them", true},
		"forbidden": {http.StatusForbidden, `not readable, trying again" what="resource slices"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch query := req.URL.Query(); {
				case strings.HasPrefix(req.URL.Path, "/apis/resource.k8s.io"):
					w.WriteHeader(tt.status)
				case query.Get("sendInitialEvents") != "":
					w.WriteHeader(http.StatusUnprocessableEntity)
				case query.Get("watch") != "":
					w.WriteHeader(http.StatusOK)
					w.(http.Flusher).Flush()
					<-req.Context().Done()
				default:
					version, kind := "v1", "ConfigMapList"
					if strings.HasSuffix(req.URL.Path, "/nodes") {
						kind = "NodeList"
					}
					if strings.HasSuffix(req.URL.Path, "/nodereports") {
						version, kind = topology.APIVersion, "NodeReportList"
					}
					fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, version, kind)
				}
			}))
			t.Cleanup(server.CloseClientConnections)
			rc := &rest.Config{Host: server.URL}
			client, err := kubernetes.NewForConfig(rc)
			if err != nil {
				t.Fatal(err)
			}
			var log logText
			store := New(client, setsOf(t, rc), reportsOf(t, rc), "quoin-system", compile(t, publication.Publication{ResourceSlices: true}), log.logger())
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
