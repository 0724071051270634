package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/await"
)

// drawn is what the page has of nodes and jobs.
type drawn struct {
	Nodes []struct{ Name, Block, Use string }
	Jobs  map[string]struct {
		User, Note      string
		Nodes           []int
		GPUs            []string
		Segment, Blocks int
	}
}

// mapped holds that so many nodes of the map are busy, and the others with a worker pod are free:
// on the page, and by quoin map.
func (w *world) mapped(busy int) {
	w.t.Helper()
	w.onPage(fmt.Sprintf("%d nodes of %d are busy", busy, nodeWorkers), func(d *drawn) bool {
		got := map[string]int{}
		for _, n := range d.Nodes {
			if n.Block != "" {
				got[n.Use]++
			}
		}
		return got["busy"] == busy && got["free"] == nodeWorkers-busy
	})
	out, err := w.runQuoin("map")
	want := fmt.Sprintf("\nSlurm's states\n  %5d  free ", nodeWorkers-busy)
	if err != nil || !strings.Contains(out, want) || !strings.Contains(out, fmt.Sprintf("\n  %5d  busy ", busy)) {
		w.t.Errorf("quoin map: %v, want %q\n%s", err, want, out)
	}
}

// onPage asks the publisher for the data of its page, through kubectl port-forward as a person has the page, until
// they are as wanted.
func (w *world) onPage(what string, is func(*drawn) bool) {
	w.t.Helper()
	const address = "127.0.0.1:9838"
	first := w.box.Machines[0]
	forward := w.box.Command(w.t.Context(), "-n", "quoin-system", "port-forward", "deploy/quoin-publisher", "9838")
	if err := forward.Start(); err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = forward.Process.Kill(); _ = forward.Wait() }()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: first.Dial, DisableKeepAlives: true}}
	var said string
	await.Until(w.t, "the page shows: "+what, func() bool {
		resp, err := client.Get("http://" + address + "/map/data") //nolint:noctx // has a time limit
		if err != nil {
			said = err.Error()
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		said = fmt.Sprintf("%s, %v\n%.2000s", resp.Status, err, text)
		var d drawn
		if json.Unmarshal(text, &d) != nil {
			return false
		}
		said = fmt.Sprintf("%+v", d)
		return is(&d)
	}, func() string { return said })
}
