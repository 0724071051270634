package service

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// sharedFor is how long all clients get the same text of the metrics.
const sharedFor = time.Second

// shared returns a handler of the metrics which collects them once at a time and once a
// second. A client that reads slowly holds that text and nothing else.
func shared(reg *prometheus.Registry) http.Handler {
	h := &metrics{collect: promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true})}
	for i, accept := range []string{"text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"} {
		h.forms[i].accept = accept
	}
	return h
}

type metrics struct {
	collect http.Handler
	forms   [2]form // the plain one, and OpenMetrics
}

// form is the metrics in one form.
type form struct {
	accept string
	mu     sync.Mutex
	made   time.Time
	answer answer
}

// ServeHTTP writes the metrics.
func (m *metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := &m.forms[0]
	if strings.Contains(r.Header.Get("Accept"), "application/openmetrics-text") {
		f = &m.forms[1]
	}
	a := f.get(m.collect, r)
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.text.Bytes()) // the client has gone
}

// get returns the text, a new one if the last is too old.
func (f *form) get(collect http.Handler, r *http.Request) answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.made) >= sharedFor {
		question := r.Clone(r.Context())
		question.Header = http.Header{"Accept": {f.accept}}
		f.answer = answer{header: http.Header{}, status: http.StatusOK, text: &bytes.Buffer{}}
		collect.ServeHTTP(&f.answer, question)
		f.made = now
	}
	return f.answer
}

// answer is an answer that is kept.
type answer struct {
	header http.Header
	status int
	text   *bytes.Buffer
}

// Header returns the header.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader keeps the status.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write keeps the text.
func (a *answer) Write(text []byte) (int, error) { return a.text.Write(text) }
