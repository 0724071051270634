package nodeagent

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves all series of reg, and those of the registry, which must not be
// registered with it. The series of jobs, of which there may be thousands, are
// kept as text: client_golang would take a tenth of a second for 8,000 of them.
func (j *Jobs) Handler(reg prometheus.Gatherer) http.Handler {
	few, all := prometheus.NewRegistry(), prometheus.NewRegistry()
	few.MustRegister(jobCollector{j.series})
	all.MustRegister(j)
	options := promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true}
	quick := promhttp.HandlerFor(prometheus.Gatherers{reg, few}, options)
	complete := promhttp.HandlerFor(prometheus.Gatherers{reg, all}, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &bufferedResponse{header: make(http.Header), status: http.StatusOK}
		quick.ServeHTTP(answer, r)
		kind := answer.header.Get("Content-Type")
		switch {
		case answer.status != http.StatusOK:
			answer.copyTo(w)
		case strings.HasPrefix(kind, "text/plain"):
			j.series.answer(w, r, answer, "1\n", "")
		case strings.HasPrefix(kind, "application/openmetrics-text"):
			j.series.answer(w, r, answer, "1.0\n", "# EOF\n")
		default:
			complete.ServeHTTP(w, r)
		}
	})
}

// answer writes an answer of text with the series of jobs put in before its end.
// Each of them ends in value.
func (s *jobSeries) answer(w http.ResponseWriter, r *http.Request, answer *bufferedResponse, value, end string) {
	w.Header().Set("Content-Type", answer.header.Get("Content-Type"))
	w.Header().Add("Vary", "Accept-Encoding")
	var out io.Writer = w
	if acceptsGzip(r.Header) {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is one
		defer z.Close()                                //nolint:errcheck // nobody is left to tell
		out = z
	}
	body := answer.body.Bytes()
	body = body[:len(body)-len(end)]
	if !bytes.HasSuffix(answer.body.Bytes(), []byte(end)) {
		body, end = answer.body.Bytes(), ""
	}
	text := append([]byte(nil), body...)
	const head = "# HELP quoin_gpu_job_info " + jobInfoHelp + "\n# TYPE quoin_gpu_job_info gauge\n"
	first := true
	for _, of := range s.snapshot().jobs {
		for i := range of {
			if first {
				text, first = append(text, head...), false
			}
			text = append(append(text, of[i].text...), value...)
		}
		const chunk = 64 << 10
		if len(text) > chunk {
			_, _ = out.Write(text) // nobody is left to tell
			text = text[:0]
		}
	}
	_, _ = out.Write(append(text, end...)) // nobody is left to tell
}

func acceptsGzip(h http.Header) bool {
	for part := range strings.SplitSeq(h.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";")
		if name == "gzip" && weight != "q=0" && weight != "q=0.0" {
			return true
		}
	}
	return false
}

// bufferedResponse keeps an answer.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *bufferedResponse) Header() http.Header         { return b.header }
func (b *bufferedResponse) WriteHeader(status int)      { b.status = status }
func (b *bufferedResponse) Write(p []byte) (int, error) { return b.body.Write(p) }

func (b *bufferedResponse) copyTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), b.header)
	w.WriteHeader(b.status)
	_, _ = w.Write(b.body.Bytes()) // nobody is left to tell
}
