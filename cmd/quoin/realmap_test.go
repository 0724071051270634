package main

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
)

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
