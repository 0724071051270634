// Package page serves the map of each publication to browsers: a page, and the data of now. The page
// asks for the data every five seconds. The data have an ETag: if nothing has changed, nothing is sent.
//
// The server works while somebody looks: it looks at the site every two seconds at most, once
// for all viewers. It only answers GET, and says nothing of who may ask: the caller guards the
// handler.
package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// The addresses of the page.
const (
	Path     = "/map"
	DataPath = "/map/data"
	jobPath  = "/map/job"
)

const (
	// every is the time between two looks at the site, and lookTime the longest that one takes.
	every, lookTime = 2 * time.Second, 30 * time.Second
	// writeTime is how long a viewer may take to read an answer.
	writeTime = 10 * time.Second
	// jobTime is the longest that a viewer waits for the GPUs of a job. maxJobs is how many viewers
	// may wait for these.
	jobTime = time.Minute
	maxJobs = 8
)

// Source says what there is to draw.
type Source interface {
	// Publications are the names, in their order. There is one at least.
	Publications() []string
	// Site returns what there is to draw of a publication now.
	Site(ctx context.Context, publication string) (*picture.Site, error)
}

// Server serves the page. Its boards are made at the start.
type Server struct {
	names  []string
	boards map[string]*board
	log    *slog.Logger
	asking atomic.Int64 // for a job
}

// New returns a server of the publications of the source.
func New(source Source, log *slog.Logger) *Server {
	s := &Server{names: source.Publications(), boards: map[string]*board{}, log: log}
	for _, name := range s.names {
		s.boards[name] = &board{source: source, publication: name, options: picture.PageOptions{DataAddress: DataPath, Publications: s.names}}
	}
	return s
}

// Handler answers below Path.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler(Path, http.StatusFound)) // for who types the address alone
	mux.Handle("GET "+Path, s.show("text/html; charset=utf-8", func(s *shot) ([]byte, error) { return s.page() }))
	mux.Handle("GET "+DataPath, s.show("application/json", func(s *shot) ([]byte, error) { return s.data() }))
	mux.HandleFunc("GET "+jobPath, s.job)
	policy := picture.Policy() + "; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// board returns the board that the request asks for: the first, if it names none.
func (s *Server) board(w http.ResponseWriter, r *http.Request) *board {
	name := r.URL.Query().Get("publication")
	if name == "" {
		name = s.names[0]
	}
	b := s.boards[name]
	if b == nil {
		http.Error(w, "no such publication: want one of "+strings.Join(s.names, ", "), http.StatusNotFound)
	}
	return b
}

// show answers with a text of what there is to see, unless the viewer has that text already.
func (s *Server) show(kind string, text func(*shot) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b := s.board(w, r)
		if b == nil {
			return
		}
		wait(w, lookTime)
		shot, err := b.look(r.Context())
		if err != nil {
			s.fail(w, r, b, err)
			return
		}
		w.Header().Set("ETag", shot.view.ETag)
		if r.Header.Get("If-None-Match") == shot.view.ETag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		packed, err := text(shot)
		if err != nil {
			s.fail(w, r, b, err)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed) // the viewer has gone
			return
		}
		if plain, err := gzip.NewReader(bytes.NewReader(packed)); err == nil {
			_, _ = io.Copy(w, plain) //nolint:gosec // our own text
		}
	}
}

// wait lets an answer take longer than the server's limits allow.
func wait(w http.ResponseWriter, most time.Duration) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the question has been read
	_ = control.SetWriteDeadline(time.Now().Add(most + writeTime))
}

// job says which GPUs a running job has of each node, if the page does not have them.
func (s *Server) job(w http.ResponseWriter, r *http.Request) {
	b := s.board(w, r)
	if b == nil {
		return
	}
	jobs, ok := b.source.(Jobs)
	if !ok {
		http.Error(w, errNobody.Error(), http.StatusNotFound)
		return
	}
	defer s.asking.Add(-1)
	if s.asking.Add(1) > maxJobs {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many ask for jobs", http.StatusServiceUnavailable)
		return
	}
	wait(w, jobTime)
	ctx, cancel := context.WithTimeout(r.Context(), jobTime)
	defer cancel()
	gpus, err := jobs.JobGPUs(ctx, b.publication, r.URL.Query().Get("id"))
	if errors.Is(err, client.ErrNoJob) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	} else if err != nil {
		s.fail(w, r, b, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"gpus": gpus}) // the viewer has gone
}

// fail says why there is nothing to show. The page tries again.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, b *board, err error) {
	if r.Context().Err() == nil {
		s.log.Debug("the map cannot be shown", "publication", b.publication, "err", topology.Cut(err.Error(), topology.MaxMessage))
	}
	w.Header().Set("Retry-After", "5")
	http.Error(w, "the map cannot be shown: "+topology.Cut(err.Error(), topology.MaxMessage), http.StatusServiceUnavailable)
}

// board is what all viewers of a publication share.
type board struct {
	source      Source
	publication string
	options     picture.PageOptions
	mu          sync.Mutex
	looked      time.Time
	shot        *shot
	err         error
}

// look returns what there is to see. It looks at the site if the last look is too old.
func (b *board) look(ctx context.Context) (*shot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	began := time.Now()
	if began.Sub(b.looked) < every {
		if b.err != nil {
			return nil, b.err
		}
		return b.shot, nil
	}
	// One viewer looks for all, so the look does not end when that viewer goes.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer cancel()
	site, err := b.source.Site(ctx, b.publication)
	var view *picture.View
	if err == nil {
		view, err = picture.ViewOf(site)
	}
	b.looked, b.err = time.Now(), err
	if err != nil {
		return nil, err
	}
	if b.shot == nil || b.shot.view.ETag != view.ETag {
		b.shot = newShot(view, b.options)
	}
	return b.shot, nil
}
