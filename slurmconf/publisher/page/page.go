// Package page serves the map of each publication to browsers: a page, and after it only what
// changes, as server-sent events.
//
// The server works while somebody looks: it looks at the site every two seconds at most, once
// for all viewers, and remembers the last changes. It only answers GET, and says nothing of who
// may ask: the caller guards the handler.
package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	Path       = "/map"
	eventsPath = "/map/events"
	jobPath    = "/map/job"
)

const (
	// every is the time between two looks at the site, and lookTime the longest that one takes.
	every, lookTime = 2 * time.Second, 30 * time.Second
	// beatEvery is the longest silence of the events, so that a viewer knows when the page is
	// cut off.
	beatEvery = 10 * time.Second
	// writeTime is how long a viewer may take to read an event or the page.
	writeTime = 10 * time.Second
	// streamTime is how long a viewer follows until it has to ask again, so that somebody who
	// lost the right to see the map does not go on.
	streamTime = 5 * time.Minute
	// maxViewers is how many may follow the events. The others get the page alone.
	maxViewers = 32
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
	names   []string
	boards  map[string]*board
	log     *slog.Logger
	viewers atomic.Int64
	asking  atomic.Int64 // for a job
}

// New returns a server of the publications of the source.
func New(source Source, log *slog.Logger) *Server {
	s := &Server{names: source.Publications(), boards: map[string]*board{}, log: log}
	for _, name := range s.names {
		s.boards[name] = &board{source: source, publication: name}
	}
	return s
}

// Handler answers below Path.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler(Path, http.StatusFound)) // for who types the address alone
	mux.HandleFunc("GET "+Path, s.page)
	mux.HandleFunc("GET "+eventsPath, s.events)
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

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	b := s.board(w, r)
	if b == nil {
		return
	}
	shot, err := b.look(r.Context())
	var text []byte
	if err == nil {
		text, err = shot.page(picture.PageOptions{Events: eventsPath, Publications: s.names})
	}
	if err != nil {
		s.fail(w, r, b, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(text) // the viewer has gone
		return
	}
	if plain, err := gzip.NewReader(bytes.NewReader(text)); err == nil {
		_, _ = io.Copy(w, plain) //nolint:gosec // our own text
	}
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
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // Slurm may need longer than other answers
	_ = control.SetWriteDeadline(time.Now().Add(jobTime + writeTime))
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

// events tells a viewer what changes until the viewer goes.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	b := s.board(w, r)
	if b == nil {
		return
	}
	defer s.viewers.Add(-1)
	if s.viewers.Add(1) > maxViewers {
		w.Header().Set("Retry-After", "30")
		http.Error(w, fmt.Sprintf("%d viewers follow the map already", maxViewers), http.StatusServiceUnavailable)
		return
	}
	v := viewer{to: w, control: http.NewResponseController(w), version: r.URL.Query().Get("version")}
	if id := r.Header.Get("Last-Event-ID"); id != "" { // the browser tries again by itself
		v.version = id
	}
	_ = v.control.SetReadDeadline(time.Time{}) // the question has been read; its end is what is waited for
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "retry: 500\n\n") // sent with the first event
	ctx, cancel := context.WithTimeout(r.Context(), streamTime)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := v.follow(ctx, b); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// viewer is somebody who follows the events.
type viewer struct {
	to      io.Writer
	control *http.ResponseController
	version string
	spoke   time.Time
}

// follow tells what has changed since the version that the viewer has. If the site
// cannot be read, no beat is sent. Then the page says how old its data are.
func (v *viewer) follow(ctx context.Context, b *board) error {
	shot, err := b.look(ctx)
	if err != nil {
		return ctx.Err()
	}
	var text bytes.Buffer
	changes, known := shot.since(v.version)
	switch {
	case !known:
		fmt.Fprintf(&text, "id: %s\nevent: whole\ndata:\n\n", shot.view.Version)
	case len(changes) > 0:
		for _, c := range changes {
			fmt.Fprintf(&text, "id: %s\nevent: changes\ndata: %s\n\n", c.to, c.text)
		}
	case time.Since(v.spoke) >= beatEvery:
		text.WriteString("event: beat\ndata: .\n\n")
	default:
		return nil
	}
	v.version, v.spoke = shot.view.Version, time.Now()
	_ = v.control.SetWriteDeadline(v.spoke.Add(writeTime))
	if _, err := v.to.Write(text.Bytes()); err != nil {
		return err
	}
	return v.control.Flush()
}

// board is what all viewers of a publication share.
type board struct {
	source      Source
	publication string
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
	next, err := b.next(ctx)
	b.looked, b.err = time.Now(), err
	if err != nil { // the last shot stays, for what comes after it
		return nil, err
	}
	b.shot = next
	return next, nil
}

// next returns the shot that follows the present one.
func (b *board) next(ctx context.Context) (*shot, error) {
	site, err := b.source.Site(ctx, b.publication)
	if err != nil {
		return nil, err
	}
	view, err := picture.ViewOf(site)
	if err != nil {
		return nil, err
	}
	return b.shot.then(view)
}
