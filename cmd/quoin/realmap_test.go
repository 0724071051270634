package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

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

// follows asks each publisher, the leader and the other, for the page of 72 nodes, and goes on
// asking for its data until the test ends.
func (s *site) follows() {
	s.t.Helper()
	for name, address := range s.maps {
		ask := func(path string) ([]byte, error) {
			r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+address+path, nil)
			if err != nil {
				return nil, err
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return nil, err
			}
			defer func() { _ = resp.Body.Close() }()
			return io.ReadAll(resp.Body)
		}
		text, err := ask(page.Path)
		if nodes := strings.Count(string(text), `<rect class="n healthy"`); err != nil || nodes != 72 || !strings.Contains(string(text), `"drift":"Agrees: hardware, labels and published files agree"`) {
			s.t.Errorf("the map of %s has %d healthy nodes, %v", name, nodes, err)
		}
		go func() {
			for tick := time.NewTicker(5 * time.Second); ; {
				select {
				case <-s.t.Context().Done():
					return
				case <-tick.C:
					_, _ = ask(page.DataPath) // a publisher may be away now
				}
			}
		}()
	}
}
