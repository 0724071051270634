package nodereport

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/quoin-hpc/quoin/topology"
)

// read returns what a watch of this text gives.
func read(t *testing.T, text string) (events []string) {
	t.Helper()
	w := newStream(io.NopCloser(strings.NewReader(text)))
	for e := range w.ResultChan() {
		switch o := e.Object.(type) {
		case *Object:
			events = append(events, fmt.Sprintf("%s %s version %s, parsed %t", e.Type, o.Name, o.ResourceVersion, o.Node != nil))
		case *metav1.Status:
			events = append(events, fmt.Sprintf("%s %d %s", e.Type, o.Code, o.Reason))
		}
	}
	return events
}

// TestStream reads events as an API server writes them.
func TestStream(t *testing.T) {
	report := string(encoded(t, &topology.Node{Name: "n1"}))
	report = strings.Replace(report, `"name":"n1"`, `"name":"n1","resourceVersion":"7"`, 1)
	event := func(kind, object string) string { return fmt.Sprintf("{\"type\":%q,\"object\":%s}\n", kind, object) }
	bookmark := event("BOOKMARK", `{"kind":"NodeReport","apiVersion":"quoin.dev/v1alpha1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}},"node":""}`)
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"all kinds", event("ADDED", report) + event("MODIFIED", report) + event("DELETED", report) + bookmark,
			[]string{"ADDED n1 version 7, parsed true", "MODIFIED n1 version 7, parsed true", "DELETED n1 version 7, parsed true", "BOOKMARK  version 9, parsed false"}},
		{"a report that cannot be parsed", event("ADDED", strings.Replace(report, `"node":`, `"color":1,"node":`, 1)) + event("ADDED", report),
			[]string{"ADDED n1 version 7, parsed false", "ADDED n1 version 7, parsed true"}},
		{"the version is too old", event("ERROR", `{"kind":"Status","code":410,"reason":"Expired"}`), []string{"ERROR 410 Expired"}},
		{"cut off", event("ADDED", report) + `{"type":"ADDED","object":{"kind":`, []string{"ADDED n1 version 7, parsed true"}},
		{"no JSON", event("ADDED", report) + "<html>", []string{"ADDED n1 version 7, parsed true", "ERROR 500 InternalError"}},
		{"an unknown type", event("NEWS", report), []string{"ERROR 500 InternalError"}},
		{"no object", `{"type":"ADDED"}`, []string{"ERROR 500 InternalError"}},
		{"no event", `[]`, []string{"ERROR 500 InternalError"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, read(t, tt.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzStream(f *testing.F) {
	f.Add(`{"type":"ADDED","object":{"metadata":{"name":"n1"},"node":"n1"}}`)
	f.Add(`{"type":"ERROR","object":{"code":410}} {"object":null,"type":"ADDED"}`)
	f.Fuzz(func(t *testing.T, text string) {
		s := newStream(io.NopCloser(strings.NewReader(text)))
		n := 0
		for e := range s.ResultChan() {
			if n++; e.Object == nil || e.Type == "" || n > len(text) {
				t.Fatalf("event %+v, the %dth", e, n)
			}
		}
	})
}

var errBroken = errors.New("broken")

// broken is a connection that breaks.
type broken struct{ closed int }

func (*broken) Read([]byte) (int, error) { return 0, errBroken }

func (b *broken) Close() error { b.closed++; return nil }

// TestStreamCloses holds that a watch that ends closes its connection.
func TestStreamCloses(t *testing.T) {
	b := &broken{}
	w := newStream(b)
	for e := range w.ResultChan() {
		if e.Type != watch.Error {
			t.Errorf("event %+v", e)
		}
	}
	w.Stop()
	if b.closed == 0 {
		t.Error("the connection stays open")
	}
}
