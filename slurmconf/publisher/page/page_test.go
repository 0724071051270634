package page_test

import (
	"context"
	"errors"
	"html"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/test/rig/chromerig"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// counted is a source of a small site that counts how often it is asked.
type counted struct {
	asked   atomic.Int64
	message atomic.Value
	fails   atomic.Bool
	// slow is how long a look takes.
	slow time.Duration
}

// Publications is one name.
func (*counted) Publications() []string { return []string{"slurm"} }

// Site is one node.
func (c *counted) Site(context.Context, string) (*picture.Site, error) {
	c.asked.Add(1)
	time.Sleep(c.slow)
	if c.fails.Load() {
		return nil, errors.New("the API server is away")
	}
	message, _ := c.message.Load().(string)
	return &picture.Site{Publication: "slurm", Plan: &topology.Plan{Nodes: []topology.Placement{{Node: "n1", SlurmName: "n1", Reason: "NoGPUs", Message: message}}}}, nil
}

// ask asks for a path. If etag is not empty, the answer is only wanted if it is another one.
func ask(t *testing.T, h http.Handler, path, etag string) *httptest.ResponseRecorder {
	t.Helper()
	r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), httptest.NewRecorder()
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	h.ServeHTTP(w, r)
	return w
}

// TestPoll asks for the data of a site that changes, fails, and comes back.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &counted{}
		h := page.New(source, slog.New(slog.DiscardHandler)).Handler()
		etag := ""
		for _, tt := range []struct {
			name   string
			change func()
			code   int
			body   string
			same   bool // as the last ETag
		}{
			{"the first answer", func() {}, http.StatusOK, `{"layout":`, false},
			{"nothing has changed", func() {}, http.StatusNotModified, "", true},
			{"a node has changed", func() { source.message.Store("Changed") }, http.StatusOK, `"message":"Changed"`, false},
			{"nothing has changed since", func() {}, http.StatusNotModified, "", true},
			{"the site cannot be read", func() { source.fails.Store(true) }, http.StatusServiceUnavailable, "the API server is away", false},
			{"the site is as before", func() { source.fails.Store(false) }, http.StatusNotModified, "", true},
		} {
			tt.change()
			time.Sleep(5 * time.Second)
			w := ask(t, h, page.DataPath, etag)
			if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.body) || (w.Code == http.StatusNotModified) != (w.Body.Len() == 0) {
				t.Errorf("%s: %d, want %d: %s", tt.name, w.Code, tt.code, w.Body)
			}
			now := w.Header().Get("ETag")
			if same := now == etag; same != tt.same {
				t.Errorf("%s: the ETag is %s after %s", tt.name, now, etag)
			}
			if now != "" {
				etag = now
			}
		}
		if text := ask(t, h, page.Path, "").Body.String(); !strings.Contains(text, `data-etag="`+html.EscapeString(etag)+`" data-address="/map/data"`) {
			t.Errorf("the page does not have the ETag %s of its data:\n%s", etag, text)
		}
	})
}

// TestLooks has three viewers who ask one after the other. The site is looked at every two seconds
// at most, and not at all while nobody asks.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &counted{}
		h := page.New(source, slog.New(slog.DiscardHandler)).Handler()
		for range 60 {
			ask(t, h, page.DataPath, "")
			time.Sleep(time.Second)
		}
		if n := source.asked.Load(); n != 30 {
			t.Errorf("%d looks in a minute, want 30", n)
		}
		time.Sleep(time.Hour)
		if n := source.asked.Load(); n != 30 {
			t.Errorf("%d looks while nobody asks", n-30)
		}
	})
}

// timed is an answer of a server with time limits.
type timed struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

// Write fails after the limit.
func (w *timed) Write(p []byte) (int, error) {
	if time.Now().After(w.write) {
		return 0, os.ErrDeadlineExceeded
	}
	return w.ResponseRecorder.Write(p)
}

// SetReadDeadline bounds the reading. A server ends the question of who is late.
func (w *timed) SetReadDeadline(t time.Time) error { w.read = t; return nil }

// SetWriteDeadline bounds the writing.
func (w *timed) SetWriteDeadline(t time.Time) error { w.write = t; return nil }

// TestSlowLook has a site that takes longer to read than the limits of the server allow.
func TestSlowLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := page.New(&counted{slow: 25 * time.Second}, slog.New(slog.DiscardHandler)).Handler()
		for _, path := range []string{page.Path, page.DataPath} {
			limit := time.Now().Add(10 * time.Second)
			w := &timed{httptest.NewRecorder(), limit, limit}
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			if w.Body.Len() == 0 || !w.read.IsZero() {
				t.Errorf("%s: %d bytes, the question ends at %s", path, w.Body.Len(), w.read)
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestAddresses asks for what there is, and what there is not.
func TestAddresses(t *testing.T) {
	h := page.New(&counted{}, slog.New(slog.DiscardHandler)).Handler()
	for path, want := range map[string]int{"/map": 200, "/map/data": 200, "/map?publication=slurm": 200, "/map?publication=none": 404, "/map/data?publication=none": 404, "/map/none": 404, "/": 302, "/none": 404} {
		if w := ask(t, h, path, ""); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

// TestHeaders reads what every answer forbids to browsers. Only GET is answered.
func TestHeaders(t *testing.T) {
	source := &counted{}
	h := page.New(source, slog.New(slog.DiscardHandler)).Handler()
	w := ask(t, h, page.Path, "")
	for header, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Content-Type": "text/html; charset=utf-8", "Cross-Origin-Resource-Policy": "same-origin"} {
		if got := w.Header().Get(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
	policy := w.Header().Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none';") || !strings.HasSuffix(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %s", policy)
	}
	if !strings.HasPrefix(w.Body.String(), "<!doctype html>") {
		t.Errorf("a browser without gzip gets %.40q", w.Body.String())
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, page.Path, nil)); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

// TestRealCutOff ends the server while somebody looks, and starts it again.
func TestRealCutOff(t *testing.T) {
	t.Parallel()
	source, address := &counted{}, loopback.Address(9838)
	listen := func() *http.Server {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: page.New(source, slog.New(slog.DiscardHandler)).Handler(), ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { _ = server.Close() })
		return server
	}
	server, b := listen(), start(t, chromerig.Options{})
	b.do(b.Open("http://"+address+"/map"), b.Wait("document.getElementById('status').textContent === 'live'"))
	source.message.Store("Changed")
	b.do(b.Wait("data.nodes[0].message === 'Changed'"))
	_ = server.Close()
	b.do(b.Wait("document.getElementById('status').textContent.startsWith('cut off: this is as of ')"))
	source.message.Store("Later")
	listen()
	b.do(b.Wait("document.getElementById('status').textContent === 'live' && data.nodes[0].message === 'Later'"))
}
