package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/testdata/rig/await"
)

// mapped reads the publisher's page as a person does, by kubectl port-forward: so many nodes of
// the map are busy, and the others with a worker pod are free.
func (w *world) mapped(busy int) {
	w.t.Helper()
	const address = "127.0.0.1:9838"
	first := w.box.Machines[0]
	forward := w.box.Command(w.t.Context(), "-n", "quoin-system", "port-forward", "deploy/quoin-publisher", "9838")
	if err := forward.Start(); err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = forward.Process.Kill(); _ = forward.Wait() }()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: first.Dial, DisableKeepAlives: true}}
	want := map[string]int{"busy": busy, "free": nodeWorkers - busy}
	var said string
	await.Until(w.t, fmt.Sprintf("the page shows %v", want), func() bool {
		resp, err := client.Get("http://" + address + "/map") //nolint:noctx // has a time limit
		if err != nil {
			said = err.Error()
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		said = fmt.Sprintf("%s, %v\n%.2000s", resp.Status, err, text)
		_, after, _ := strings.Cut(string(text), `id="data">`)
		data, _, _ := strings.Cut(after, "</script>")
		var view struct {
			Nodes []struct{ Block, Use string }
		}
		if json.Unmarshal([]byte(data), &view) != nil {
			return false
		}
		got := map[string]int{}
		for _, n := range view.Nodes {
			if n.Block != "" {
				got[n.Use]++
			}
		}
		said = fmt.Sprint(got)
		return got["busy"] == want["busy"] && got["free"] == want["free"]
	}, func() string { return said })
}
