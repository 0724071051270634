package page_test

import (
	"bufio"
	"context"
	"errors"
	"io"
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
	"github.com/quoin-hpc/quoin/testdata/rig/chromerig"
	"github.com/quoin-hpc/quoin/testdata/rig/loopback"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// counted is a source of a small site that counts how often it is asked.
type counted struct {
	asked   atomic.Int64
	message atomic.Value
	fails   atomic.Bool
}

// Publications is one name.
func (*counted) Publications() []string { return []string{"slurm"} }

// Site is one node.
func (c *counted) Site(context.Context, string) (*picture.Site, error) {
	c.asked.Add(1)
	if c.fails.Load() {
		return nil, errors.New("the API server is away")
	}
	message, _ := c.message.Load().(string)
	return &picture.Site{Publication: "slurm", Plan: &topology.Plan{Nodes: []topology.Placement{{Node: "n1", SlurmName: "n1", Reason: "NoGPUs", Message: message}}}}, nil
}

// stream is an answer that is read while it is written.
type stream struct {
	*httptest.ResponseRecorder
	pipe *io.PipeWriter
	// until is how long the viewer may take to read.
	until time.Time
}

// Write writes to the reader, or fails at the deadline, as a connection does.
func (s *stream) Write(p []byte) (int, error) {
	if !s.until.IsZero() {
		late := time.AfterFunc(time.Until(s.until), func() { _ = s.pipe.CloseWithError(os.ErrDeadlineExceeded) })
		defer late.Stop()
	}
	return s.pipe.Write(p)
}

// Flush does nothing: nothing is kept.
func (s *stream) Flush() {}

// SetReadDeadline does nothing: the question has been read.
func (s *stream) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline bounds the next writes.
func (s *stream) SetWriteDeadline(t time.Time) error { s.until = t; return nil }

// follow follows the events until ctx ends.
func follow(ctx context.Context, h http.Handler, query string) *bufio.Scanner {
	from, to := io.Pipe()
	go func() {
		h.ServeHTTP(&stream{ResponseRecorder: httptest.NewRecorder(), pipe: to}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/map/events"+query, nil))
		_ = to.Close()
	}()
	return bufio.NewScanner(from)
}

// next returns the next event.
func next(s *bufio.Scanner) (event string) {
	for s.Scan() {
		if name, is := strings.CutPrefix(s.Text(), "event: "); is {
			event = name
		} else if s.Text() == "" && event != "" {
			return event
		}
	}
	return "end"
}

// TestEvents follows the events by a clock that only goes on when all wait.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &counted{}
		h := page.New(source, slog.New(slog.DiscardHandler)).Handler()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first, second := follow(ctx, h, "?version=unknown"), follow(ctx, h, "")
		for _, s := range []*bufio.Scanner{first, second} {
			if got := next(s); got != "whole" {
				t.Fatalf("the first event is %s", got)
			}
		}
		source.message.Store("Changed")
		began := time.Now()
		if a, b := next(first), next(second); a != "changes" || b != "changes" || time.Since(began) > 4*time.Second {
			t.Errorf("events %s and %s after %s", a, b, time.Since(began))
		}
		began = time.Now()
		if a, b := next(first), next(second); a != "beat" || b != "beat" || time.Since(began) > 12*time.Second {
			t.Errorf("events %s and %s after %s", a, b, time.Since(began))
		}
		if n, most := source.asked.Load(), int64(20); n > most {
			t.Errorf("two viewers looked %d times, want %d at most", n, most)
		}
		cancel()
		for next(first) != "end" || next(second) != "end" {
		}
		synctest.Wait()
		asked := source.asked.Load()
		time.Sleep(time.Hour)
		if n := source.asked.Load(); n != asked {
			t.Errorf("nobody looks, and the source was asked %d times", n-asked)
		}
	})
}

