package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// drawn draws the same cluster by quoin map: as it is published, and as render would write it.
func (s *site) drawn() {
	s.t.Helper()
	for _, more := range [][]string{{}, {"--fresh"}} {
		args := append([]string{"map", "--config", filepath.Join(s.Dir, "quoin.yaml"), "--kubeconfig", s.Kubeconfig()}, more...)
		code, text, stderr := quoin(s.t, "", args...)
		if code != 0 || strings.Contains(stderr, "problem") || !strings.Contains(text, "\nPublished place\n     72  Agrees  gb200-[001-072]\n") || !strings.Contains(text, "\nNVLink fabric\n") {
			s.t.Errorf("%v: exit %d, %s\n%s", args, code, stderr, text)
		}
		var document struct{ Nodes map[string]picture.Said }
		code, text, stderr = quoin(s.t, "", append(args, "-o", "json")...)
		if err := json.Unmarshal([]byte(text), &document); err != nil || code != 0 || len(document.Nodes) != 72 || document.Nodes["gb200-001"].Drift.Reason != "Agrees" {
			s.t.Errorf("%v: exit %d, %v, %s\n%.500s", args, code, err, stderr, text)
		}
	}
}

// follows asks each publisher, the leader and the other, for the page of 72 nodes, and follows
// its events until the test ends.
func (s *site) follows() {
	s.t.Helper()
	for name, address := range s.maps {
		ask := func(path string) *http.Response {
			r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+address+path, nil)
			if err != nil {
				s.t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				s.t.Fatal(err)
			}
			return resp
		}
		answer := ask(page.Path)
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if nodes := strings.Count(string(text), `<rect class="n healthy"`); err != nil || nodes != 72 || !strings.Contains(string(text), `"drift":"Agrees: hardware, labels and published files agree"`) {
			s.t.Errorf("the map of %s has %d healthy nodes, %v", name, nodes, err)
		}
		events := ask("/map/events").Body
		context.AfterFunc(s.t.Context(), func() { _ = events.Close() })
		go func() { _, _ = io.Copy(io.Discard, events) }()
	}
}