// TestSlowViewer cuts off a viewer that reads nothing. No other viewer waits for that viewer.
func TestSlowViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &counted{}
		h := page.New(source, slog.New(slog.DiscardHandler)).Handler()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan time.Duration, 1)
		from, to := io.Pipe()
		began := time.Now()
		go func() {
			s := &stream{ResponseRecorder: httptest.NewRecorder(), pipe: to, until: began.Add(time.Hour)}
			h.ServeHTTP(s, httptest.NewRequestWithContext(ctx, http.MethodGet, "/map/events", nil))
			ended <- time.Since(began)
		}()
		if _, err := io.ReadFull(from, make([]byte, len("retry: 500\n\n"))); err != nil { // and no more
			t.Fatal(err)
		}
		quick := follow(ctx, h, "")
		if got := next(quick); got != "whole" || time.Since(began) > time.Second {
			t.Errorf("another viewer gets %s after %s", got, time.Since(began))
		}
		if after := <-ended; after < 9*time.Second || after > 15*time.Second {
			t.Errorf("the viewer is cut off after %s", after)
		}
		cancel()
		for next(quick) != "end" {
		}
	})
}

// TestStreamEnds makes a viewer ask again, so that somebody who lost the right to see the map
// does not go on.
func TestStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		events := follow(t.Context(), page.New(&counted{}, slog.New(slog.DiscardHandler)).Handler(), "")
		for next(events) != "end" {
		}
		if age := time.Since(began); age < time.Minute || age > 10*time.Minute {
			t.Errorf("the events ended after %s", age)
		}
	})
}

// TestViewers refuses more viewers than there may be, and shows them the page.
func TestViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := page.New(&counted{}, slog.New(slog.DiscardHandler)).Handler()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 32 {
			if got := next(follow(ctx, h, "")); got != "whole" {
				t.Fatal(got)
			}
		}
		for path, want := range map[string]int{"/map/events": 503, "/map": 200, "/map?publication=none": 404, "/map/events?publication=none": 404, "/map/none": 404, "/": 302, "/none": 404} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
			if w.Code != want {
				t.Errorf("%s: %d, want %d", path, w.Code, want)
			}
		}
		cancel()
		synctest.Wait()
	})
}

// TestHeaders reads what every answer forbids to browsers. Only GET is answered.
func TestHeaders(t *testing.T) {
	source := &counted{}
	h := page.New(source, slog.New(slog.DiscardHandler)).Handler()
	ask := func(method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/map", nil))
		return w
	}
	w := ask(http.MethodGet)
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
		if w := ask(method); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	failing := &counted{}
	failing.fails.Store(true)
	w = httptest.NewRecorder()
	page.New(failing, slog.New(slog.DiscardHandler)).Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/map", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the API server is away") {
		t.Errorf("%d, %s", w.Code, w.Body.String())
	}
}

// limited gives the events a second, as a server with time limits does. That is shorter than the
// time between two looks at the site. The page itself has no limit, because the machine may be slow.
func limited(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/map/events" {
			control, end := http.NewResponseController(w), time.Now().Add(time.Second)
			_, _ = control.SetReadDeadline(end), control.SetWriteDeadline(end)
		}
		h.ServeHTTP(w, r)
	})
}

// TestRealCutOff ends the server while somebody looks, and starts it again. The limits of the
// server cut nobody off.
func TestRealCutOff(t *testing.T) {
	t.Parallel()
	source, address := &counted{}, loopback.Address(9838)
	listen := func() *http.Server {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: limited(page.New(source, slog.New(slog.DiscardHandler)).Handler()), ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { _ = server.Close() })
		return server
	}
	server, b := listen(), start(t, chromerig.Options{})
	b.do(b.Open("http://"+address+"/map"), b.Wait("document.getElementById('status').textContent === 'live'"), b.Eval("window.same = stream", nil))
	source.message.Store("Changed")
	b.do(b.Wait("data.nodes[0].message === 'Changed'"))
	var same bool
	if b.do(b.Eval("window.same === stream && stream.readyState === EventSource.OPEN", &same)); !same {
		t.Error("the limits of the server cut the events off")
	}
	_ = server.Close()
	b.do(b.Wait("document.getElementById('status').textContent.startsWith('cut off: this is as of ')"))
	source.message.Store("Later")
	listen()
	b.do(b.Wait("document.getElementById('status').textContent === 'live' && data.nodes[0].message === 'Later'"))
}
